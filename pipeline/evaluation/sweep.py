"""Success against training steps: the checkpoints of a run on one panel, beside the model they started from.

Every student entry of the recipe is played by every checkpoint of its style, as an evaluation plays it.
Episodes are kept under the hash of the weights, so none is played twice, and none stands for other weights.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import RecipeError, StoreError, TrainingError
from pipeline.evaluation.entrants import STUDENT, Entrant, Found, style_of
from pipeline.evaluation.metrics import SCORE, Metric, is_errored
from pipeline.evaluation.rows import Aligned, Group, Settings, align, build_rows
from pipeline.models.addresses import STAMP, read_stamp, resolve
from pipeline.recipe.models import EntryRecipe, MethodRecipe, Recipe
from pipeline.training.checkpoint import weight_files
from pipeline.training.identity import sha256
from pipeline.training.steps import IDENTITY, is_whole
from pipeline.trajectories.files import read_json
from pipeline.trajectories.panels import Panel
from pipeline.trajectories.schema import Record, Trajectory, digest

_START = ".start"
_STEP = re.compile(r"checkpoint-[0-9]+")


@dataclass(frozen=True)
class Checkpoint:
    """Weights of one style after so many steps.

    ``trained`` says how, with a hash of all that serves them; ``tensors`` is that of the weights alone.
    """

    name: str
    folder: Path
    step: int
    trained: dict[str, Any]
    tensors: str = ""


@dataclass(frozen=True)
class Player:
    """One point to play. ``checkpoint`` is None where the base plays, which is step 0."""

    entrant: Entrant
    style: str
    checkpoint: Checkpoint | None


class Point(Record):
    """One checkpoint with one method on the panel.

    ``value`` is the mean of the sweep's metric, with its interval. ``best`` marks the best trained point
    of a method (of equal ones the earliest). ``no_effect`` says that it wrote, letter for letter, what the
    base wrote on every task; null where no base was played. ``weights`` is empty for the base.
    """

    method: str
    style: str
    step: int
    checkpoint: str
    weights: str
    n: int
    correct: int
    errored: int
    value: float
    ci_low: float
    ci_high: float
    best: bool = False
    no_effect: bool | None = None


class Sweep(Record):
    """All that a sweep found; points by method, then by step."""

    recipe: str
    metric: Metric
    confidence: float
    split: str
    size: int
    panel: str
    points: list[Point]


def find_checkpoints(folder: Path) -> tuple[list[Checkpoint], list[Path]]:
    """Every checkpoint at or below a folder, by step, and the folders of those that were torn while saving.

    Intermediate ones are ``checkpoint-N``, with a ``staract.json`` of their own where they were kept, beside
    an ``identity.json`` while training goes on; finished students are folders with a ``staract.json`` and a
    ``train.json``. A student and the checkpoint that it was made of are one: the student.

    Raises:
        TrainingError: there is none, or one does not say how it was trained.
        ModelError: a stamp is unreadable.
    """
    if not folder.is_dir():
        raise TrainingError(f"{str(folder)!r} is no folder: name one with checkpoints, as checkpoints/<run>")
    below = [path for path in (folder, *folder.rglob("*/")) if not _hidden(folder, path)]
    steps = [path for path in below if _STEP.fullmatch(path.name)]
    torn = sorted(path for path in steps if not is_whole(path))
    found = [_student(folder, path) for path in below if _is_student(path)]
    found += [_intermediate(folder, path) for path in steps if path not in torn]
    if not found:
        raise TrainingError(
            f"{folder} holds no checkpoint (checkpoint-N or a finished student): name another folder"
        )
    distinct: dict[tuple[Any, ...], Checkpoint] = {}
    for one in found:
        distinct.setdefault((one.trained.get("style"), one.step, one.tensors), one)
    return sorted(distinct.values(), key=lambda one: (one.step, one.name)), torn


def _hidden(root: Path, folder: Path) -> bool:
    """Whether a folder lies in one that is still being written."""
    return any(part.startswith(".") for part in folder.relative_to(root).parts)


def _intermediate(root: Path, folder: Path) -> Checkpoint:
    trained, beside = read_stamp(folder), folder.parent / IDENTITY
    if not trained and not beside.is_file():
        raise TrainingError(
            f"{folder} does not say how it was trained: {beside} is missing; copy it there too"
        )
    return _checkpoint(root, folder, int(folder.name.rpartition("-")[2]), trained or _json(beside))


def _is_student(folder: Path) -> bool:
    unfinished = _STEP.fullmatch(folder.name) or folder.name.endswith(_START)
    return not unfinished and (folder / STAMP).is_file() and (folder / "train.json").is_file()


def _student(root: Path, folder: Path) -> Checkpoint:
    log = _json(folder / "train.json")
    last = max((entry["step"] for entry in log.get("steps", [])), default=0)
    # A student that was chosen while it trained has the weights of an earlier step.
    return _checkpoint(root, folder, log.get("best_step") or last, read_stamp(folder))


def _checkpoint(root: Path, folder: Path, step: int, trained: dict[str, Any]) -> Checkpoint:
    name = folder.relative_to(root).as_posix() if folder != root else folder.name
    sums = {path: sha256(path) for path in weight_files(folder)}
    tensors = digest([text for path, text in sums.items() if path.suffix == ".safetensors"])
    return Checkpoint(name, folder, step, {**trained, "weights": digest(list(sums.values()))}, tensors)


def _json(path: Path) -> dict[str, Any]:
    try:
        return read_json(path)
    except StoreError as error:
        raise TrainingError(f"{error}; move {path.parent} away") from None


def players(recipe: Recipe, folder: Path, checkpoints: Sequence[Checkpoint]) -> list[Player]:
    """Who plays: for every student entry the base it started from, then its checkpoints by step.

    Args:
        recipe: a recipe with train and evaluate sections.
        folder: where the checkpoints were found; a model trained from nothing has its start there.
        checkpoints: as ``find_checkpoints`` gives them.

    Raises:
        RecipeError: the recipe has no student entries, or none whose style has a checkpoint.
    """
    if recipe.evaluate is None or recipe.train is None:
        raise RecipeError(
            f"recipe {recipe.name!r}: comparing checkpoints needs a train and an evaluate section"
        )
    methods = [entry.method for entry in recipe.evaluate.entries if entry.model == STUDENT]
    if not methods:
        raise RecipeError(f"recipe {recipe.name!r}: no entry of evaluate has the model {STUDENT!r}")
    found: list[Player] = []
    for method in methods:
        own = [one for one in checkpoints if one.trained.get("style") == style_of(method)]
        if own:
            found += _base(recipe, method, folder) + [_trained(recipe, method, one) for one in own]
    if not found:
        styles = ", ".join(sorted({str(one.trained.get("style")) for one in checkpoints}))
        raise RecipeError(
            f"{folder} holds checkpoints of {styles}: no student entry of {recipe.name!r} is of that style"
        )
    return found


def _trained(recipe: Recipe, method: MethodRecipe, one: Checkpoint) -> Player:
    assert recipe.train is not None  # noqa: S101 - players has looked
    base = recipe.models[recipe.train.model]
    model = Found(base.model_copy(update={"address": str(one.folder)}), one.trained, recipe.train.model)
    return Player(Entrant(EntryRecipe(model=one.name, method=method), model), style_of(method), one)


def _base(recipe: Recipe, method: MethodRecipe, folder: Path) -> list[Player]:
    """The base as the student is asked; none where a model was trained from nothing and its start is gone."""
    assert recipe.train is not None  # noqa: S101 - players has looked
    key, style = recipe.train.model, style_of(method)
    model = recipe.models[key]
    if resolve(model.address).kind == "new":
        start = _start(folder, style)
        if start is None:
            return []
        model = model.model_copy(update={"address": str(start)})
    return [Player(Entrant(EntryRecipe(model=key, method=method), Found(model, {})), style, None)]


def _start(folder: Path, style: str) -> Path | None:
    """Where training kept a style's model as it was; above the folder where that holds checkpoints alone."""
    name = f"{style}{_START}"
    above = [parent / name for parent in folder.absolute().parents[:2]]
    return next((path for path in [*sorted(folder.rglob(name)), *above] if path.is_dir()), None)


