"""How much there is to train on: counted where the dataset is there, else as one is told."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pipeline.errors import ModelError, RecipeError
from pipeline.models.addresses import load_tokenizer, local_folder, resolve
from pipeline.recipe.models import Recipe, TrainRecipe
from pipeline.rendering.tokens import IGNORE
from pipeline.training.data import load_rows
from pipeline.training.packing import build_blocks
from pipeline.training.rows import Export, read_export
from pipeline.training.seq2seq_data import load_examples

LABELLED: Final = 1 / 3
"""Share of labels among tokens: what ReAct rows of Atlas have."""
FILL: Final = 0.95
"""How full blocks of packed rows get, where nobody has packed them yet."""
CHEAP: Final = 32_000_000
"""Bytes of rows up to which they are encoded for a plan."""


@dataclass(frozen=True)
class Data:
    """What an epoch holds.

    ``units`` are rows, or blocks of packed rows, each of ``tokens`` on average; None is unknown. A token
    sees a row of ``document`` tokens. ``source`` says where the figures come from.
    """

    units: int | None
    tokens: float
    document: float
    labelled: float
    source: str


def told(train: TrainRecipe, rows: int, per_row: float, labelled: float | None) -> Data:
    """A dataset of so many rows of so many tokens."""
    length = min(per_row, float(train.max_length))
    units = min(rows, math.ceil(rows * length / (FILL * train.max_length))) if train.packing else rows
    said = f"{rows:,} rows of {per_row:,.0f} tokens, as you say"
    return Data(units, rows * length / units, length, LABELLED if labelled is None else labelled, said)


def unknown(train: TrainRecipe, labelled: float | None) -> Data:
    """Nothing is known: every row is taken to be as long as it may be."""
    length = float(train.max_length)
    said = f"no dataset yet: every row taken to have {train.max_length:,} tokens"
    return Data(None, length, length, LABELLED if labelled is None else labelled, said)


def found(recipe: Recipe, train: TrainRecipe, runs: Path, style: str | None) -> Data | None:
    """The dataset that the recipe trains on, if it is there; encoded if that is cheap.

    Raises:
        StaractError: it is there and cannot be read.
    """
    dataset = runs / (train.run or recipe.name) / "dataset"
    if not (dataset / "export.json").is_file():
        return None
    export = read_export(dataset)
    chosen = style or (train.styles or list(export.styles))[0]
    if chosen not in export.styles:
        raise RecipeError(f"{dataset} holds no style {chosen!r} (only {', '.join(export.styles)})")
    path = dataset / chosen / "train.jsonl"
    tokenizer = _tokenizer(recipe.models[train.model].address)
    if tokenizer is not None and path.is_file() and path.stat().st_size <= CHEAP:
        return _encoded(path, export, train, tokenizer)
    rows = int(export.styles[chosen].get("trajectories") or export.styles[chosen].get("rows") or 0)
    length = float(train.max_length)
    said = f"{rows:,} rows of {path}, not encoded: each taken to have {train.max_length:,} tokens"
    return Data(rows, length, length, LABELLED, said) if rows else None


def _encoded(path: Path, export: Export, train: TrainRecipe, tokenizer: Any) -> Data:
    if export.format == "swift":
        rows, report = load_examples(path, tokenizer, train.max_length, train.target_length)
        return _data(len(rows), len(rows), report.tokens, report.labelled_tokens, path)
    rows, counted = load_rows(path, export.format, tokenizer, train.max_length)
    blocks = build_blocks(rows, train.max_length, train.seed, packing=train.packing)
    labels = sum(label != IGNORE for row in rows for label in row.labels[1:])
    return _data(len(blocks), len(rows), counted.tokens, labels, path)


def _data(units: int, rows: int, tokens: int, labels: int, path: Path) -> Data:
    said = f"{rows:,} rows, {tokens:,} tokens of {path}"
    return Data(units, tokens / units, tokens / rows, labels / tokens, said)


def _tokenizer(address: str) -> Any:
    """The tokeniser, where it is on this machine."""
    if resolve(address).kind not in {"folder", "package"}:
        return None
    try:
        return load_tokenizer(local_folder(address))
    except ModelError:
        return None
