"""A session of labelling: episodes are shown one after another, and a key labels each.

What the computer thinks of an episode is shown after the choice, so that it does not sway it.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Final

import typer

from pipeline.cli.show import visible
from pipeline.errors import StoreError
from pipeline.evaluation.annotations import AnnotationFile, Draw, Label, annotate, draw, labels_for
from pipeline.evaluation.evidence import gather, verdict
from pipeline.trajectories.schema import Trajectory
from pipeline.trajectories.store import TrajectoryStore

KEYS: Final[dict[Label, str]] = {
    "true_positive": "t",
    "false_positive": "f",
    "reasoning": "r",
    "search": "s",
    "hallucination": "h",
    "label": "l",
    "other": "o",
}
MEANINGS: Final[dict[Label, str]] = {
    "true_positive": "true positive: right reasoning and right facts",
    "false_positive": "false positive: right, but with reasoning or facts that are made up",
    "reasoning": "reasoning error: wrong reasoning, or stuck in a loop",
    "search": "search result error: the searches came back empty or useless",
    "hallucination": "hallucination: reasoning or facts that are made up",
    "label": "label ambiguity: right, but it does not match the label precisely",
    "other": "something else",
}
NEXT, BACK, QUIT = "n", "b", "q"

_LONGEST = 20_000
"""Characters of one text that are shown."""


def plan(store: TrajectoryStore, only: tuple[str | None, str | None], per_class: int, seed: int) -> Draw:
    """Draw the sample among the episodes of a method and a model (None: of any).

    Raises:
        StoreError: nothing could be labelled, or the file is damaged.
    """
    method, model = only
    chosen = (
        trajectory
        for trajectory in store.read()
        if method in (None, trajectory.method) and model in (None, trajectory.model)
    )
    sample = draw(chosen, per_class, seed)
    if not sample.ids:
        raise StoreError(
            f"{store.path}: no episode to label (method {method or 'any'}, model {model or 'any'}); "
            "episodes that failed through an error are neither right nor wrong."
        )
    for group in sorted({(method, model) for method, model, _ in sample.found}):
        typer.echo(visible(_drawn(sample, group)))
    return sample


def _drawn(sample: Draw, group: tuple[str, str]) -> str:
    parts = [
        f"{sample.drawn[*group, correct]} of {sample.found[*group, correct]} {word}"
        for correct, word in ((True, "right"), (False, "wrong"))
    ]
    return f"{group[0]} by {group[1]}: drew {' and '.join(parts)}"


class Session:
    """Asks for the labels that are missing, in the order of the draw; back reaches those that are there."""

    def __init__(self, store: TrajectoryStore, sample: Draw, labels: AnnotationFile) -> None:
        self._store = store
        self._labels = labels
        held = {one.id: labels.holds(one) for one in store.read(sample.ids)}
        # Those with a label first: the session begins behind them.
        self._order = sorted(held, key=lambda identity: not held[identity])
        self._start = sum(held.values())

    def run(self) -> None:
        """Until every episode was shown, or the annotator leaves. Every label is kept at once."""
        total, place = len(self._order), self._start
        typer.echo(f"annotate: {place} of {total} are labelled by {self._labels.annotator}.")
        while (move := self._ask(place) if place < total else self._end()) is not None:
            place = max(0, place + move)
        done = sum(self._labels.holds(one) for one in self._store.read(self._order))
        typer.echo(f"annotate: {done} of {total} are labelled → {self._labels.path}")

    def _end(self) -> int | None:
        typer.echo(f"\nThat was the last: {BACK}  back    any other key ends.")
        return -1 if read_key() == BACK else None

    def _ask(self, place: int) -> int | None:
        """Show one episode and take a key: which way to go on, or None to leave."""
        (trajectory,) = self._store.read([self._order[place]])
        choices: dict[str, Label] = {KEYS[label]: label for label in _labels(trajectory)}
        where = f"{place + 1} of {len(self._order)}"
        if self._labels.holds(trajectory):
            where += f" (labelled {_words(self._labels.labels[trajectory.id].label)})"
        typer.echo(f"\n{'─' * 72}\n{where}\n{episode_text(trajectory)}\n\n{_menu(choices)}")
        while (key := read_key()) not in (QUIT, NEXT, BACK, *choices):
            typer.echo(f"{visible(key)!r} is none of the keys: {', '.join([*choices, NEXT, BACK, QUIT])}")
        if key in choices:
            self._keep(trajectory, choices[key])
        return {QUIT: None, BACK: -1}.get(key, 1)

    def _keep(self, trajectory: Trajectory, label: Label) -> None:
        self._labels.add(annotate(trajectory, self._labels.annotator, label))
        typer.echo(f"→ {_words(label)}\n{evidence_text(trajectory)}")


def _labels(trajectory: Trajectory) -> tuple[Label, ...]:
    return labels_for(correct=verdict(trajectory) == "right")


def _words(name: str) -> str:
    return name.replace("_", " ")


def _menu(choices: dict[str, Label]) -> str:
    lines = [f"  {key}  {MEANINGS[label]}" for key, label in choices.items()]
    return "\n".join([*lines, f"  {NEXT}  next, without a label    {BACK}  back    {QUIT}  quit"])


def read_key() -> str:
    """One key in lower case; where the input is no terminal, its next character that is no space.

    The end of the input quits.
    """
    if sys.stdin.isatty():
        try:
            return typer.getchar().lower()
        except EOFError:
            return QUIT
    while character := sys.stdin.read(1):
        if not character.isspace():
            return character.lower()
    return QUIT


def episode_text(trajectory: Trajectory) -> str:
    """An episode to be judged: the task, its gold answer, what was done, the answer and the verdict."""
    task = trajectory.task
    lines = [task.instruction, f"Gold answer: {' | '.join(task.gold)}", ""]
    for number, step in enumerate(trajectory.steps, start=1):
        lines += [f"Thought {number}: {step.thought}"] if step.thought else []
        lines += [f"Action {number}: {step.action or step.completion}"]
        lines += [f"Observation {number}: {step.observation}"]
        lines += [_votes(step.votes)] if step.votes else []
    right = "right" if verdict(trajectory) == "right" else "wrong"
    answer = "(none)" if trajectory.answer is None else trajectory.answer
    ending = _words(trajectory.outcome.value)
    lines += ["", f"Answer: {answer}", f"Graded {right} ({ending})."]
    return "\n".join(visible(_fenced(line)) for line in lines)


def _votes(votes: list[str]) -> str:
    counts = Counter(vote or "(none)" for vote in votes)
    return "Votes: " + "; ".join(f"{vote} ({count})" for vote, count in counts.most_common())


def _fenced(text: str) -> str:
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"
    # Indented, so that no foreign line can be taken for one of ours.
    return text.replace("\n", "\n    ")


def evidence_text(trajectory: Trajectory) -> str:
    """The automatic signs, a line each, with the steps that show them."""
    lines = [
        f"  sign: {_words(found.flag)} ({found.why}; step {', '.join(map(str, found.steps)) or '–'})"
        for found in gather(trajectory).findings
    ]
    return "\n".join(lines or ["  no automatic sign"])
