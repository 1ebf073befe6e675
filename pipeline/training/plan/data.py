"""How much there is to train on: counted where the dataset is there, else as one is told."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pipeline.errors import ModelError, RecipeError
from pipeline.models.addresses import load_tokenizer, local_folder, resolve
from pipeline.recipe.models import Recipe, TrainRecipe
from pipeline.rendering.tokens import IGNORE
from pipeline.training.data import load_rows
from pipeline.training.packing import build_blocks
from pipeline.training.preference_data import load_preferences
from pipeline.training.rows import Export, read_export
from pipeline.training.seq2seq_data import load_examples
from pipeline.training.subsets import check_kind

LABELLED: Final = 1 / 3
"""Share of labels among tokens: what ReAct rows of Atlas have."""
FILL: Final = 0.95
"""How full blocks of packed rows get, where nobody has packed them yet."""
CHEAP: Final = 32_000_000
"""Bytes of rows up to which they are encoded for a plan."""


@dataclass(frozen=True)
class Data:
    """What an epoch holds.

    ``units`` are rows, blocks of packed rows, or pairs, each of ``tokens`` on average; None is unknown. A
    token sees a row (half of a pair) of ``document`` tokens. ``source`` says where the figures come from.
    """

    units: int | None
    tokens: float
    document: float
    labelled: float
    source: str


def told(train: TrainRecipe, rows: int, per_row: float, labelled: float | None) -> Data:
    """A dataset of so many rows of so many tokens; or of so many pairs, with so many in each half."""
    length = min(per_row, float(train.max_length))
    share = LABELLED if labelled is None else labelled
    if train.dpo:
        said = f"{rows:,} pairs, {per_row:,.0f} tokens a half, as you say"
        return Data(rows, 2 * length, length, share, said)
    units = min(rows, math.ceil(rows * length / (FILL * train.max_length))) if train.packing else rows
    said = f"{rows:,} rows of {per_row:,.0f} tokens, as you say"
    return Data(units, rows * length / units, length, share, said)


def unknown(train: TrainRecipe, labelled: float | None) -> Data:
    """Nothing is known: every row is taken to be as long as it may be."""
    length = float(train.max_length)
    halves, what = (2, "half of a pair") if train.dpo else (1, "row")
    said = f"no dataset yet: every {what} taken to have {train.max_length:,} tokens"
    return Data(None, halves * length, length, LABELLED if labelled is None else labelled, said)


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
    check_kind(dataset, export, train)
    path = dataset / chosen / "train.jsonl"
    tokenizer = _tokenizer(recipe.models[train.model].address)
    if tokenizer is not None and path.is_file() and path.stat().st_size <= CHEAP:
        return _encoded(path, export, train, tokenizer)
    counts = export.styles[chosen]
    rows = int((None if export.pairs else counts.get("trajectories")) or counts.get("rows") or 0)
    what = "pairs" if export.pairs else "rows"
    said = f"{rows:,} {what} of {path}, not encoded: each row taken to have {train.max_length:,} tokens"
    return replace(unknown(train, None), units=rows, source=said) if rows else None


def _encoded(path: Path, export: Export, train: TrainRecipe, tokenizer: Any) -> Data:
    if export.format == "swift":
        rows, report = load_examples(path, tokenizer, train.max_length, train.target_length)
        return _data(len(rows), len(rows), report.tokens, report.labelled_tokens, path)
    if export.pairs:
        pairs, told = load_preferences(path, export.format, tokenizer, train.max_length)
        there = _data(len(pairs), 2 * len(pairs), told.tokens, told.labelled_tokens, path)
        return replace(there, source=f"{len(pairs):,} pairs, {told.tokens:,} tokens of {path}")
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
