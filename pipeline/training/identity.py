"""What decides a training's outcome, so that nothing is taken up that comes from something else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipeline.errors import TrainingError
from pipeline.recipe.models import TrainRecipe

_FREE_KEYS = {
    *("model", "tracker", "project", "log_every", "save_every", "accelerate", "processes"),
    *("keep_checkpoints", "activation_checkpointing"),
}
"""Keys of ``train`` that may change without making another student."""
_SPLIT_KEYS = {"batch_size", "accumulation"}
"""Where ``rows_a_step`` says how many rows a step holds, these only say how it is split."""
_TRAINED = "train."


def identity_of(
    recipe: TrainRecipe, address: str, style: str, part: Mapping[str, Any], dataset: Path
) -> dict[str, Any]:
    """Everything that decides what a style's training comes to, by the name of its recipe key.

    Args:
        recipe: the ``train`` section.
        address: the base model.
        style: the style trained.
        part: renderer, its version and the style's prompt digest, from the export.
        dataset: the exported dataset's folder.
    """
    data = {path.name: sha256(path) for path in sorted((dataset / style).glob("*.jsonl"))}
    return {"style": style, **part, "data": data, "model": address, **_deciding(recipe)}


def require_same(folder: Path, noted: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse a folder that comes from something else.

    A key of ``train`` that did not exist when the folder was written counts with its default.

    Raises:
        TrainingError: something that decides the outcome differs; it is named.
    """
    noted = {**noted, **_completed(noted, wanted)}
    changed = sorted(key for key in {*noted, *wanted} if noted.get(key) != wanted.get(key))
    if changed:
        raise TrainingError(
            f"{folder} was trained from another recipe or dataset (changed: {', '.join(changed)}); "
            "rename the run (name=…) or delete the folder"
        )


def sha256(path: Path) -> str:
    """The hash of a file's content, shortened."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _deciding(recipe: TrainRecipe) -> dict[str, Any]:
    """The keys of ``train`` that another student would come of, if they were others."""
    # Whoever compares checkpoints compares those that there are.
    free = _FREE_KEYS - ({"save_every"} if recipe.stop_on else set[str]())
    free |= _SPLIT_KEYS if recipe.rows_a_step is not None else set[str]()
    train = recipe.model_dump(mode="json", exclude=free)
    if recipe.validate_on is not None:
        del train["validate_on"]["concurrency"]
    return {_TRAINED + key: value for key, value in train.items()}


def _completed(noted: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of ``train`` that are wanted, as they were noted, or as they were before they had a name."""
    keys = {key: value for key, value in noted.items() if key.startswith(_TRAINED)}
    try:
        recipe = TrainRecipe.model_validate({key.removeprefix(_TRAINED): keys[key] for key in keys})
    except ValidationError:
        return {}
    return {key: value for key, value in _deciding(recipe).items() if key in wanted}
