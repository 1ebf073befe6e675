"""Environments by name, through entry points: those built in and those of other packages alike."""

from __future__ import annotations

import inspect
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pipeline.environments.base import Environment
from pipeline.errors import EnvironmentFault, RecipeError
from pipeline.recipe.models import EnvironmentRecipe

GROUP = "staract.environments"
"""The entry-point group: each value is a class called with ``family``, ``kinds`` and its options."""


def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def environment_names() -> list[str]:
    """The names of all installed environments, sorted."""
    return sorted(_entries())


def environment_class(name: str) -> Any:
    """The class of an environment, to look at without its data.

    Raises:
        RecipeError: no environment has that name.
        EnvironmentFault: its code cannot be imported, usually for want of a package.
    """
    entry = _entries().get(name)
    if entry is None:
        known = ", ".join(environment_names()) or "none is installed"
        raise RecipeError(f"environment.name: {name!r} is not an environment; known are: {known}")
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        raise EnvironmentFault(
            f"environment {name!r} cannot be loaded ({error}); staract doctor says what to install"
        ) from error


def load_environment(recipe: EnvironmentRecipe) -> Environment:
    """The environment that a recipe names.

    Raises:
        RecipeError: no environment has that name, or it does not know one of the options.
        EnvironmentFault: its code cannot be imported, usually for want of a package.
    """
    factory = environment_class(recipe.name)
    _check_options(recipe, factory)
    return factory(family=recipe.family, kinds=list(recipe.kinds), **recipe.options)


def _check_options(recipe: EnvironmentRecipe, factory: Any) -> None:
    signature = inspect.signature(factory)
    try:
        signature.bind(family=recipe.family, kinds=recipe.kinds, **recipe.options)
    except TypeError as error:
        known = ", ".join(name for name in signature.parameters if name not in ("family", "kinds"))
        raise RecipeError(
            f"environment.options of {recipe.name!r}: {error}; its options are: {known or 'none'}"
        ) from error
