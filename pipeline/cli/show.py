"""``staract show``: one trajectory, readable, on the terminal."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Annotated

import typer

from pipeline.errors import StoreError
from pipeline.methods.swiftsage.trace import METHOD, counted, told
from pipeline.trajectories.schema import Step, Trajectory


def show(
    source: Annotated[Path, typer.Argument(help="A run folder or a file of trajectories (.jsonl).")],
    identity: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A trajectory's or task's id, or its beginning.")
    ] = None,
    evaluation: Annotated[
        bool, typer.Option("--evaluation", help="In a run folder: the evaluation's episodes.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the record as it is stored.")] = False,
) -> None:
    """Print one trajectory: the first of a run, or the one with this id."""
    trajectory = _find(_file(source, evaluation), identity)
    if json:
        typer.echo(trajectory.model_dump_json(indent=2))
        return
    typer.echo(readable(trajectory))


def readable(trajectory: Trajectory) -> str:
    """A trajectory as text for a person. Control characters in foreign text are made visible."""
    task, grade = trajectory.task, trajectory.grade
    lines = [
        f"{trajectory.id}  {trajectory.method} by {trajectory.model}",
        f"task {task.id} ({task.environment}, {task.split}, {task.kind})",
        "",
        task.instruction,
        "",
    ]
    for number, step in enumerate(trajectory.steps, start=1):
        lines += [f"Thought {number}: {step.thought}"] if step.thought else []
        lines += [f"Action {number}: {step.action}"]
        lines += [f"Observation {number}: {step.observation}"]
        lines += _flags(step, trajectory.method)
    verdict = "correct" if grade.correct else "not correct"
    metrics = ", ".join(f"{name} {value:.2f}" for name, value in sorted(grade.metrics.items()))
    lines += [
        "",
        f"outcome {trajectory.outcome.value}, {verdict}{f' ({metrics})' if metrics else ''}",
        f"answer {trajectory.answer!r}, gold {' | '.join(task.gold)!r}",
        f"{trajectory.usage.completion_tokens} tokens written, {trajectory.seconds:.1f} s",
    ]
    lines += [f"error: {trajectory.error}"] if trajectory.error else []
    lines += [f"steps: {counted(trajectory.steps)}"] if trajectory.method == METHOD else []
    return "\n".join(visible(line) for line in lines)


def _flags(step: Step, method: str) -> list[str]:
    """A step's flags; those of SwiftSage say who acted and why."""
    who = told(step.flags) if method == METHOD else ""
    if who:
        return [f"    by {who}"]
    return [f"    flags: {', '.join(step.flags)}"] if step.flags else []


def visible(text: str) -> str:
    """The text with control and format characters escaped, so that none acts on a terminal."""
    return "".join(
        character
        if character == "\n" or unicodedata.category(character)[0] != "C"
        else f"\\u{ord(character):04x}"
        for character in text
    )


def _file(source: Path, evaluation: bool) -> Path:
    if source.is_dir():
        source = source / "evaluation" / "trajectories.jsonl" if evaluation else source / "trajectories.jsonl"
    if not source.exists():
        raise StoreError(f"{source}: there are no trajectories here; name a run folder or a .jsonl file.")
    return source


def _find(path: Path, identity: str | None) -> Trajectory:
    from pipeline.trajectories.store import TrajectoryStore

    # Of an episode that was played again, the latest.
    for trajectory in TrajectoryStore(path).read():
        if identity is None or trajectory.id.startswith(identity) or trajectory.task.id == identity:
            return trajectory
    raise StoreError(f"{path}: no trajectory has an id or a task beginning with {identity!r}.")
