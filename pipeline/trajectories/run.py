"""A run's folder: the recipe that made it, and where each stage writes.

``recipe.json`` is itself a recipe: it holds the parts that stages have used so far. A stage that
is asked for with other values is refused, because its results would not be those of the recipe.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from pipeline.errors import StoreError
from pipeline.recipe.models import Recipe
from pipeline.trajectories.files import read_json, write_json
from pipeline.trajectories.schema import digest

ALWAYS = ("name", "seed", "environment")
"""Parts that every stage rests on."""
FREE = re.compile(
    r"generate\.(until|samples|per_task|max_cost|max_tokens|concurrency)|evaluate\.(concurrency|checkpoints)"
    r"|models\..*\.(price_per_million(\.\d+)?|timeout|max_retries|stream|api_key_env|size)"
    r"|environment\.options\.(simulators|timeout)"
    r"|train\.(log_every|accelerate|processes|batch_size|tracker|project|activation_checkpointing)"
    r"|export\.pairs\.(runs(\.\d+)?|per_task|target)"
    r"|rounds\.(most|gain)|executor\..*"
)
"""Keys that may change in the middle of a run: how many episodes there are, what asking costs, and how
the machine is used, but not what any episode or student is."""


@dataclass(frozen=True)
class Run:
    """Where everything about a run is kept."""

    folder: Path
    recipe: Recipe

    @property
    def recipe_file(self) -> Path:
        return self.folder / "recipe.json"

    @property
    def trajectories(self) -> Path:
        return self.folder / "trajectories.jsonl"

    @property
    def selected(self) -> Path:
        return self.folder / "selected.jsonl"

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.json"

    @property
    def dataset(self) -> Path:
        return self.folder / "dataset"

    @property
    def evaluation(self) -> Path:
        return self.folder / "evaluation"

    @property
    def report(self) -> Path:
        return self.folder / "report"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"


def recipe_digest(recipe: Recipe) -> str:
    """A hash of the resolved recipe."""
    return digest(recipe.model_dump(mode="json"))


def open_run(
    root: Path, recipe: Recipe, sections: Sequence[str] | None = None, redo: Sequence[str] = ()
) -> Run:
    """The run folder ``root/<name>`` of a recipe, made on first use.

    Args:
        root: the folder that run folders stand in.
        recipe: the resolved recipe.
        sections: the parts that the stage rests on, as dotted keys (``models``, ``models.teacher``,
            ``generate``); by default the whole recipe. ``name``, ``seed`` and ``environment`` always
            belong to them. Parts that are not named may differ from what is recorded.
        redo: parts to record anew without comparing, for stages that start afresh each time.

    Raises:
        StoreError: a part that the run has already used is different now (its keys are named), or
            the folder cannot be read or written.
    """
    run = Run(Path(root) / recipe.name, recipe)
    new: dict[str, Any] = recipe.model_dump(mode="json")
    asked = [*ALWAYS, *(new if sections is None else sections)]
    old = _recorded(run.recipe_file)
    differences = [
        key
        for section in asked
        if section not in redo and _pick(old, section) is not None
        for key in _differences(_pick(old, section), _pick(new, section), section)
    ]
    changed = [key for key in differences if not FREE.fullmatch(key)]
    if changed:
        names = ", ".join(dict.fromkeys(changed))
        raise StoreError(
            f"{run.folder} was made by another recipe; changed: {names}."
            " Put the old values back, or name another run"
        )
    # The description says nothing about results, so it follows the recipe.
    merged = {**old, "description": new["description"]}
    for section in [*asked, *redo]:
        _put(merged, section, _pick(new, section))
    if merged != old:
        write_json(run.recipe_file, merged)
    return run


def _recorded(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    content = read_json(path)
    if not isinstance(content, dict):
        raise StoreError(f"{path} is not a recipe: remove the run folder, or name another run")
    return _completed(cast("dict[str, Any]", content))


def _completed(old: dict[str, Any]) -> dict[str, Any]:
    """A recorded recipe with the defaults of keys that recipes did not have when it was recorded."""
    try:
        whole = Recipe.model_validate(old).model_dump(mode="json")
    except ValidationError:
        return old
    return {key: whole.get(key, value) for key, value in old.items()}


def _pick(content: Any, dotted: str) -> Any:
    for part in dotted.split("."):
        if not isinstance(content, Mapping) or part not in content:
            return None
        content = cast("Mapping[str, Any]", content)[part]
    return content


def _put(content: dict[str, Any], dotted: str, value: Any) -> None:
    *parents, last = dotted.split(".")
    for part in parents:
        content = content.setdefault(part, {})
    if value is not None:
        content[last] = value


def _differences(old: Any, new: Any, where: str) -> list[str]:
    """The dotted keys under ``where`` whose values differ."""
    if old == new:
        return []
    before, after = _children(old), _children(new)
    if before is None or after is None:
        return [where]
    keys = dict.fromkeys([*before, *after])
    return [name for key in keys for name in _differences(before.get(key), after.get(key), f"{where}.{key}")]


def _children(value: Any) -> dict[str, Any] | None:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    if isinstance(value, list):
        return {str(index): item for index, item in enumerate(cast("list[Any]", value))}
    return None
