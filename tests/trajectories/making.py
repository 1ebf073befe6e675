"""Trajectories to store, and a disk that is full."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pipeline.trajectories.schema import Outcome, Step, Task, Trajectory


def task(name: str = "t", **fields: Any) -> Task:
    return Task(
        **{"id": name, "environment": "toy", "split": "train", "instruction": f"Do {name}.", **fields}
    )


def trajectory(name: str = "a", **fields: Any) -> Trajectory:
    steps = [Step(thought="think", action="go", observation="seen")]
    return Trajectory(
        **{"id": name, "task": task(), "method": "m", "model": "m", "steps": steps}
        | {"outcome": Outcome.FINISHED, **fields}
    )


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file may grow beyond ``size`` bytes: what the system says of a full disk, near enough."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
