"""Hybrid methods: their parts are played through the engine, then joined trajectory by trajectory.

What the parts played before, for themselves or for another hybrid, is not played again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.environments.base import Environment
from pipeline.methods.hybrids import Hybrid
from pipeline.methods.registry import load_method
from pipeline.models.base import Model
from pipeline.recipe.models import MethodRecipe
from pipeline.rollout.engine import Plan, Players, Progress, run_episodes
from pipeline.trajectories.schema import Task, Trajectory, trajectory_id
from pipeline.trajectories.store import TrajectoryStore


@dataclass(frozen=True)
class Host:
    """Where and by whom methods are played; ``extra``, ``swift`` and ``players`` as in ``Plan``."""

    environment: Environment
    model: Model
    run_seed: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    swift: Model | None = None
    players: Players | None = None

    def plan(self, recipe: MethodRecipe) -> Plan:
        """The plan of a method that is no hybrid.

        Raises:
            RecipeError: there is no such method.
        """
        method = load_method(recipe)
        return Plan(
            self.environment, method, recipe, self.model, self.run_seed, self.extra, self.swift, self.players
        )


async def play_parts(
    hybrid: Hybrid,
    host: Host,
    tasks: Sequence[Task],
    store: TrajectoryStore,
    *,
    samples: int = 1,
    concurrency: int = 16,
    progress: Callable[[str], Progress] | None = None,
) -> None:
    """Play what a hybrid needs of its parts and the store lacks.

    The second part plays only where the first does not settle the task, in any of its samples.

    Raises:
        QuotaError: as ``run_episodes``.
        ModelError: as ``run_episodes``.
        StoreError: as ``run_episodes``.
    """

    async def play(recipe: MethodRecipe, chosen: Sequence[Task]) -> None:
        watch = progress(f"{hybrid.name}: {recipe.name}") if progress else None
        await run_episodes(
            host.plan(recipe), chosen, store, samples=samples, concurrency=concurrency, progress=watch
        )

    await play(hybrid.first, tasks)
    first = host.plan(hybrid.first)
    open_tasks = [task for task in tasks if not _settled(hybrid, first, task, store, samples)]
    await play(hybrid.second, open_tasks)


def _settled(hybrid: Hybrid, first: Plan, task: Task, store: TrajectoryStore, samples: int) -> bool:
    played = store.read(first.identities([task], samples))
    return all(hybrid.settles(trajectory, first.environment) for trajectory in played)


def joined(
    hybrid: Hybrid, host: Host, tasks: Sequence[Task], store: TrajectoryStore, samples: int = 1
) -> Iterator[Trajectory]:
    """The hybrid's trajectories, sample after sample of each task; those without their parts are left out."""
    settings = {**hybrid.settings(host.environment), "environment_version": host.environment.version}
    settings |= host.extra
    one, two = host.plan(hybrid.first), host.plan(hybrid.second)
    for first, second in zip(one.identities(tasks, samples), two.identities(tasks, samples), strict=True):
        found = {trajectory.id: trajectory for trajectory in store.read([first, second])}
        whole = first in found and join(hybrid, host.environment, found[first], found.get(second))
        if whole:
            identity = trajectory_id(whole.task, hybrid.name, whole.model, settings, whole.sample)
            yield whole.model_copy(update={"id": identity, "settings": settings})


def join(
    hybrid: Hybrid, environment: Environment, first: Trajectory, second: Trajectory | None
) -> Trajectory | None:
    """The hybrid's episode from those of its parts, or None where the second is needed and missing.

    Answer, grade and outcome are those of the part that settled it; tokens, cost and seconds are
    those of every part that was needed.
    """
    if hybrid.settles(first, environment):
        return first.model_copy(update={"method": hybrid.name})
    if second is None:
        return None
    return second.model_copy(
        update={
            "method": hybrid.name,
            "steps": hybrid.steps(first, second),
            "usage": first.usage + second.usage,
            "seconds": first.seconds + second.seconds,
        }
    )
