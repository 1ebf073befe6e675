"""The panels of a recipe: which tasks are played, and the checks that keep them apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.environments.base import Environment
from pipeline.errors import RecipeError
from pipeline.methods.prompts import exemplar_tasks
from pipeline.recipe.models import PanelRecipe, Recipe
from pipeline.trajectories.panels import Panel, check_disjoint, draw_panel, load_panel
from pipeline.trajectories.schema import Task


def recipe_panel(environment: Environment, wanted: PanelRecipe) -> Panel:
    """The panel that a recipe asks for; tasks that serve as exemplars are never in it."""
    return draw_panel(environment.tasks(wanted.split), wanted, exclude=exemplar_tasks(environment))


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
    named: dict[str, PanelRecipe] = getattr(environment, "panels", {})
    if name in named:
        yield from recipe_panel(environment, named[name]).tasks
    elif Path(name).is_file():
        panel = load_panel(Path(name))
        yield from panel.attach(environment.tasks(panel.split)).tasks
    else:
        known = ", ".join(sorted(named)) or "none"
        raise RecipeError(f"Panel {name!r} is neither a file nor a panel of {environment.name} ({known}).")
