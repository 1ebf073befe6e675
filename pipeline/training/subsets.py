"""What a recipe trains on: the dataset, and which of its styles."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.errors import RecipeError, TrainingError
from pipeline.recipe.models import Recipe, TrainRecipe
from pipeline.training.rows import Export, read_export

_HELD: Final = {
    True: "pairs to prefer one of: set train.dpo, or export rows to imitate (without export.pairs)",
    False: "rows to imitate, and train.dpo needs pairs: set export.pairs and export again, or remove it",
}
"""What is wrong with a dataset whose rows are pairs, or are none."""


@dataclass(frozen=True)
class Subsets:
    """The styles of an exported dataset that are trained, and the address of the model that they train."""

    train: TrainRecipe
    address: str
    dataset: Path
    export: Export
    styles: tuple[str, ...]


def find_subsets(recipe: Recipe, runs: Path, only: str | None = None) -> Subsets:
    """Find what a recipe trains on.

    Args:
        recipe: a recipe with a train section.
        runs: the folder of run folders (the dataset lies in ``<runs>/<name>/dataset``).
        only: one style; None takes all that the recipe trains.

    Raises:
        RecipeError: the recipe trains nothing, or no model of its own.
        TrainingError: there is no dataset, it lacks a style, or the recipe does not train on its kind.
    """
    train = recipe.train
    if train is None:
        raise RecipeError(f"recipe {recipe.name!r} lacks a train section: there is nothing to train")
    if train.model not in recipe.models:
        raise RecipeError(f"train.model: {train.model!r} is not one of models")
    dataset = runs / (train.run or recipe.name) / "dataset"
    export = read_export(dataset)
    exported = recipe.export.styles if recipe.export and not train.run else export.styles
    styles = (only,) if only else tuple(train.styles or exported)
    for style in styles:
        if style not in export.styles:
            known = ", ".join(export.styles)
            raise TrainingError(f"{dataset} holds no style {style!r} (only {known}); export it as well")
    check_kind(dataset, export, train)
    return Subsets(train, recipe.models[train.model].address, dataset, export, styles)


def check_kind(dataset: Path, export: Export, train: TrainRecipe) -> None:
    """Make sure that pairs are there to be preferred, or rows to be imitated.

    Raises:
        TrainingError: the dataset holds what the recipe does not ask for.
    """
    if export.pairs != (train.dpo is not None):
        raise TrainingError(f"{dataset} holds {_HELD[export.pairs]}")