def build_sweep(recipe: Recipe, panel: Panel, played: Sequence[Player], groups: Sequence[Group]) -> Sweep:
    """Compute the sweep.

    Args:
        recipe: the recipe, whose evaluate section says how intervals are computed.
        panel: the tasks, which are the denominator.
        played: as ``players`` gives them.
        groups: the episodes of each, in the same order.

    Raises:
        RecipeError: two student entries have the same method.
        StoreError: episodes are not the panel's.
    """
    evaluate = recipe.evaluate
    assert evaluate is not None  # noqa: S101 - players has looked
    measured = {name for group in groups for one in group.trajectories for name in one.grade.metrics}
    # Success is the environment's verdict; where it gives points on the way, these tell more.
    metric: Metric = SCORE if SCORE in measured else "accuracy"
    settings = Settings(metric, evaluate.confidence, evaluate.resamples, evaluate.seed)
    rows = {row.name: row for row in build_rows(panel, groups, settings)}
    bases = {one.group.method: one for one, who in _pairs(panel, played, groups) if who.checkpoint is None}
    points = [
        Point(
            method=one.group.method,
            style=who.style,
            step=who.checkpoint.step if who.checkpoint else 0,
            checkpoint=one.group.model,
            weights=who.checkpoint.trained["weights"] if who.checkpoint else "",
            n=rows[one.group.name].n,
            correct=rows[one.group.name].correct,
            errored=rows[one.group.name].errored,
            value=rows[one.group.name].value(metric),
            ci_low=rows[one.group.name].ci_low,
            ci_high=rows[one.group.name].ci_high,
            no_effect=_same(one, bases.get(one.group.method)) if who.checkpoint else None,
        )
        for one, who in _pairs(panel, played, groups)
    ]
    return Sweep(
        recipe=recipe.name,
        metric=metric,
        confidence=evaluate.confidence,
        split=panel.split,
        size=len(panel),
        panel=panel.digest,
        points=mark_best(points),
    )


def _pairs(panel: Panel, played: Sequence[Player], groups: Sequence[Group]) -> list[tuple[Aligned, Player]]:
    return list(zip(align(panel, groups), played, strict=True))


def mark_best(points: Sequence[Point]) -> list[Point]:
    """The points, the best trained one of each method marked; of equal ones the earliest."""
    best: dict[str, Point] = {}
    for point in sorted(points, key=lambda point: (-point.value, point.step)):
        if point.weights:
            best.setdefault(point.method, point)
    return [point.model_copy(update={"best": point is best.get(point.method)}) for point in points]


def _same(one: Aligned, base: Aligned | None) -> bool | None:
    """Whether every episode holds the base's own words; None where nothing tells."""
    if base is None:
        return None
    both = list(zip(one.episodes, base.episodes, strict=True))
    if any(is_errored(episode) for pair in both for episode in pair):
        return None
    # Two models that were both stopped before their first word are not the same for that.
    told = any(_written(before) for _, before in both)
    return all(_written(own) == _written(before) for own, before in both) if told else None


def _written(trajectory: Trajectory | None) -> list[str]:
    return [step.completion or step.action for step in trajectory.steps] if trajectory else []
