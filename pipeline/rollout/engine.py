"""Many episodes: what a panel is owed, played with bounded concurrency, each kept as it ends.

An episode that the environment failed is played a second time at once.

A trajectory's seed and content depend on its identity alone, so the same episodes come out at any
concurrency and in any order, and a run that was killed owes exactly what is missing.

With a goal, a run ends when its target is reached or its budget spent. Episodes in flight at that
moment are finished and kept: they are paid for (a server goes on writing when nobody listens any
more), a selection may prefer them, and there are fewer of them than ``concurrency``.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, Protocol, runtime_checkable

from pipeline.environments.base import Environment
from pipeline.errors import ModelError, QuotaError
from pipeline.methods.base import Method, Seat
from pipeline.models.base import Model, Sampling
from pipeline.recipe.models import MethodRecipe
from pipeline.rollout.episode import Limits, play
from pipeline.rollout.goal import Goal
from pipeline.rollout.jobs import Job, Jobs, PanelJobs, RoundJobs
from pipeline.rollout.projection import Projection, open_episodes, project
from pipeline.rollout.tally import FIRST, REPEATED, Tally, read_held
from pipeline.trajectories.schema import Outcome, Task, Trajectory, Usage, episode_seed, trajectory_id
from pipeline.trajectories.store import TrajectoryStore

MODEL_ERRORS: Final = 10
"""So many model errors in a row mean that the model is down: the run stops."""
Ended = Literal["panel", "target", "budget"]
"""Why a run is over: every episode is played, enough are correct, or no more can be paid for."""


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


@runtime_checkable
class GoalProgress(Progress, Protocol):
    """Watches a run that has a goal; other watchers are told only what ``Progress`` says."""

    def aim(self, tally: Tally) -> None:
        """Said before ``begin``; the tally goes on counting."""
        ...

    def project(self, projection: Projection) -> None:
        """Said after the first fifty episodes of a call, and each time their number has doubled."""
        ...


class Players(Protocol):
    """Whoever plays episodes in place of this process; ``size`` is how many worlds they have together."""

    size: int

    async def play(self, plan: Plan, task: Task, sample: int, identity: str) -> Trajectory:
        """Play one episode elsewhere, as the plan would be played here.

        Raises:
            StaractError: as ``run_episodes``, or nobody is left to play it.
        """
        ...


@dataclass(frozen=True)
class Plan:
    """How a panel is played.

    ``extra`` joins the settings that make up a trajectory's identity: whatever the address of the
    model and the recipe of the method do not say (a checkpoint's hash). ``swift`` is the fast model of a
    method that has two. ``players`` play in place of this process.
    """

    environment: Environment
    method: Method
    recipe: MethodRecipe
    model: Model
    run_seed: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    swift: Model | None = None
    players: Players | None = None

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
            **({"swift_model": self.swift.address} if self.swift else {}),
            **self.extra,
        }

    @property
    def room(self) -> int | None:
        """How many episodes can be open at a time, where the environment sets a limit."""
        own: int | None = getattr(self.environment, "concurrency", None)
        return own if own is None or self.players is None else own * self.players.size

    async def episode(self, task: Task, sample: int, identity: str, settings: dict[str, Any]) -> Trajectory:
        """Play one episode, whatever comes of it.

        Raises:
            QuotaError: the endpoint will not answer again.
            StaractError: ``players`` cannot play it.
        """
        if self.players is not None:
            return await self.players.play(self, task, sample, identity)
        seat = Seat(
            task=task,
            environment=self.environment,
            model=self.model,
            sampling=self.sampling,
            session=identity,
            seed=episode_seed(identity, self.run_seed),
            swift=self.swift,
        )
        return await play(seat, self.method, self.limits, settings, sample)

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
    """What a call of ``run_episodes`` did.

    ``kept`` counts the episodes that were there before. With a target, ``owed`` is how many the call
    might have had to play, and ``counted`` how many correct trajectories of the whole run count;
    ``projection`` stands only where there is a goal.
    """

    owed: int = 0
    kept: int = 0
    done: int = 0
    correct: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    ended: Ended = "panel"
    counted: int = 0
    projection: Projection | None = None

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
    goal: Goal | None = None,
) -> Summary:
    """Play every episode that is not in the store, or ended there through no fault of the agent.

    Each trajectory is stored the moment its episode is over. Memory does not grow with the number
    of episodes beyond their ids. Cancelling keeps what is stored.

    With a goal, samples go round by round, a task that has enough correct trajectories is not
    sampled again, and the run ends when the target is reached or a budget allows no more episodes.
    What the store holds already counts.

    Args:
        plan: environment, method, model and settings.
        tasks: the panel's tasks.
        store: where trajectories go; it is locked, and left open.
        samples: episodes a task.
        concurrency: episodes at a time; no more than the environment's own ``concurrency``, where it has one.
        progress: is told how the run goes; a ``GoalProgress`` also hears projections.
        goal: the target and the budgets; by default everything is played.

    Raises:
        QuotaError: the endpoint will not answer again (and the target is not reached).
        ModelError: the model failed ``MODEL_ERRORS`` episodes in a row.
        StoreError: the store is locked, damaged or cannot be written.
        StaractError: the plan's ``players`` cannot play.
    """
    run = _Run(plan, tasks, store, samples, progress, goal or Goal())
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
        goal: Goal,
    ) -> None:
        self.plan = plan
        self.store = store
        self.progress = progress
        self.settings = plan.settings()
        self.tally = Tally(goal, len(tasks), samples)
        self.summary = Summary()
        self.failures = self.flying = 0
        self.milestone = FIRST
        self.quota: QuotaError | None = None
        self.changed = asyncio.Event()
        self.start = time.monotonic()
        store.lock()
        self.jobs = self.owed(tasks, samples)

    def owed(self, tasks: Sequence[Task], samples: int) -> Jobs:
        """Find out what is there already, and so what is to play."""
        summary = self.summary
        if self.tally.goal.bounded:
            settled = read_held(self.store.path, tasks, self.identify, self.tally)
            summary.kept = len(settled)
            summary.owed = 0 if self.tally.reached else round(open_episodes(self.tally, 0.0))
            return RoundJobs(tasks, self.identify, settled, self.tally)
        settled = {name for name, outcome in self.store.outcomes().items() if outcome not in REPEATED}
        jobs = PanelJobs(tasks, samples, self.identify, settled)
        summary.owed = jobs.count()
        summary.kept = len(tasks) * samples - summary.owed
        return jobs

    def identify(self, task: Task, sample: int) -> str:
        return self.plan.identity(task, sample, self.settings)

    async def play(self, concurrency: int) -> Summary:
        self.start = time.monotonic()
        if isinstance(self.progress, GoalProgress) and self.tally.goal.bounded:
            self.progress.aim(self.tally)
        if self.progress:
            self.progress.begin(self.summary.owed)
        # More episodes than an environment has simulators would only wait for them.
        room = self.plan.room
        count = min(concurrency, self.summary.owed, concurrency if room is None else room)
        workers = [asyncio.create_task(self.work()) for _ in range(count)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self.conclude()
            if self.progress:
                self.progress.end()
        if self.quota and not self.tally.reached:
            raise QuotaError(self.stopped(self.quota)) from None
        return self.summary

    def conclude(self) -> None:
        """Fill in what is known in the end."""
        summary = self.summary
        summary.seconds = time.monotonic() - self.start
        summary.counted = self.tally.counted
        if self.tally.reached:
            summary.ended = "target"
        if self.tally.goal.bounded and self.tally.episodes:
            summary.projection = project(self.tally, summary.done, summary.seconds)

    async def work(self) -> None:
        """Play one job after another."""
        while (job := await self.next()) is not None:
            try:
                self.keep(await self.episode(job.task, job.sample, job.identity))
            except QuotaError as error:
                # The others come to their own end: what they have paid for may still be finished.
                self.quota = error
            finally:
                self.flying -= 1
                self.jobs.over(job)
                self.changed.set()
                self.changed = asyncio.Event()
            # An expert answers without waiting; others, and Ctrl-C, must have their turn.
            await asyncio.sleep(0)

    async def next(self) -> Job | None:
        """The next job, once one may begin; None when the run is to end."""
        while not (self.quota or self.tally.reached):
            affordable = self.tally.affords(self.flying)
            job = self.jobs.take() if affordable or not self.flying else None
            if job is not None and affordable:
                self.flying += 1
                return job
            if job is not None:
                self.summary.ended = "budget"
            if not self.flying or (affordable and not self.jobs.more):
                return None
            await self.changed.wait()
        return None

    async def episode(self, task: Task, sample: int, identity: str) -> Trajectory:
        """An episode's trajectory; where the environment failed, it is kept and the episode played again.

        What failed may have been replaced by now, as a simulator that died is.
        """
        first = await self.plan.episode(task, sample, identity, self.settings)
        if first.outcome is not Outcome.ENVIRONMENT_ERROR:
            return first
        self.store.append(first)
        self.tally.spend(first.usage)
        self.summary.usage += first.usage
        return await self.plan.episode(task, sample, identity, self.settings)

    def keep(self, trajectory: Trajectory) -> None:
        self.store.append(trajectory)
        self.summary.add(trajectory)
        self.tally.add(
            trajectory.task.id, trajectory.sample, trajectory.usage, correct=trajectory.grade.correct
        )
        if self.progress:
            self.progress.advance(trajectory)
        self.look_ahead()
        self.failures = self.failures + 1 if trajectory.outcome is Outcome.MODEL_ERROR else 0
        if self.failures >= MODEL_ERRORS and not self.tally.reached:
            raise ModelError(
                self.stopped(trajectory.error, f"{self.failures} model errors in a row, the last: ")
            )

    def look_ahead(self) -> None:
        """Say now and again what the target will take."""
        if not self.tally.goal.bounded or self.summary.done < self.milestone or self.tally.reached:
            return
        self.milestone *= 2
        if isinstance(self.progress, GoalProgress):
            seconds = time.monotonic() - self.start
            self.progress.project(project(self.tally, self.summary.done, seconds))

    def stopped(self, error: object, reason: str = "") -> str:
        summary, until = self.summary, self.tally.goal.until
        so_far = f"after {summary.done} of {summary.owed} episodes"
        if until is not None:
            so_far = f"with {self.tally.counted:,} of {until:,} correct after {summary.done:,} episodes"
        held = f"{summary.kept + summary.done:,} are kept"
        return f"{reason}{error}. Stopped {so_far}; {held}: run again to go on"
