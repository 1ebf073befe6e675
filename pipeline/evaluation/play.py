"""Every entry of an evaluation plays the same panel, through the same engine as generation does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import groupby

from pipeline.environments.base import Environment
from pipeline.evaluation.entrants import Entrant, Found, check_prompt
from pipeline.evaluation.rows import Group
from pipeline.methods.hybrids import Hybrid
from pipeline.methods.registry import load_hybrid, load_method
from pipeline.models.base import Model
from pipeline.recipe.models import MethodRecipe
from pipeline.rollout.crew import Crew, model_for
from pipeline.rollout.engine import Progress, run_episodes
from pipeline.rollout.hybrid import Host, joined, play_parts
from pipeline.trajectories.panels import Panel
from pipeline.trajectories.schema import Trajectory, digest
from pipeline.trajectories.store import TrajectoryStore


async def play_panel(
    environment: Environment,
    panel: Panel,
    players: Sequence[Entrant],
    store: TrajectoryStore,
    *,
    concurrency: int,
    run_seed: int = 0,
    progress: Callable[[str], Progress] | None = None,
    crew: Crew | None = None,
) -> list[Group]:
    """Play what the store still lacks, one model after the other, and group the episodes by entry.

    Where there is a ``crew``, its workers load the models and play.

    Raises:
        ModelError: a model cannot be loaded or asked, or is asked otherwise than it was trained.
    """
    for player in players:
        _check(player, environment)
    table = _Table(environment, panel, store, concurrency, run_seed, progress, crew)
    groups: dict[int, Group] = {}
    ordered = sorted(range(len(players)), key=lambda index: players[index].model.recipe.address)
    for recipe, indices in groupby(ordered, key=lambda index: players[index].model.recipe):
        # A model is loaded once for all its entries, and before the next one is.
        model = model_for(crew, recipe)
        try:
            for index in indices:
                groups[index] = await table.seat(players[index], model)
        finally:
            await model.close()
    return [groups[index] for index in range(len(players))]


@asynccontextmanager
async def loaded(found: Found | None, crew: Crew | None = None) -> AsyncGenerator[Model | None]:
    """The model while it is needed, or its name where a ``crew`` plays; None where there is none.

    Raises:
        ModelError: it cannot be loaded.
    """
    model = model_for(crew, found.recipe) if found else None
    try:
        yield model
    finally:
        if model:
            await model.close()


@dataclass(frozen=True)
class _Table:
    """What every entry plays at: the same world, panel and store."""

    environment: Environment
    panel: Panel
    store: TrajectoryStore
    concurrency: int
    run_seed: int
    progress: Callable[[str], Progress] | None
    crew: Crew | None

    async def seat(self, player: Entrant, model: Model) -> Group:
        """Play one entry's episodes that the store lacks; all of them, grouped."""
        recipe = player.entry.method
        hybrid = load_hybrid(recipe)
        async with loaded(player.swift, self.crew) as swift:
            extra = weights_of(player.model, player.swift)
            host = Host(self.environment, model, self.run_seed, extra, swift, self.crew)
            label = player.entry.model
            found = await (self.join(hybrid, host) if hybrid else self.play(host, recipe, label))
        return Group(
            recipe.name,
            player.entry.model,
            player.kind,
            found,
            base=player.model.base,
            size=player.model.recipe.size,
        )

    async def play(self, host: Host, recipe: MethodRecipe, label: str) -> list[Trajectory]:
        plan, tasks = host.plan(recipe), self.panel.tasks
        watch = self.progress(f"{recipe.name} × {label}") if self.progress else None
        await run_episodes(plan, tasks, self.store, concurrency=self.concurrency, progress=watch)
        return list(self.store.read(plan.identities(tasks)))

    async def join(self, hybrid: Hybrid, host: Host) -> list[Trajectory]:
        tasks = self.panel.tasks
        await play_parts(
            hybrid, host, tasks, self.store, concurrency=self.concurrency, progress=self.progress
        )
        return list(joined(hybrid, host, tasks, self.store))


def _check(player: Entrant, environment: Environment) -> None:
    """Refuse an entry that asks a student otherwise than it was trained, before anyone plays."""
    hybrid = load_hybrid(player.entry.method)
    for part in [hybrid.first, hybrid.second] if hybrid else [player.entry.method]:
        # Of a method with two models the fast one is trained by its rows.
        check_prompt(player.swift or player.model, load_method(part), environment, part)


def weights_of(model: Found, swift: Found | None = None) -> dict[str, str]:
    """What tells one training's weights from another's that lie in the same folder tomorrow."""
    found = {"checkpoint": model, "swift_checkpoint": swift}
    return {name: digest(model.trained) for name, model in found.items() if model and model.trained}
