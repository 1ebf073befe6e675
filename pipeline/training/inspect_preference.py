"""Inspection of pairs to prefer one of: both halves go through training's own encoding."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pipeline.errors import TrainingError
from pipeline.recipe.models import TrainRecipe
from pipeline.rendering.base import Prompt
from pipeline.rendering.tokens import Encoded
from pipeline.training.inspect_findings import (
    Choice,
    Fault,
    Findings,
    Kind,
    Shown,
    Stretch,
    bits,
    control_names,
)
from pipeline.training.inspect_rows import as_it_is, lacks_stop, stretches
from pipeline.training.preference_data import Preference, PreferenceReport, encode_pairs, fitted
from pipeline.training.preference_rows import PairRow, read_pair_rows
from pipeline.training.rows import Format


def inspect_preference(
    path: Path, kind: Format, style: str, tokenizer: Any, train: TrainRecipe, choice: Choice
) -> Findings:
    """Inspect a file of pairs. Two rows of a pair are shown: the better half, and how the worse went on.

    Raises:
        TrainingError: the file cannot be read, or a row is no pair.
    """
    found = Findings(PreferenceReport())
    pairs = 0
    for pair in read_pair_rows(path, kind):
        row, report, faults = _examine(pair, style, tokenizer, train.max_length)
        halves = _halves(pair, row, tokenizer, train.max_length)
        if row is not None:
            foreign = _foreign(halves.values(), tokenizer)
            found.control_ids += len(foreign)
            faults += [Fault("control", pair.id, ", ".join(dict.fromkeys(foreign)))] if foreign else []
        found.add(report, faults)
        if choice.wants(pair.id, pairs):
            pairs += 1
            lost = "" if row else faults[0].kind
            found.shown += [
                Shown(f"{pair.id} {half}", bits(parts, tokenizer), lost) for half, parts in halves.items()
            ]
    found.units = found.report.rows_kept
    return found


def _examine(
    pair: PairRow, style: str, tokenizer: Any, max_length: int
) -> tuple[Preference | None, PreferenceReport, list[Fault]]:
    """What training makes of a pair, and what is wrong with it."""
    stopless = any(lacks_stop(prompt, style, tokenizer) for prompt in (pair.chosen, pair.rejected))
    kind: Kind
    try:
        rows, report = encode_pairs([pair], tokenizer, max_length)
    except TrainingError as error:
        kind = "stop" if stopless else "refused"
        return None, PreferenceReport(rows_read=1), [Fault(kind, pair.id, str(error))]
    if not rows:
        kind = "too_long" if report.rows_too_long else "unserved"
        return None, report, [Fault(kind, pair.id)]
    return rows[0], report, [Fault("stop", pair.id)] if stopless else []


def _halves(
    pair: PairRow, row: Preference | None, tokenizer: Any, max_length: int
) -> dict[str, list[Stretch]]:
    """Both halves piece by piece; of a pair that training drops, both whole."""
    cut = fitted(pair, tokenizer, max_length) if row else None
    if row is None or cut is None:
        return {half: as_it_is(prompt, tokenizer) for half, prompt in _prompts(pair).items()}
    whole = {
        half: stretches(prompt, Encoded(row[f"{half}_ids"], row[f"{half}_labels"]), tokenizer)
        for half, prompt in _prompts(cut[0]).items()
    }
    return {**whole, "rejected": _after(whole["rejected"], row["prompt_length"])}


def _prompts(pair: PairRow) -> dict[str, Prompt]:
    return {"chosen": pair.chosen, "rejected": pair.rejected}


def _after(parts: Iterable[Stretch], length: int) -> list[Stretch]:
    """What stands behind so many ids."""
    left: list[Stretch] = []
    at = 0
    for part in parts:
        skipped = min(max(length - at, 0), len(part.ids))
        if skipped < len(part.ids):
            left.append(Stretch(part.ids[skipped:], part.labels[skipped:], part.plain))
        at += len(part.ids)
    return left


def _foreign(halves: Iterable[list[Stretch]], tokenizer: Any) -> list[str]:
    plain = (part for parts in halves for part in parts if part.plain)
    return [name for part in plain for name in control_names(tokenizer, part.ids)]
