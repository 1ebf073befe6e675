"""From exported pairs to ids and labels, with a report of everything that was lost on the way."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from pipeline.errors import FormatError, TrainingError
from pipeline.rendering.tokens import IGNORE, encode
from pipeline.training.data import Row, encode_episodes
from pipeline.training.packing import PaddedCollator
from pipeline.training.preference_rows import PairRow, read_pair_rows
from pipeline.training.rows import Episode, Format

Preference = dict[str, Any]
"""``chosen_ids`` and ``chosen_labels``, ``rejected_ids`` and ``rejected_labels``; ids begin with the same
prompt, of which nothing is a label."""


@dataclass
class PreferenceReport:
    """What became of the pairs: nothing is cut or dropped without being counted here.

    ``rows_unserved`` counts pairs whose prompt serving would write otherwise than training. ``tokens`` are
    those of both halves.
    """

    rows_read: int = 0
    rows_kept: int = 0
    rows_truncated: int = 0
    turns_dropped: int = 0
    rows_too_long: int = 0
    rows_unserved: int = 0
    tokens: int = 0
    labelled_tokens: int = 0
    prompt_tokens: int = 0
    longest: int = 0

    def lines(self) -> list[str]:
        """The report as plain lines; losses are mentioned only where there are any."""
        kept = (
            f"{self.rows_kept} of {self.rows_read} pairs, {self.tokens} tokens, {self.labelled_tokens} of "
            f"them labels; the longest half has {self.longest}"
        )
        losses = {
            "pairs truncated": self.rows_truncated,
            "oldest turns dropped, of both halves": self.turns_dropped,
            "pairs dropped as too long": self.rows_too_long,
            "pairs dropped because serving would write their prompt otherwise": self.rows_unserved,
        }
        return [kept, *(f"{name}: {count}" for name, count in losses.items() if count)]

    def as_dict(self) -> dict[str, int]:
        """The counts by name."""
        return asdict(self)

    def count(self, row: Preference) -> None:
        """Count a pair that is trained on."""
        self.rows_kept += 1
        self.prompt_tokens += row["prompt_length"]
        for half in ("chosen", "rejected"):
            self.tokens += len(row[f"{half}_ids"])
            self.labelled_tokens += sum(label != IGNORE for label in row[f"{half}_labels"])
            self.longest = max(self.longest, len(row[f"{half}_ids"]))


def load_preferences(
    path: Path, kind: Format, tokenizer: Any, max_length: int
) -> tuple[list[Preference], PreferenceReport]:
    """Encode the pairs of an exported file.

    A pair of which a half is over ``max_length`` loses the oldest turns that both halves have; one that is
    too long even then is dropped.

    Raises:
        TrainingError: the file or a row is unusable, or no pair is left to train on.
    """
    rows, report = encode_pairs(read_pair_rows(path, kind), tokenizer, max_length)
    if not rows:
        raise TrainingError(
            f"{path} holds no pair to train on: {report.rows_read} read, {report.rows_too_long} longer than "
            f"train.max_length = {max_length}, {report.rows_unserved} not as they would be served"
        )
    return rows, report


def encode_pairs(
    pairs: Iterable[PairRow], tokenizer: Any, max_length: int
) -> tuple[list[Preference], PreferenceReport]:
    """Encode pairs through the serving path's own ``encode``; see ``load_preferences``.

    Raises:
        TrainingError: a pair cannot be encoded, or would teach a turn without exactly one stop.
    """
    report = PreferenceReport()
    rows: list[Preference] = []
    for pair in pairs:
        report.rows_read += 1
        try:
            row = _row(pair, tokenizer, max_length, report)
        except FormatError as error:
            raise TrainingError(f"row {pair.id!r}: {error}") from error
        if row is not None:
            rows.append(row)
            report.count(row)
    return rows, report


def _row(pair: PairRow, tokenizer: Any, max_length: int, report: PreferenceReport) -> Preference | None:
    fitting = fitted(pair, tokenizer, max_length)
    if fitting is None:
        report.rows_too_long += 1
        return None
    kept, halves = fitting
    prompt = encode(kept.prompt, tokenizer, generate=True).ids
    length = len(prompt)
    if any(half.ids[:length] != prompt for half in halves):
        report.rows_unserved += 1
        return None
    report.rows_truncated += kept.shared < pair.shared
    report.turns_dropped += pair.shared - kept.shared
    chosen, rejected = ([IGNORE] * length + half.labels[length:] for half in halves)
    return {
        "chosen_ids": halves[0].ids,
        "chosen_labels": chosen,
        "rejected_ids": halves[1].ids,
        "rejected_labels": rejected,
        "prompt_length": length,
    }


def fitted(pair: PairRow, tokenizer: Any, max_length: int) -> tuple[PairRow, list[Row]] | None:
    """The pair with as few of its shared turns gone as ``max_length`` asks for, and its halves as ids.

    None where it is too long even so.

    Raises:
        TrainingError: a half cannot be encoded, or holds nothing to learn.
    """
    kept: PairRow | None = pair
    while kept is not None:
        episodes = [Episode(kept.id, kept.chosen), Episode(kept.id, kept.rejected)]
        halves, _ = encode_episodes(episodes, tokenizer, sys.maxsize)
        if len(halves) != len(episodes):
            raise TrainingError(f"row {kept.id!r}: a half of the pair has no words to learn; export it again")
        if max(len(half.ids) for half in halves) <= max_length:
            return kept, halves
        kept = kept.without_oldest_turn()
    return None


class PreferenceCollator:
    """Pairs as one padded batch: all better halves, then all worse ones in the same order."""

    def __init__(self, pad_id: int) -> None:
        self._pad = PaddedCollator(pad_id)

    def __call__(self, rows: Sequence[Preference]) -> dict[str, torch.Tensor]:
        """A batch: ``input_ids``, ``labels``, ``attention_mask``, each of shape (2 × pairs, longest)."""
        return self._pad(
            [
                {"input_ids": row[f"{half}_ids"], "labels": row[f"{half}_labels"]}
                for half in ("chosen", "rejected")
                for row in rows
            ]
        )
