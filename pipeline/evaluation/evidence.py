"""Automatic evidence of how an episode went wrong, or was right by luck.

Source: the ReAct paper, table 2, which sorts episodes by hand. What is found here are signs that a
person can check at the steps named; they may overlap, and an episode may show none.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final, Literal

from pipeline.evaluation.ambiguity import ambiguity, is_closed
from pipeline.evaluation.likeness import as_date, occurs, plain, within
from pipeline.evaluation.metrics import is_correct
from pipeline.rendering.parse import split_action
from pipeline.trajectories.schema import ERRORED, Outcome, Record, Step, Trajectory

Flag = Literal[
    "repeated_loop", "uninformative_search", "unsupported_answer", "label_ambiguity", "unfinished", "errored"
]
FLAGS: Final[tuple[Flag, ...]] = (
    "repeated_loop",
    "uninformative_search",
    "unsupported_answer",
    "label_ambiguity",
    "unfinished",
    "errored",
)

Verdict = Literal["right", "wrong", "errored"]
"""``errored``: the environment or the model failed, so that the agent was neither."""

Support = Literal["supported", "unsupported", "no_answer", "closed", "nothing_observed"]
"""Whether the answer stands in what was observed, or why that cannot be asked: there is no answer;
it is a label (yes, no, a claim's); or the method answers without looking (standard, cot, a vote)."""

REPEATS: Final = 3
"""The same action with the same observation so often, with others between, is a loop. Once more is
not: a page is opened again to look something up on it. In a row, twice is enough."""

MAX_CYCLE: Final = 8
"""Turns of the longest cycle that is looked for."""

UNINFORMATIVE_SHARE: Final = 0.5
"""From this share of an episode's searches and look-ups on, their failing is a sign."""

LONG_ANSWER: Final = 4
"""An answer of so many words need not stand word for word: each word of content must occur."""

ANSWERING: Final = frozenset({"standard", "cot", "cot_sc"})
"""Methods that answer at once. They observe nothing, so nothing can support them."""

_MISS = re.compile(r"Could not find .* Similar: (\[.*)", re.DOTALL)
_NOTHING = (
    "no more results",
    "there were no results matching the query",
    "there is no page to look in",
    "invalid action",
)
_FUNCTION_WORDS = "and as at by for from in into is it its of on or to was were with"


class Finding(Record):
    """One sign: which, at which steps (from 1), and why, in a few words."""

    flag: Flag
    steps: list[int]
    why: str


class Evidence(Record):
    """What one episode shows. ``missed`` of its ``looks`` (searches and look-ups) told it nothing."""

    trajectory: str
    verdict: Verdict
    looks: int
    missed: int
    support: Support
    findings: list[Finding]

    @property
    def flags(self) -> set[Flag]:
        """The names of the findings."""
        return {finding.flag for finding in self.findings}

    @property
    def suspect(self) -> bool:
        """Right, but by nothing that was observed: perhaps a false positive."""
        return self.verdict == "right" and self.support == "unsupported"


def verdict(trajectory: Trajectory) -> Verdict:
    """Right, wrong, or errored; never right unless finished."""
    if trajectory.outcome in ERRORED:
        return "errored"
    return "right" if is_correct(trajectory) else "wrong"


def gather(trajectory: Trajectory) -> Evidence:
    """Everything that an episode shows. Never raises, whatever the episode says."""
    looks = [number for number, step in _numbered(trajectory) if _is_look(step)]
    missed = [number for number in looks if _is_missed(trajectory.steps[number - 1])]
    support = _support(trajectory)
    found = [
        _loop(trajectory),
        _uninformative(looks, missed),
        _unsupported(trajectory, support),
        _ambiguous(trajectory),
        _ended(trajectory),
    ]
    return Evidence(
        trajectory=trajectory.id,
        verdict=verdict(trajectory),
        looks=len(looks),
        missed=len(missed),
        support=support,
        findings=[finding for finding in found if finding],
    )


def _numbered(trajectory: Trajectory) -> list[tuple[int, Step]]:
    return list(enumerate(trajectory.steps, start=1))


def _last(trajectory: Trajectory) -> list[int]:
    return [len(trajectory.steps)] if trajectory.steps else []


def _loop(trajectory: Trajectory) -> Finding | None:
    """A stretch of turns given again at once, or one turn given again and again."""
    turns = [(number, _turn(step)) for number, step in _numbered(trajectory) if step.action.strip()]
    numbers, moves = [number for number, _ in turns], [move for _, move in turns]
    often = {move for move, count in Counter(moves).items() if count >= REPEATS}
    again = {
        number for place, (number, move) in enumerate(turns) if move in often and moves.index(move) < place
    }
    for length in range(1, min(MAX_CYCLE, len(moves) // 2) + 1):
        for start in range(len(moves) - 2 * length + 1):
            middle, end = start + length, start + 2 * length
            if moves[start:middle] == moves[middle:end]:
                again.update(numbers[middle:end])
    if not again:
        return None
    return Finding(flag="repeated_loop", steps=sorted(again), why="the same actions, the same observations")


def _turn(step: Step) -> tuple[str, str]:
    """Action and observation as they are compared: case and spaces do not matter."""
    return " ".join(step.action.casefold().split()), " ".join(step.observation.split())


def _is_look(step: Step) -> bool:
    """A search, a look-up, or an action that could not be carried out; a step without an action is none."""
    if not step.action.strip():
        return False
    verb, _ = split_action(step.action.strip())
    return step.invalid or _says_nothing(step) or verb.strip().lower() in ("search", "lookup")


def _is_missed(step: Step) -> bool:
    return step.invalid or not _seen(step).strip() or _says_nothing(step) or bool(_MISS.match(_seen(step)))


def _seen(step: Step) -> str:
    # The published loop can leave a backslash and an n behind where a line ended.
    return step.observation.strip().removesuffix("\\n").strip()


def _says_nothing(step: Step) -> bool:
    return _seen(step).casefold().startswith(_NOTHING)


def _uninformative(looks: list[int], missed: list[int]) -> Finding | None:
    if not missed or len(missed) < UNINFORMATIVE_SHARE * len(looks):
        return None
    why = f"{len(missed)} of {len(looks)} searches and look-ups told nothing"
    return Finding(flag="uninformative_search", steps=missed, why=why)


def observed(trajectory: Trajectory) -> str:
    """What the agent read, a text a line: not the question, and not its own words repeated to it."""
    opening = trajectory.opening.replace(trajectory.task.instruction, " ")
    finished = trajectory.outcome is Outcome.FINISHED
    steps = trajectory.steps[:-1] if finished else trajectory.steps
    return "\n".join([opening, *(_news(step) for step in steps)])


def _news(step: Step) -> str:
    if step.invalid or _says_nothing(step):
        return ""
    miss = _MISS.match(_seen(step))
    return miss[1] if miss else step.observation


def _answer(trajectory: Trajectory) -> str:
    """The answer of a finished episode; else empty."""
    return (trajectory.answer or "").strip() if trajectory.outcome is Outcome.FINISHED else ""


def _support(trajectory: Trajectory) -> Support:
    answer = _answer(trajectory)
    if not answer:
        return "no_answer"
    if is_closed(trajectory.task):
        return "closed"
    if _answers_at_once(trajectory):
        return "nothing_observed"
    return "supported" if _stands_in(answer, observed(trajectory)) else "unsupported"


def _answers_at_once(trajectory: Trajectory) -> bool:
    if trajectory.method in ANSWERING or trajectory.settings.get("max_steps") == 1:
        return True
    return bool(trajectory.steps and trajectory.steps[-1].votes)


def _stands_in(answer: str, text: str) -> bool:
    if occurs(answer, text):
        return True
    words = plain(answer, " ").split()
    content = [word for word in words if word not in _FUNCTION_WORDS.split()]
    # A date may be written in another order.
    if not content or (len(words) < LONG_ANSWER and as_date(answer) is None):
        return False
    read = plain(text, " ")
    return all(within(word, read) for word in content)


def _unsupported(trajectory: Trajectory, support: Support) -> Finding | None:
    if support != "unsupported":
        return None
    return Finding(
        flag="unsupported_answer",
        steps=_last(trajectory),
        why="the answer stands in nothing that was observed",
    )


def _ambiguous(trajectory: Trajectory) -> Finding | None:
    answer = _answer(trajectory)
    if not answer or verdict(trajectory) != "wrong":
        return None
    why = ambiguity(answer, trajectory.task)
    return Finding(flag="label_ambiguity", steps=_last(trajectory), why=why) if why else None


def _ended(trajectory: Trajectory) -> Finding | None:
    if trajectory.outcome is Outcome.FINISHED:
        return None
    flag: Flag = "errored" if trajectory.outcome in ERRORED else "unfinished"
    return Finding(flag=flag, steps=_last(trajectory), why=trajectory.outcome.value.replace("_", " "))
