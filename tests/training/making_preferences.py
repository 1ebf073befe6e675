"""Pairs as export writes them, and a recipe that trains on them.

As a program, for several ranks:

    accelerate launch … -m tests.training.making_preferences ROOT ...
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pipeline.export.write import export_dataset
from pipeline.recipe.models import ExportRecipe
from pipeline.rendering.base import PromptSpec, ToolSpec
from pipeline.trajectories.pairs import Pair
from pipeline.trajectories.schema import Grade, Outcome, Step, Task, Trajectory
from tests.training.making import PLACES, save_recipe

TOOLS = (ToolSpec("Search", "title", "shows a page"), ToolSpec("Finish", "answer", "ends the episode"))


def spec(kind: str) -> PromptSpec:
    return PromptSpec("react", "Question", "Think and act.", (), TOOLS if kind == "tools" else ())


def make_pair(number: int, shared: int = 1, seen: str = "{} is a city.") -> Pair:
    """Both look a place up so many times; then one answers with it, and one looks and answers elsewhere."""
    place, other = PLACES[number % len(PLACES)], PLACES[(number + 1) % len(PLACES)]
    task = Task(
        id=f"t{number}", environment="toy", split="train", instruction=f"Where is {place}?", gold=[place]
    )
    before = [
        Step(thought=f"I look {place}.", action=f"Search[{place}]", observation=seen.format(place))
        for _ in range(shared)
    ]
    good = [*before, _finish(place)]
    bad = [
        *before,
        Step(thought="No.", action=f"Search[{other}]", observation=seen.format(other)),
        _finish(other),
    ]
    return Pair(chosen=_played(task, good, True), rejected=_played(task, bad, False), shared=shared)


def save_pairs(run: Path, pairs: list[Pair], kind: str = "text", dev_fraction: float = 0.0) -> Path:
    recipe = ExportRecipe(format=kind, styles=["react"], pairs={}, dev_fraction=dev_fraction)  # type: ignore[arg-type]
    export_dataset(run / "dataset", lambda: pairs, recipe, {"react": spec(kind)})
    return run / "dataset"


class Place:
    """Where one trial's files lie, and how to train there."""

    def __init__(
        self,
        root: Path,
        base: Path,
        kind: str = "text",
        train: str = "",
        pairs: list[Pair] | None = None,
        **how: Any,
    ) -> None:
        self.root = root
        pairs = [make_pair(number) for number in range(4)] if pairs is None else pairs
        self.dataset = save_pairs(root / "runs" / "trial", pairs, kind, **how)
        dpo = "" if "dpo:" in train else "dpo: {}\n"
        self.recipe = save_recipe(root, base, dpo + train, kind=kind)

    @property
    def student(self) -> Path:
        return self.root / "checkpoints" / "trial" / "react"

    def train(self, *arguments: str) -> int:
        return train(self.root, *arguments)


def train(root: Path, *arguments: str) -> int:
    """Train the recipe of a trial's folder."""
    from pipeline.training.preference import main

    roots = ["--run-root", str(root / "runs"), "--checkpoint-root", str(root / "checkpoints")]
    return main([str(root / "recipe.yaml"), *arguments, *roots])


def _finish(place: str) -> Step:
    return Step(thought=f"It is {place}.", action=f"Finish[{place}]", observation="Episode finished.")


def _played(task: Task, steps: list[Step], right: bool) -> Trajectory:
    return Trajectory(
        id=f"{task.id}{'good' if right else 'bad'}",
        task=task,
        method="react",
        model="m",
        steps=steps,
        outcome=Outcome.FINISHED,
        answer=steps[-1].action,
        grade=Grade(correct=right, reward=float(right)),
        versions={"environment": "1"},
    )


if __name__ == "__main__":
    sys.exit(max(train(Path(root)) for root in sys.argv[1:]))
