"""Every entry of an evaluation plays the same panel, through the same engine as generation does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from pipeline.environments.base import Environment
from pipeline.errors import ModelError, RecipeError
from pipeline.evaluation.rows import Group, RowKind
from pipeline.methods.base import Method
from pipeline.methods.hybrids import Hybrid
from pipeline.methods.registry import load_hybrid, load_method
from pipeline.models.addresses import read_stamp
from pipeline.models.base import Model
from pipeline.models.expert import ExpertModel
from pipeline.models.registry import load_model
from pipeline.recipe.models import EntryRecipe, MethodRecipe, ModelRecipe, Recipe
from pipeline.rendering.digest import spec_digest
from pipeline.rollout.engine import Progress, run_episodes
from pipeline.rollout.hybrid import Host, joined, play_parts
from pipeline.trajectories.panels import Panel
from pipeline.trajectories.schema import Trajectory, digest
from pipeline.trajectories.store import TrajectoryStore

STUDENT: Final = "student"


@dataclass(frozen=True)
class Entrant:
    """One entry of the comparison, with its model found.

    ``trained`` is what the checkpoint says of itself, empty for a model that is only prompted.
    """

    entry: EntryRecipe
    recipe: ModelRecipe
    trained: dict[str, Any]
    base: str

    @property
    def kind(self) -> RowKind:
        if self.recipe.address == ExpertModel.address:
            return "scripted"
        return "fine-tuned" if self.trained else "prompted"


def entrants(recipe: Recipe, checkpoints: Path) -> list[Entrant]:
    """Find the model of every entry; ``student`` is the checkpoint trained in the method's style.

    Raises:
        RecipeError: the recipe has no ``evaluate`` section, or an entry's student is not trained here.
        ModelError: a checkpoint is missing or unreadable.
    """
    if recipe.evaluate is None:
        raise RecipeError(f"Recipe {recipe.name!r} has no evaluate section: there is nothing to compare.")
    return [_entrant(recipe, entry, checkpoints / recipe.name) for entry in recipe.evaluate.entries]


def _entrant(recipe: Recipe, entry: EntryRecipe, folder: Path) -> Entrant:
    if entry.model != STUDENT:
        chosen = recipe.models[entry.model]
        return Entrant(entry, chosen, read_stamp(Path(chosen.address)), base="")
    if recipe.train is None:
        raise RecipeError(f"Recipe {recipe.name!r} evaluates a student but has no train section.")
    base = recipe.models[recipe.train.model]
    student = folder / _style(entry.method)
    trained = read_stamp(student)
    if not trained:
        raise ModelError(f"{student}: there is no trained student here; run `staract train` first.")
    found = base.model_copy(update={"address": str(student)})
    return Entrant(entry, found, trained, base=recipe.train.model)


def _style(recipe: MethodRecipe) -> str:
    """The style of rows that trains a student for a method: its own name, or what it is a variant of."""
    return "cot" if recipe.name == "cot_sc" else recipe.name


def check_prompt(entrant: Entrant, method: Method, environment: Environment, asked: MethodRecipe) -> None:
    """Make sure that a fine-tuned model is asked as it was trained.

    Args:
        entrant: the entry and its model.
        method: what asks it.
        environment: where.
        asked: the method's recipe; for a hybrid's part, the part's.

    Raises:
        ModelError: another renderer, style or prompt than the checkpoint records.
    """
    served = {
        "renderer": asked.renderer,
        "style": _style(asked),
        "spec_digest": spec_digest(method.spec(environment)),
    }
    for key, value in served.items():
        trained = entrant.trained.get(key, value)
        if trained != value:
            raise ModelError(
                f"{entrant.recipe.address}: trained with {key} {trained!r} but asked with {value!r};"
                " evaluate it as it was trained, or train it again."
            )


async def play_panel(
    environment: Environment,
    panel: Panel,
    players: Sequence[Entrant],
    store: TrajectoryStore,
    *,
    concurrency: int,
    run_seed: int = 0,
    progress: Callable[[str], Progress] | None = None,
) -> list[Group]:
    """Play what the store still lacks, one model after the other, and group the episodes by entry.

    Raises:
        ModelError: a model cannot be loaded or asked, or is asked otherwise than it was trained.
    """
    table = _Table(environment, panel, store, concurrency, run_seed, progress)
    groups: dict[int, Group] = {}
    ordered = sorted(range(len(players)), key=lambda index: players[index].recipe.address)
    for recipe, indices in groupby(ordered, key=lambda index: players[index].recipe):
        # A model is loaded once for all its entries, and before the next one is.
        model = load_model(recipe)
        try:
            for index in indices:
                groups[index] = await table.seat(players[index], model)
        finally:
            await model.close()
    return [groups[index] for index in range(len(players))]


@dataclass(frozen=True)
class _Table:
    """What every entry plays at: the same world, panel and store."""

    environment: Environment
    panel: Panel
    store: TrajectoryStore
    concurrency: int
    run_seed: int
    progress: Callable[[str], Progress] | None

    async def seat(self, player: Entrant, model: Model) -> Group:
        """Play one entry's episodes that the store lacks; all of them, grouped."""
        recipe = player.entry.method
        hybrid = load_hybrid(recipe)
        for part in [hybrid.first, hybrid.second] if hybrid else [recipe]:
            check_prompt(player, load_method(part), self.environment, part)
        # The same folder may hold another training's weights tomorrow.
        extra = {"checkpoint": digest(player.trained)} if player.trained else {}
        host = Host(self.environment, model, self.run_seed, extra)
        found = await (self.join(hybrid, host) if hybrid else self.play(host, recipe, player.entry.model))
        return Group(
            recipe.name, player.entry.model, player.kind, found, base=player.base, size=player.recipe.size
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
