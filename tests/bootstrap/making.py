"""Trajectories for tests: correct and well formed unless told otherwise."""

from __future__ import annotations

from typing import Any

from pipeline.trajectories.schema import Grade, Outcome, Step, Task, Trajectory


def make_task(number: int = 1, **changes: Any) -> Task:
    values: dict[str, Any] = {
        "id": f"t{number}",
        "environment": "atlas",
        "family": "questions",
        "split": "train",
        "kind": "bridge2",
        "instruction": f"Which city is number {number}?",
        "gold": ["Lima"],
    }
    return Task(**{**values, **changes})


def make_trajectory(number: int = 1, task: Task | None = None, **changes: Any) -> Trajectory:
    values: dict[str, Any] = {
        "id": f"id{number}",
        "task": task or make_task(number),
        "method": "react",
        "model": "expert",
        "seed": number,
        "steps": [
            Step(thought="I look it up.", action="Search[Peru]", observation="Peru's capital is Lima."),
            Step(thought="So it is Lima.", action="Finish[Lima]", observation="Episode finished."),
        ],
        "outcome": Outcome.FINISHED,
        "answer": "Lima",
        "grade": Grade(correct=True, reward=1.0),
        "versions": {"environment": "1"},
    }
    return Trajectory(**{**values, **changes})


def with_step(trajectory: Trajectory, index: int, **changes: Any) -> Trajectory:
    """The trajectory with one step changed."""
    steps = list(trajectory.steps)
    steps[index] = steps[index].model_copy(update=changes)
    return trajectory.model_copy(update={"steps": steps})
