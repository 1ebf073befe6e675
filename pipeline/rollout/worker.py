"""What a worker on another machine does: it builds world and model by itself, and plays what it is told.

An episode is played by the same code as in one process (``Plan.episode``). The worker works out the
episode's id anew, so that one who sees other data or another package cannot play another episode unnoticed.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pipeline import __version__, errors
from pipeline.environments.registry import load_environment
from pipeline.errors import ModelError, StaractError, WorkerError
from pipeline.models.base import Completion, Model, Request
from pipeline.models.registry import load_model
from pipeline.recipe.models import EnvironmentRecipe, MethodRecipe, ModelRecipe
from pipeline.rollout.engine import Plan
from pipeline.rollout.hybrid import Host
from pipeline.trajectories.schema import Task, Trajectory


class AbsentModel:
    """A model that workers load: here only its name is known, and perhaps only there its files lie."""

    def __init__(self, recipe: ModelRecipe) -> None:
        self.recipe = recipe
        self.address = recipe.address

    async def generate(self, request: Request) -> Completion:
        """Never answers. Raises ``ModelError``."""
        raise ModelError(f"model {self.address!r} is loaded by workers alone, and cannot be asked here")

    def forget(self, session: str) -> None:
        """Nothing is kept."""

    async def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True)
class Order:
    """What a worker is to play an episode with: all of a plan but its world."""

    method: MethodRecipe
    model: ModelRecipe
    swift: ModelRecipe | None = None
    run_seed: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """The order that makes a worker's plan equal to this one, whose models are absent."""
        swift = None if plan.swift is None else _recipe(plan.swift)
        return cls(plan.recipe, _recipe(plan.model), swift, plan.run_seed, plan.extra)


def _recipe(model: Model) -> ModelRecipe:
    if isinstance(model, AbsentModel):
        return model.recipe
    raise WorkerError(f"model {model.address!r} was made in this process, and cannot be sent to workers")


@dataclass(frozen=True)
class Fault:
    """An error of ours on its way to the driver: the name of its class, and its sentence."""

    kind: str
    sentence: str
    machine: str

    @classmethod
    def of(cls, error: StaractError) -> Self:
        """What is sent of an error."""
        return cls(type(error).__name__, str(error), socket.gethostname())

    def error(self) -> StaractError:
        """The error as it is raised at the driver; it names the machine where that is another one."""
        found = getattr(errors, self.kind, StaractError)
        here = self.machine == socket.gethostname()
        return found(self.sentence if here else f"on {self.machine}: {self.sentence}")


@dataclass(frozen=True)
class Ready:
    """A worker has built its world."""

    version: str
    pid: int


class Worker:
    """One worker: a world, and the models of the latest order.

    Args:
        environment: the world to build.
        folder: where the run was started; relative paths of a recipe are meant from there.
    """

    def __init__(self, environment: EnvironmentRecipe, folder: str = ".") -> None:
        self._environment = environment
        self._folder = folder
        self._lock = asyncio.Lock()
        self._order: Order | None = None
        self._plan: Plan | None = None

    async def open(self) -> Ready | Fault:
        """Build the world."""
        try:
            self._build()
        except StaractError as error:
            return Fault.of(error)
        return Ready(__version__, os.getpid())

    async def play(self, order: Order, task: Task, sample: int, identity: str) -> Trajectory | Fault:
        """Play one episode, together with others of the same order."""
        try:
            plan = await self._planned(order)
            settings = plan.settings()
            if plan.identity(task, sample, settings) != identity:
                return Fault.of(_another(task))
            return await plan.episode(task, sample, identity, settings)
        except StaractError as error:
            return Fault.of(error)

    async def close(self) -> None:
        """Free the models and the world."""
        async with self._lock:
            await self._leave()
            close = getattr(self._world, "close", None)
            if close is not None:
                close()

    def _build(self) -> None:
        # A machine without that folder may still have what the recipe names by whole paths.
        if Path(self._folder).is_dir():
            os.chdir(self._folder)
        self._world = load_environment(self._environment)

    async def _planned(self, order: Order) -> Plan:
        async with self._lock:
            if self._plan is None or order != self._order:
                self._plan = await self._seat(order)
                self._order = order
            return self._plan

    async def _seat(self, order: Order) -> Plan:
        """The plan of an order; models that the last order had too are kept."""
        last, plan = self._order, self._plan
        if plan is not None and last is not None and (last.model, last.swift) == (order.model, order.swift):
            model, swift = plan.model, plan.swift
        else:
            await self._leave()
            model = load_model(order.model)
            swift = load_model(order.swift) if order.swift else None
        return Host(self._world, model, order.run_seed, order.extra, swift).plan(order.method)

    async def _leave(self) -> None:
        plan, self._plan = self._plan, None
        for model in (plan.model, plan.swift) if plan else ():
            if model is not None:
                await model.close()


def _another(task: Task) -> WorkerError:
    return WorkerError(
        f"a worker would not play the episode that is owed of task {task.id!r}: its environment's data or its"
        " installation differ from those here; give all machines the same"
    )
