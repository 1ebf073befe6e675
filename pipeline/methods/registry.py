"""Methods by name: those of the package and those of others, all through entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, cast

from pipeline.errors import RecipeError
from pipeline.methods.base import Method
from pipeline.recipe.models import MethodRecipe

if TYPE_CHECKING:
    from pipeline.methods.hybrids import Hybrid

GROUP = "staract.methods"
"""The entry-point group: a name, and a class that is constructed with the ``MethodRecipe``."""
HYBRIDS = "staract.hybrids"
"""The same for methods that join the trajectories of two others."""


def method_names() -> list[str]:
    """The names of all installed methods, hybrids among them, sorted."""
    return sorted({*_entries(GROUP), *_entries(HYBRIDS)})


def load_method(recipe: MethodRecipe) -> Method:
    """The method that a recipe names.

    Raises:
        RecipeError: there is no such method, it cannot be imported, or it is a hybrid.
    """
    entry = _entries(GROUP).get(recipe.name)
    if entry is not None:
        return cast(Method, _build(entry, recipe))
    if recipe.name in _entries(HYBRIDS):
        raise RecipeError(f"method.name: {recipe.name!r} joins two methods; it cannot be a part of anything")
    known = ", ".join(method_names()) or "none, since the package is not installed"
    raise RecipeError(f"method.name: there is no method {recipe.name!r}; known are: {known}")


def load_hybrid(recipe: MethodRecipe) -> Hybrid | None:
    """The hybrid that a recipe names, or None where the name is not a hybrid's.

    Raises:
        RecipeError: it cannot be imported.
    """
    entry = _entries(HYBRIDS).get(recipe.name)
    return None if entry is None else cast("Hybrid", _build(entry, recipe))


def _build(entry: EntryPoint, recipe: MethodRecipe) -> Any:
    try:
        build = entry.load()
    except (ImportError, AttributeError) as error:
        raise RecipeError(
            f"method {entry.name!r} cannot be loaded from {entry.value!r}: {error}; reinstall its package"
        ) from error
    return build(recipe)


def _entries(group: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=group)}
