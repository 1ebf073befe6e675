"""The automatic part of a failure analysis: how often each sign shows in right and in wrong episodes.

Source: the ReAct paper, table 2, whose columns are labelled by hand (``annotations``). Every share
names its denominator, and errored episodes are neither right nor wrong.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from pipeline.evaluation.evidence import FLAGS, Evidence, Flag, Verdict, gather
from pipeline.evaluation.rows import Group
from pipeline.evaluation.tables import Sheet, share, short_name, to_markdown, to_terminal
from pipeline.trajectories.schema import Record, Trajectory

if TYPE_CHECKING:
    from rich.console import RenderableType

NO_SIGN: Final = "no_sign"
"""Counted beside the flags: episodes that show none of them."""

_OF_WRONG: Final[tuple[Flag, ...]] = tuple(flag for flag in FLAGS if flag != "errored")
_OF_RIGHT: Final[tuple[Flag, ...]] = ("repeated_loop", "uninformative_search", "unsupported_answer")

_WRONG_NOTE: Final = (
    "Signs may overlap. Of all wrong episodes, but uninformative search of those that searched, unsupported "
    "answer of those whose answer could have been observed, label ambiguity of those with an answer. "
    "Errored episodes (the environment or the model failed) are not among the wrong."
)
_RIGHT_NOTE: Final = (
    "Of all right episodes, but uninformative search of those that searched, and unsupported answer (right, "
    "yet standing in nothing that was observed: perhaps a false positive) of those whose answer could have "
    "been observed: methods that answer at once, yes and no, and labels of claims are not judged."
)


class FlagCount(Record):
    """Episodes that show a sign, of those in which it could have shown."""

    n: int
    of: int


class GroupFailures(Record):
    """The signs of one method with one model, among its right and among its wrong episodes.

    ``episodes`` = ``right_episodes`` + ``wrong_episodes`` + ``errored_episodes``: those that were
    played. ``right`` and ``wrong`` map each flag, and ``no_sign``, to its count.
    """

    method: str
    model: str
    episodes: int
    right_episodes: int
    wrong_episodes: int
    errored_episodes: int
    right: dict[str, FlagCount]
    wrong: dict[str, FlagCount]


class FailureTable(Record):
    """The signs of every group, in the order in which the groups were given."""

    groups: list[GroupFailures]


class Tally:
    """Counts the evidence of one group, one episode at a time."""

    def __init__(self, method: str, model: str) -> None:
        self._name = (method, model)
        self._episodes: Counter[Verdict] = Counter()
        self._shown: defaultdict[Verdict, Counter[str]] = defaultdict(Counter)
        self._possible: defaultdict[Verdict, Counter[str]] = defaultdict(Counter)

    def add(self, evidence: Evidence) -> None:
        """Count one episode."""
        self._episodes[evidence.verdict] += 1
        self._shown[evidence.verdict].update(evidence.flags or {NO_SIGN})
        possible = [name for name in (*FLAGS, NO_SIGN) if could_show(evidence, name)]
        self._possible[evidence.verdict].update(possible)

    def result(self) -> GroupFailures:
        """The counts so far."""
        return GroupFailures(
            method=self._name[0],
            model=self._name[1],
            episodes=self._episodes.total(),
            right_episodes=self._episodes["right"],
            wrong_episodes=self._episodes["wrong"],
            errored_episodes=self._episodes["errored"],
            right=self._counts("right", _OF_RIGHT),
            wrong=self._counts("wrong", _OF_WRONG),
        )

    def _counts(self, verdict: Verdict, flags: Sequence[str]) -> dict[str, FlagCount]:
        shown, possible = self._shown[verdict], self._possible[verdict]
        return {name: FlagCount(n=shown[name], of=possible[name]) for name in (*flags, NO_SIGN)}


def could_show(evidence: Evidence, flag: str) -> bool:
    """Whether the sign could have shown in this episode: what its share is a share of."""
    if flag == "uninformative_search":
        return evidence.looks > 0
    if flag == "unsupported_answer":
        return evidence.support in ("supported", "unsupported")
    if flag == "label_ambiguity":
        return evidence.verdict == "wrong" and evidence.support != "no_answer"
    return True


def failure_table(groups: Sequence[Group]) -> FailureTable:
    """The signs in every group of an evaluation."""
    return FailureTable(groups=[_tally(group.method, group.model, group.trajectories) for group in groups])


def failures_by_name(trajectories: Iterable[Trajectory]) -> FailureTable:
    """The signs of trajectories as they come, one at a time, grouped by method and model and sorted."""
    tallies: dict[tuple[str, str], Tally] = {}
    for trajectory in trajectories:
        name = (trajectory.method, trajectory.model)
        tallies.setdefault(name, Tally(*name)).add(gather(trajectory))
    return FailureTable(groups=[tallies[name].result() for name in sorted(tallies)])


def _tally(method: str, model: str, trajectories: Iterable[Trajectory]) -> GroupFailures:
    tally = Tally(method, model)
    for trajectory in trajectories:
        tally.add(gather(trajectory))
    return tally.result()


def failure_sheets(table: FailureTable) -> list[Sheet]:
    """The table for readers: one sheet of the wrong episodes, one of the right."""
    return [
        Sheet(
            "Signs in wrong episodes",
            ("method", "model", "played", "errored", "wrong", *map(_words, (*_OF_WRONG, NO_SIGN))),
            [
                [*_head(group), str(group.errored_episodes), str(group.wrong_episodes), *_shares(group.wrong)]
                for group in table.groups
            ],
            _WRONG_NOTE,
        ),
        Sheet(
            "Signs in right episodes",
            ("method", "model", "played", "right", *map(_words, (*_OF_RIGHT, NO_SIGN))),
            [[*_head(group), str(group.right_episodes), *_shares(group.right)] for group in table.groups],
            _RIGHT_NOTE,
        ),
    ]


def failure_markdown(table: FailureTable, level: int = 2) -> str:
    """The table as Markdown, headings of this level included."""
    return to_markdown(failure_sheets(table), level)


def failure_terminal(table: FailureTable) -> RenderableType:
    """The table for ``rich.console.Console.print``."""
    return to_terminal(failure_sheets(table))


def _words(flag: str) -> str:
    return flag.replace("_", " ")


def _head(group: GroupFailures) -> list[str]:
    return [group.method, short_name(group.model), str(group.episodes)]


def _shares(counts: dict[str, FlagCount]) -> list[str]:
    return [share(count.n, count.of) for count in counts.values()]
