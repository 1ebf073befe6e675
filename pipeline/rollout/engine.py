"""Many episodes: what a panel is owed, played with bounded concurrency, each kept as it ends.

A trajectory's seed and content depend on its identity alone, so the same episodes come out at any
concurrency and in any order, and a run that was killed owes exactly what is missing.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Protocol

from pipeline.environments.base import Environment
from pipeline.errors import ModelError, QuotaError
from pipeline.methods.base import Method, Seat
from pipeline.models.base import Model, Sampling
from pipeline.recipe.models import MethodRecipe
from pipeline.rollout.episode import Limits, play
from pipeline.trajectories.schema import Outcome, Task, Trajectory, Usage, episode_seed, trajectory_id
from pipeline.trajectories.store import TrajectoryStore

MODEL_ERRORS: Final = 10
"""So many model errors in a row mean that the model is down: the run stops."""
REPEATED: Final = frozenset({Outcome.MODEL_ERROR, Outcome.ENVIRONMENT_ERROR})
"""Outcomes that are no fault of the agent: such episodes are played again on resume."""


class Progress(Protocol):
    """Watches a run."""

    def begin(self, owed: int) -> None:
        """The run starts and owes so many episodes."""
        ...

    def advance(self, trajectory: Trajectory) -> None:
        """An episode is over and stored."""
        ...

    def end(self) -> None:
        """The run is over, for whatever reason."""
        ...


@dataclass(frozen=True)
class Plan:
    """How a panel is played.

    ``extra`` joins the settings that make up a trajectory's identity: whatever the address of the
    model and the recipe of the method do not say (a checkpoint's hash).
    """

    environment: Environment
    method: Method
    recipe: MethodRecipe
    model: Model
    run_seed: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def limits(self) -> Limits:
        """When an episode ends."""
        return Limits.of(self.recipe, self.method, self.environment)

    @property
    def sampling(self) -> Sampling:
        """How the model chooses tokens: the recipe's word, unless the method has its own."""
        own: Sampling | None = getattr(self.method, "sampling", None)
        return own or Sampling(self.recipe.temperature, self.recipe.top_p, self.recipe.max_tokens)

    def settings(self) -> dict[str, Any]:
        """All that makes an episode what it is beside its task, method, model and sample."""
        return {
            **self.method.settings(self.environment),
            **self.limits.settings(),
            **asdict(self.sampling),
            "environment_version": self.environment.version,
            **self.extra,
        }

    def identity(self, task: Task, sample: int, settings: Mapping[str, Any] | None = None) -> str:
        """The id of an episode's trajectory."""
        chosen = self.settings() if settings is None else dict(settings)
        return trajectory_id(task, self.method.name, self.model.address, chosen, sample)

    def identities(self, tasks: Sequence[Task], samples: int = 1) -> list[str]:
        """The ids of all trajectories of a panel, sample after sample of each task."""
        settings = self.settings()
        return [self.identity(task, sample, settings) for task in tasks for sample in range(samples)]


@dataclass
class Summary:
    """What a call of ``run_episodes`` did. ``kept`` counts the episodes that were there before."""

    owed: int = 0
    kept: int = 0
    done: int = 0
    correct: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0

    def add(self, trajectory: Trajectory) -> None:
        """Count a finished episode."""
        self.done += 1
        self.correct += trajectory.grade.correct
        self.outcomes[trajectory.outcome] += 1
        self.usage += trajectory.usage


async def run_episodes(
    plan: Plan,
    tasks: Sequence[Task],
    store: TrajectoryStore,
    *,
    samples: int = 1,
    concurrency: int = 16,
    progress: Progress | None = None,
) -> Summary:
    """Play every episode that is not in the store, or ended there through no fault of the agent.

    Each trajectory is stored the moment its episode is over. Memory does not grow with the number
    of episodes beyond their ids. Cancelling keeps what is stored.

    Args:
        plan: environment, method, model and settings.
        tasks: the panel's tasks.
        store: where trajectories go; it is locked, and left open.
        samples: episodes a task.
        concurrency: episodes at a time.
        progress: is told how the run goes.

    Raises:
        QuotaError: the endpoint will not answer again.
        ModelError: the model failed ``MODEL_ERRORS`` episodes in a row.
        StoreError: the store is locked, damaged or cannot be written.
    """
    run = _Run(plan, tasks, store, samples, progress)
    return await run.play(concurrency)


class _Run:
    """One call of ``run_episodes``."""

    def __init__(
        self,
        plan: Plan,
        tasks: Sequence[Task],
        store: TrajectoryStore,
        samples: int,
        progress: Progress | None,
    ) -> None:
        self.plan = plan
        self.tasks = tasks
        self.samples = samples
        self.store = store
        self.progress = progress
        self.limits = plan.limits
        self.sampling = plan.sampling
        self.settings = plan.settings()
        self.failures = 0
        self.summary = Summary()
        store.lock()
        self.settled = {identity for identity, outcome in store.outcomes().items() if outcome not in REPEATED}

    async def play(self, concurrency: int) -> Summary:
        start = time.monotonic()
        total = len(self.tasks) * self.samples
        self.summary.owed = sum(1 for _ in self.jobs())
        self.summary.kept = total - self.summary.owed
        if self.progress:
            self.progress.begin(self.summary.owed)
        jobs = self.jobs()
        workers = [asyncio.create_task(self.work(jobs)) for _ in range(min(concurrency, self.summary.owed))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self.summary.seconds = time.monotonic() - start
            if self.progress:
                self.progress.end()
        return self.summary

    def jobs(self) -> Iterator[tuple[Task, int, str]]:
        """The episodes that are owed: task, sample and id."""
        for task in self.tasks:
            for sample in range(self.samples):
                identity = self.plan.identity(task, sample, self.settings)
                if identity not in self.settled:
                    yield task, sample, identity

    async def work(self, jobs: Iterator[tuple[Task, int, str]]) -> None:
        """Take one job after another from the iterator that all workers share."""
        for task, sample, identity in jobs:
            try:
                trajectory = await self.episode(task, sample, identity)
            except QuotaError as error:
                raise QuotaError(self.stopped(error)) from None
            self.keep(trajectory)
            # An expert answers without waiting; others, and Ctrl-C, must have their turn.
            await asyncio.sleep(0)

    async def episode(self, task: Task, sample: int, identity: str) -> Trajectory:
        plan = self.plan
        seat = Seat(
            task=task,
            environment=plan.environment,
            model=plan.model,
            sampling=self.sampling,
            session=identity,
            seed=episode_seed(identity, plan.run_seed),
        )
        return await play(seat, plan.method, self.limits, self.settings, sample)

    def keep(self, trajectory: Trajectory) -> None:
        self.store.append(trajectory)
        self.summary.add(trajectory)
        if self.progress:
            self.progress.advance(trajectory)
        self.failures = self.failures + 1 if trajectory.outcome is Outcome.MODEL_ERROR else 0
        if self.failures >= MODEL_ERRORS:
            raise ModelError(
                self.stopped(trajectory.error, f"{self.failures} model errors in a row, the last: ")
            )

    def stopped(self, error: object, reason: str = "") -> str:
        done, owed = self.summary.done, self.summary.owed
        return f"{reason}{error}. Stopped after {done} of {owed} episodes, which are kept: run again to go on"
