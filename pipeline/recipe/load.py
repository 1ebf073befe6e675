"""Reading a recipe: YAML with ``key=value`` overrides, checked, with errors that say where."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, cast

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ValidationError

from pipeline.errors import RecipeError
from pipeline.recipe.models import LOGIN_ERROR, Recipe

SHORT_FORMS: Final = {"accelerate": "train.accelerate", "checkpoints": "evaluate.checkpoints"}
"""Overrides that may be written without their section."""


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe file and apply overrides such as ``train.epochs=2`` or ``name=trial``.

    Args:
        path: a YAML file.
        overrides: ``dotted.key=value`` strings; list items are numbered (``evaluate.entries.0``).
            Values are read as YAML. ``SHORT_FORMS`` may leave their section out.

    Raises:
        RecipeError: the file is missing or not YAML, or a key or value is not one of a recipe.
    """
    text = _read(path)
    config = _parse(path, text)
    overrides = [_whole(override) for override in overrides]
    for override in overrides:
        _override(config, override)
    return _check(path, text, _plain(path, config), overrides)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RecipeError(f"{path}: there is no such recipe; `staract recipes` lists them.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: the recipe cannot be read: {_first_line(error)}.") from error


def _parse(path: Path, text: str) -> DictConfig:
    try:
        if not isinstance(yaml.compose(text, Loader=yaml.SafeLoader), yaml.MappingNode):
            raise RecipeError(f"{path}: a recipe is a mapping of keys such as name and environment.")
        return cast("DictConfig", OmegaConf.create(text))
    except (yaml.YAMLError, OmegaConfBaseException, ValueError, TypeError, RecursionError) as error:
        raise RecipeError(f"{path}: this is not readable YAML: {_first_line(error)}.") from error


def _whole(override: str) -> str:
    key, separator, raw = override.partition("=")
    return f"{SHORT_FORMS.get(key.strip(), key)}={raw}" if separator else override


def _override(config: Any, override: str) -> None:
    key, separator, raw = override.partition("=")
    if not separator or not key.strip():
        raise RecipeError(f"Override {override!r} is not of the form key=value, as in train.epochs=2.")
    try:
        # OmegaConf's own reader: PyYAML alone would take 1e-5 for a string.
        value = OmegaConf.create({"value": None})
        value.merge_with_dotlist([f"value={raw}"])
        OmegaConf.update(config, key.strip(), value["value"], merge=False)
    except (OmegaConfBaseException, yaml.YAMLError, IndexError, TypeError, ValueError) as error:
        raise RecipeError(f"Override {override!r} cannot be applied: {_first_line(error)}.") from error


def _plain(path: Path, config: Any) -> dict[str, Any]:
    if "${oc." in OmegaConf.to_yaml(config):
        # A resolved recipe is written to the run folder: what stands in the environment stays there.
        raise RecipeError(f"{path}: '${{oc.…}}' resolvers are not allowed; name secrets by api_key_env.")
    try:
        return OmegaConf.to_container(config, resolve=True)  # type: ignore[return-value]
    except OmegaConfBaseException as error:
        raise RecipeError(f"{path}: {_first_line(error)}.") from error


def _check(path: Path, text: str, values: dict[str, Any], overrides: Sequence[str]) -> Recipe:
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        lines = _line_numbers(text)
        problems = [_problem(detail, path, lines, overrides) for detail in error.errors()]
        raise RecipeError("\n".join(problems)) from error


def _problem(detail: Any, path: Path, lines: dict[str, int], overrides: Sequence[str]) -> str:
    key = ".".join(str(part) for part in detail["loc"])
    where = _where(key, path, lines, overrides)
    if detail["type"] == "extra_forbidden":
        return f"{where}: {key!r} is not a key of a recipe{_suggestion(detail['loc'])}."
    if detail["type"] == "missing":
        return f"{where}: {key!r} is missing; a recipe must say it."
    reason = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == LOGIN_ERROR:
        # Neither the value nor the override that holds it is repeated.
        return f"{path}: {key!r}: {reason}."
    if not key:
        return f"{where}: {reason}."
    return f"{where}: {key!r} is {detail['input']!r}, but: {reason}."


def _where(key: str, path: Path, lines: dict[str, int], overrides: Sequence[str]) -> str:
    for override in overrides:
        changed = override.partition("=")[0].strip()
        if key == changed or key.startswith(f"{changed}."):
            return f"override {override!r}"
    while key and key not in lines:
        key = key.rpartition(".")[0]
    return f"{path}:{lines[key]}" if key else str(path)


def _line_numbers(text: str) -> dict[str, int]:
    """Dotted key → the line (from 1) on which it stands."""
    lines: dict[str, int] = {}

    def walk(node: yaml.Node | None, prefix: str) -> None:
        pairs: Iterable[tuple[str, yaml.Node, yaml.Node]] = ()
        if isinstance(node, yaml.MappingNode):
            pairs = ((str(key.value), key, value) for key, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            pairs = ((str(index), value, value) for index, value in enumerate(node.value))
        for name, at, value in pairs:
            dotted = f"{prefix}{name}"
            lines[dotted] = at.start_mark.line + 1
            walk(value, f"{dotted}.")

    walk(yaml.compose(text, Loader=yaml.SafeLoader), "")
    return lines


def _suggestion(location: tuple[Any, ...]) -> str:
    known = _known_keys(Recipe, location[:-1])
    close = difflib.get_close_matches(str(location[-1]), known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else f" (known here: {', '.join(known)})"


def _known_keys(model: type[BaseModel], location: tuple[Any, ...]) -> list[str]:
    """The keys that a recipe knows at a location, found by walking the models' annotations."""
    for part in location:
        if isinstance(part, int) or part not in model.model_fields:
            continue
        inner = _section(model.model_fields[part].annotation)
        if inner is not None:
            model = inner
    return list(model.model_fields)


def _section(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    candidates = (_section(argument) for argument in getattr(annotation, "__args__", ()))
    return next((found for found in candidates if found is not None), None)


def _first_line(error: BaseException) -> str:
    return " ".join(str(error).strip().split("\n")[:3]).rstrip(".")
