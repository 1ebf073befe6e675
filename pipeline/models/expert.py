"""The environment's scripted expert, addressed as a model.

It writes no text: a method that finds an ``ExpertModel`` asks it for the steps of a task.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from pipeline.errors import EnvironmentFault, ModelError, StaractError
from pipeline.models.base import Completion, Request
from pipeline.trajectories.schema import Step, Task


class HasExpert(Protocol):
    """The part of an environment that the expert needs."""

    name: str

    def expert(self, task: Task, seed: int) -> Iterator[Step] | None:
        """The expert's steps for a task, or None where there is no expert."""
        ...


class ExpertModel:
    """Address ``expert``: plays an environment's own solutions."""

    address = "expert"

    def plays(self, task: Task, environment: HasExpert, seed: int) -> Iterator[Step]:
        """The steps that the expert intends to take (thought and action filled).

        Raises:
            EnvironmentFault: the environment has no expert for the task, or (later) the expert fails.
        """
        steps = environment.expert(task, seed)
        if steps is None:
            raise EnvironmentFault(
                f"environment {environment.name!r} has no expert for task {task.id!r}: generate with a model"
            )
        return _guarded(steps, task, environment.name)

    async def generate(self, request: Request) -> Completion:
        """Always raises ``ModelError``: the expert plays, it does not write."""
        raise ModelError("the expert cannot continue a prompt: use it with react, act, cot or standard only")

    def forget(self, session: str) -> None:
        """Nothing is kept."""

    async def close(self) -> None:
        """Nothing is held."""


def _guarded(steps: Iterator[Step], task: Task, name: str) -> Iterator[Step]:
    """The steps; an expert that fails is the environment's fault, whatever it raises."""
    try:
        yield from steps
    except StaractError:
        raise
    except Exception as error:
        raise EnvironmentFault(
            f"the expert of environment {name!r} failed on task {task.id!r}: {type(error).__name__}: {error}"
        ) from error
