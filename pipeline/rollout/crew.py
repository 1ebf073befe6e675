"""Many workers: each episode goes to the least busy, and from one that is lost to another.

The engine stays where it is, and stays the only writer of the store: workers send each trajectory
when it is over. So a lost worker loses at most what it had in hand, and no machine needs to share a
disk. Seeds and ids depend on an episode's identity alone, so it does not matter who plays it, nor how
often it is begun.
"""

from __future__ import annotations

import asyncio
import importlib.util
import math
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from pipeline.errors import RecipeError, WorkerError
from pipeline.models.base import Model
from pipeline.models.registry import load_model
from pipeline.recipe.models import ModelRecipe, Recipe
from pipeline.rollout.engine import Plan
from pipeline.rollout.worker import AbsentModel, Order
from pipeline.trajectories.schema import Task, Trajectory

TRIES: Final = 3
"""Workers that an episode, or a start, may cost; then the run stops."""
START_SECONDS: Final = 600.0
"""How long there may be no worker at all."""


class LostWorkerError(Exception):
    """A worker is gone, or broken: what it had in hand is owed again."""


class Hand(Protocol):
    """A worker as the driver holds it."""

    async def open(self) -> None:
        """Wait until it is ready. Raises ``LostWorkerError``, or what the worker itself said."""
        ...

    async def play(self, order: Order, task: Task, sample: int, identity: str) -> Trajectory:
        """Have an episode played. Raises as ``open``."""
        ...

    async def close(self) -> None:
        """Let it go, whatever state it is in."""
        ...


@dataclass(eq=False)
class _Member:
    hand: Hand
    number: int
    flying: int = 0


class Crew:
    """Workers who play for the engine (its ``Players``). They are hired when the first episode is owed.

    Args:
        hire: makes a worker.
        size: how many there are to be.
        say: prints a line.
    """

    def __init__(self, hire: Callable[[], Hand], size: int, say: Callable[[str], None] | None = None) -> None:
        self.size = size
        self._hire = hire
        self._say = say or _to_stderr
        self._members: list[_Member] = []
        self._chores = set[asyncio.Task[None]]()
        self._failure: Exception | None = None
        self._wanted = 0
        self._begun = False
        self._changed = asyncio.Event()

    async def play(self, plan: Plan, task: Task, sample: int, identity: str) -> Trajectory:
        """Play one episode; again by another worker where one is lost.

        Raises:
            WorkerError: ``TRIES`` workers were lost in this episode, or none can be started.
            StaractError: what a worker said that it cannot mend by itself (a model that is not there).
        """
        self._begin()
        order = Order.of(plan)
        room: int | None = getattr(plan.environment, "concurrency", None)
        self._wanted += 1
        reason = ""
        try:
            for _ in range(TRIES):
                member = await self._free(room)
                member.flying += 1
                try:
                    return await member.hand.play(order, task, sample, identity)
                except LostWorkerError as error:
                    reason = str(error)
                    self._lose(member, reason)
                finally:
                    member.flying -= 1
                    self._signal()
        finally:
            self._wanted -= 1
        raise WorkerError(
            f"{TRIES} workers in turn were lost in the episode of task {task.id!r}, sample {sample}; the"
            f" last: {reason}. What is done is kept: run again to go on"
        )

    async def close(self) -> None:
        """Let all workers go."""
        for chore in self._chores:
            chore.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        await asyncio.gather(*(member.hand.close() for member in self._members), return_exceptions=True)
        self._members.clear()

    def _begin(self) -> None:
        if self._begun:
            return
        self._begun = True
        self._say(f"{self.size} workers are starting")
        for number in range(1, self.size + 1):
            self._chore(number)

    def _chore(self, number: int) -> None:
        chore = asyncio.create_task(self._start(number))
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)

    async def _start(self, number: int) -> None:
        """Add a worker once it is ready; one that is lost before that is replaced."""
        if self._failure is not None:
            return
        try:
            self._members.append(_Member(await self._ready(number), number))
        except Exception as error:
            self._failure = error
        self._signal()

    async def _ready(self, number: int) -> Hand:
        reason = ""
        for _ in range(TRIES):
            hand = self._hire()
            ready = False
            try:
                await hand.open()
                ready = True
                return hand
            except LostWorkerError as error:
                reason = str(error)
                self._say(f"worker {number} was lost while it started ({reason})")
            finally:
                if not ready:
                    await hand.close()
        raise WorkerError(f"worker {number} could not be started {TRIES} times in a row; the last: {reason}")

    async def _free(self, room: int | None) -> _Member:
        """The least busy worker, once one may take another episode."""
        while True:
            if self._failure is not None:
                raise self._failure
            # An even share each: the first to be ready does not take what the others are to play.
            share = min(room or math.inf, math.ceil(self._wanted / self.size))
            found = min(self._members, key=lambda member: member.flying, default=None)
            if found is not None and found.flying < share:
                return found
            try:
                async with asyncio.timeout(None if self._members else START_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                raise WorkerError(
                    f"no worker has become ready for {START_SECONDS:.0f} seconds: see whether the cluster has"
                    " room for executor.cpus and executor.gpus, or ask for less"
                ) from None

    def _lose(self, member: _Member, reason: str) -> None:
        """Take a worker out, once, and hire another in its place."""
        if member not in self._members:
            return
        self._members.remove(member)
        held = f"the episodes that it had in hand ({member.flying}) are played again"
        self._say(f"worker {member.number} was lost ({reason}); {held}")
        closing = asyncio.create_task(member.hand.close())
        self._chores.add(closing)
        closing.add_done_callback(self._chores.discard)
        self._chore(member.number)

    def _signal(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


@asynccontextmanager
async def gathered(recipe: Recipe) -> AsyncGenerator[Crew | None]:
    """The workers that a recipe's ``executor`` asks for; None where episodes are played in this process.

    Raises:
        RecipeError: Ray is asked for and not installed.
    """
    wanted = recipe.executor
    if wanted.name == "local":
        yield None
        return
    if not importlib.util.find_spec("ray"):
        raise RecipeError("executor.name is 'ray', which is not installed: pip install 'staract[ray]'")
    from pipeline.rollout.ray import RayHands

    hands = RayHands(wanted, recipe.environment)
    crew = Crew(hands.hire, wanted.workers)
    try:
        yield crew
    finally:
        try:
            await crew.close()
        finally:
            hands.close()


def model_for(crew: Crew | None, recipe: ModelRecipe) -> Model:
    """The model itself, or, where workers play, its name.

    Raises:
        ModelError: the model is to be loaded here, and cannot be.
    """
    return load_model(recipe) if crew is None else AbsentModel(recipe)


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"staract: {line}\n")
