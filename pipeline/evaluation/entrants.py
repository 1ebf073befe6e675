"""Who plays: the models behind the entries of a comparison, and that each is asked as it was trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pipeline.environments.base import Environment
from pipeline.errors import ModelError, RecipeError
from pipeline.evaluation.rows import RowKind
from pipeline.methods.base import Method
from pipeline.models.addresses import read_stamp
from pipeline.models.expert import ExpertModel
from pipeline.recipe.models import EntryRecipe, MethodRecipe, ModelRecipe, Recipe
from pipeline.rendering.digest import spec_digest

STUDENT: Final = "student"
UNTRAINED: Final = "untrained"
_STYLES: Final = {"cot_sc": "cot", "swift": "act", "swiftsage": "act"}
"""The style of rows that trains a model for a method, where it is not the method's own name."""


@dataclass(frozen=True)
class Found:
    """A model of a recipe. ``trained`` is what its checkpoint says of itself, empty for a plain model.

    ``base`` is the key of the model that a student was trained from.
    """

    recipe: ModelRecipe
    trained: dict[str, Any]
    base: str = ""


@dataclass(frozen=True)
class Entrant:
    """One entry of the comparison, with its model found; ``swift`` is the fast one of a method with two."""

    entry: EntryRecipe
    model: Found
    swift: Found | None = None

    @property
    def kind(self) -> RowKind:
        if self.entry.method.name == "random_valid" or self.entry.model == UNTRAINED:
            return "prompted"
        if self.model.recipe.address == ExpertModel.address:
            return "scripted"
        return "fine-tuned" if self.model.trained or (self.swift and self.swift.trained) else "prompted"


def entrants(recipe: Recipe, checkpoints: Path) -> list[Entrant]:
    """Find the models of every entry.

    Raises:
        RecipeError: the recipe has no ``evaluate`` section, or an entry's student is not trained here.
        ModelError: a checkpoint is missing or unreadable.
    """
    if recipe.evaluate is None:
        raise RecipeError(f"Recipe {recipe.name!r} has no evaluate section: there is nothing to compare.")
    return [_entrant(recipe, entry, checkpoints) for entry in recipe.evaluate.entries]


def _entrant(recipe: Recipe, entry: EntryRecipe, checkpoints: Path) -> Entrant:
    model = find_model(recipe, entry.model, entry.method, checkpoints)
    return Entrant(entry, model, find_swift(recipe, entry.method, checkpoints))


def find_swift(recipe: Recipe, method: MethodRecipe, checkpoints: Path) -> Found | None:
    """The fast model that a method names, if it names one.

    Raises:
        RecipeError, ModelError: as ``find_model``.
    """
    key = method.swift.model
    return None if key is None else find_model(recipe, key, method, checkpoints)


def find_model(recipe: Recipe, key: str, method: MethodRecipe, checkpoints: Path) -> Found:
    """The model of a key: one of ``models``, or a student of this recipe, run as its base is.

    Args:
        recipe: the whole recipe.
        key: a key of ``models``, ``student`` (trained in the method's style) or ``untrained`` (its start).
        method: who asks it.
        checkpoints: the folder of checkpoints.

    Raises:
        RecipeError: the recipe trains no student.
        ModelError: the checkpoint is missing or unreadable.
    """
    if key not in (STUDENT, UNTRAINED):
        chosen = recipe.models.get(key, ModelRecipe(address=key))
        return Found(chosen, read_stamp(Path(chosen.address)))
    if recipe.train is None:
        raise RecipeError(f"Recipe {recipe.name!r} evaluates a student but has no train section.")
    style = style_of(method)
    folder = checkpoints / recipe.name / (style if key == STUDENT else f"{style}.start")
    trained = read_stamp(folder)
    if not trained:
        what = "trained student" if key == STUDENT else "untrained start"
        raise ModelError(f"{folder}: there is no {what} here; run `staract train` first.")
    base = recipe.models[recipe.train.model]
    return Found(base.model_copy(update={"address": str(folder)}), trained, recipe.train.model)


def check_prompt(found: Found, method: Method, environment: Environment, asked: MethodRecipe) -> None:
    """Make sure that a fine-tuned model is asked as it was trained.

    Args:
        found: the model.
        method: what asks it.
        environment: where.
        asked: the method's recipe; for a hybrid's part, the part's.

    Raises:
        ModelError: another renderer, style or prompt than the checkpoint records.
    """
    own: Callable[[Environment], dict[str, Any]] | None = getattr(method, "trained_as", None)
    served = own(environment) if own else _served(method, environment, asked)
    for key, value in served.items():
        trained = found.trained.get(key, value)
        if trained != value:
            raise ModelError(
                f"{found.recipe.address}: trained with {key} {trained!r} but asked with {value!r};"
                " evaluate it as it was trained, or train it again."
            )


def _served(method: Method, environment: Environment, asked: MethodRecipe) -> dict[str, Any]:
    return {
        "renderer": asked.renderer,
        "style": style_of(asked),
        "spec_digest": spec_digest(method.spec(environment)),
    }


def style_of(recipe: MethodRecipe) -> str:
    """The style of the rows that train a model for a method."""
    return _STYLES.get(recipe.name, recipe.name)
