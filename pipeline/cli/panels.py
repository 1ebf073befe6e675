"""The panels of a recipe: which tasks are played, and the checks that keep them apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

from pipeline.environments.base import Environment
from pipeline.errors import RecipeError, StoreError
from pipeline.methods.prompts import exemplar_tasks
from pipeline.recipe.models import PanelRecipe, Recipe
from pipeline.trajectories.files import read_json
from pipeline.trajectories.panels import (
    Panel,
    PanelEntry,
    check_disjoint,
    draw_panel,
    load_panel,
    named_panel,
)
from pipeline.trajectories.schema import Split, Task
from pipeline.trajectories.store import read_trajectories


def recipe_panel(environment: Environment, wanted: PanelRecipe) -> Panel:
    """The panel that a recipe asks for; tasks that serve as exemplars are never drawn.

    Raises:
        RecipeError: there is no such panel, or not so many tasks.
        StoreError: a panel's file cannot be read, or belongs to other data.
    """
    if wanted.file is not None:
        return _from_file(environment, Path(wanted.file), wanted.split)
    if wanted.name is not None:
        return _named(environment, wanted.name, wanted.size)
    return _drawn(environment, wanted)


def _drawn(environment: Environment, wanted: PanelRecipe) -> Panel:
    tasks = environment.tasks(wanted.split) if wanted.split else ()
    return draw_panel(tasks, wanted, exclude=exemplar_tasks(environment))


def panel_names(environment: Environment | type[Environment]) -> list[str]:
    """The names of the panels that the environment knows."""
    return sorted({*_rules(environment), *_lists(environment)})


def _named(environment: Environment, name: str, size: int | None) -> Panel:
    """A panel that the environment draws by a rule, or lists task by task."""
    lists = _lists(environment)
    if name in lists:
        split, ids = lists[name]
        return named_panel(split, environment.tasks(split), ids[:size], f"panel {name!r}")
    rules = _rules(environment)
    if name not in rules:
        known = ", ".join(panel_names(environment)) or "none"
        raise RecipeError(f"Panel {name!r} is neither a file nor a panel of {environment.name} ({known}).")
    return _drawn(environment, rules[name])


def _rules(environment: Environment | type[Environment]) -> dict[str, PanelRecipe]:
    return getattr(environment, "panels", {})


def _lists(environment: Environment | type[Environment]) -> dict[str, tuple[Split, tuple[str, ...]]]:
    return getattr(environment, "listed", {})


def _from_file(environment: Environment, path: Path, split: Split | None) -> Panel:
    """A panel that was saved, or a JSON list of ids."""
    content = read_json(path)
    if not isinstance(content, list):
        panel = load_panel(path)
        return panel.attach(environment.tasks(panel.split))
    ids = cast("list[object]", content)
    if split is None or not all(isinstance(name, str) for name in ids):
        raise RecipeError(f"{path}: a list of task ids is a JSON list of strings, and panel.split says whose")
    return named_panel(split, environment.tasks(split), cast("list[str]", ids), str(path))


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
    """Make sure that no task of a panel, nor the text of one, is among selected trajectories.

    Raises:
        StoreError: one is (both ids are named), or the file cannot be read.
    """
    ids = set(panel.ids)
    texts = {entry.text: entry.id for entry in panel.entries}
    for trajectory in read_trajectories(selected):
        entry = PanelEntry.of(trajectory.task)
        held_out = entry.id if entry.id in ids else texts.get(entry.text)
        if held_out is not None:
            raise StoreError(
                f"{selected} holds task {entry.id!r}, which is held out for the evaluation as {held_out!r}:"
                " name the panel under select.exclude of that run, and select and export again"
            )
