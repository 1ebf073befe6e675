"""The checks that keep what is trained on apart from what is evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.environments.base import Environment
from pipeline.errors import RecipeError, StoreError
from pipeline.recipe.models import PanelRecipe, Recipe
from pipeline.rollout.panels import recipe_panel
from pipeline.trajectories.pairs import PAIRS, read_pairs
from pipeline.trajectories.panels import Panel, PanelEntry, check_disjoint
from pipeline.trajectories.schema import Task
from pipeline.trajectories.store import read_trajectories


def training_panel(recipe: Recipe, environment: Environment) -> Panel:
    """The panel to generate on.

    Raises:
        StoreError: it shares a task, or the text of one, with the evaluation's panel.
    """
    if recipe.generate is None:
        raise RecipeError(f"Recipe {recipe.name!r} has no generate section: there is nothing to generate.")
    panel = recipe_panel(environment, recipe.generate.panel)
    if recipe.evaluate is not None:
        check_disjoint(panel, recipe_panel(environment, recipe.evaluate.panel))
    return panel


def panel_tasks(environment: Environment, name: str) -> Iterator[Task]:
    """The tasks of a panel that the environment names, or of a panel file."""
    wanted = PanelRecipe(file=name) if Path(name).is_file() else PanelRecipe(name=name)
    yield from recipe_panel(environment, wanted).tasks


def check_unseen(panel: Panel, selected: Path) -> None:
    """Make sure that no task of a panel, nor the text of one, is among selected trajectories, or pairs.

    Raises:
        StoreError: one is (both ids are named), or the file cannot be read.
    """
    ids = set(panel.ids)
    texts = {entry.text: entry.id for entry in panel.entries}
    pairs = selected.with_name(PAIRS)
    tasks = (
        (pair.chosen.task for pair in read_pairs(pairs))
        if not selected.is_file() and pairs.is_file()
        else (trajectory.task for trajectory in read_trajectories(selected))
    )
    for task in tasks:
        entry = PanelEntry.of(task)
        held_out = entry.id if entry.id in ids else texts.get(entry.text)
        if held_out is not None:
            raise StoreError(
                f"{selected} holds task {entry.id!r}, which is held out for the evaluation as {held_out!r}:"
                " name the panel under select.exclude of that run, and select and export again"
            )
