"""Methods by name: those of the package and those of others, all through entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from pipeline.errors import RecipeError
from pipeline.methods.base import Method
from pipeline.recipe.models import MethodRecipe

GROUP = "staract.methods"
"""The entry-point group: a name, and a class that is constructed with the ``MethodRecipe``."""


def method_names() -> list[str]:
    """The names of all installed methods, sorted."""
    return sorted(_entries())


def load_method(recipe: MethodRecipe) -> Method:
    """The method that a recipe names.

    Raises:
        RecipeError: there is no such method, or it cannot be imported.
    """
    entries = _entries()
    if recipe.name not in entries:
        known = ", ".join(sorted(entries)) or "none, since the package is not installed"
        raise RecipeError(f"method.name: there is no method {recipe.name!r}; known are: {known}")
    entry = entries[recipe.name]
    try:
        build = entry.load()
    except (ImportError, AttributeError) as error:
        raise RecipeError(
            f"method {recipe.name!r} cannot be loaded from {entry.value!r}: {error}; reinstall its package"
        ) from error
    method: Method = build(recipe)
    return method


def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}
