"""Which tasks a recipe's panel holds: drawn by split, named by the environment, or read from a file."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from pipeline.environments.base import Environment
from pipeline.errors import RecipeError
from pipeline.methods.prompts import exemplar_tasks
from pipeline.recipe.models import PanelRecipe
from pipeline.trajectories.files import read_json
from pipeline.trajectories.panels import Panel, draw_panel, load_panel, named_panel
from pipeline.trajectories.schema import Split


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
