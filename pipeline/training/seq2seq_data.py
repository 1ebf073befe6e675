"""Rows of an encoder-decoder: source ids, target ids, and a report of everything that was lost."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from pipeline.errors import ContextLimitError, FormatError, StoreError, TrainingError
from pipeline.rendering.seq2seq_ids import fit_source, ids_of
from pipeline.rendering.tokens import IGNORE
from pipeline.trajectories.files import read_jsonl


@dataclass(frozen=True)
class Example:
    """One exported row: an input of SWIFT's and the action that is to follow."""

    episode: str
    step: int
    input: str
    target: str

    @property
    def name(self) -> str:
        """What errors call it."""
        return f"{self.episode}, step {self.step}"


@dataclass(frozen=True)
class EncodedExample:
    """One example as ids, each side ending with one end token."""

    source: array[int]
    target: array[int]


@dataclass
class Seq2SeqReport:
    """What became of the rows. ``tokens`` are those of sources and targets together."""

    rows_read: int = 0
    rows_kept: int = 0
    rows_cut: int = 0
    entries_left_out: int = 0
    characters_left_out: int = 0
    rows_too_long: int = 0
    targets_too_long: int = 0
    rows_unlabelled: int = 0
    tokens: int = 0
    labelled_tokens: int = 0
    longest_source: int = 0
    longest_target: int = 0

    def lines(self) -> list[str]:
        """The report as plain lines; losses are mentioned only where there are any."""
        kept = (
            f"{self.rows_kept} of {self.rows_read} rows, {self.tokens} tokens, {self.labelled_tokens} of "
            f"them labels; the longest source has {self.longest_source}, the longest target "
            f"{self.longest_target}"
        )
        losses = {
            "rows cut to fit": self.rows_cut,
            "history entries left out": self.entries_left_out,
            "other characters left out": self.characters_left_out,
            "rows dropped as too long": self.rows_too_long,
            "rows dropped for a target that is too long": self.targets_too_long,
            "rows dropped without a target": self.rows_unlabelled,
        }
        return [kept, *(f"{name}: {count}" for name, count in losses.items() if count)]

    def as_dict(self) -> dict[str, int]:
        """The counts by name."""
        return asdict(self)


def read_examples(path: Path) -> Iterator[Example]:
    """Read the rows of a file that was exported in the format ``swift``, one at a time.

    Raises:
        TrainingError: the file is missing, a line is broken, or a row is not of the format.
    """
    try:
        for row in read_jsonl(path):
            example = Example(row["id"], row["step"], row["input"], row["target"])
            if not isinstance(row["input"], str) or not isinstance(row["target"], str):
                raise TrainingError(f"{path}, row {example.name!r}: input and target must be texts")
            yield example
    except StoreError as error:
        raise TrainingError(f"{error}; export the dataset again") from None
    except (KeyError, TypeError) as error:
        raise TrainingError(
            f"{path}: a row is not of the format 'swift' ({error!r}); export it again"
        ) from None


def load_examples(
    path: Path, tokenizer: Any, source_length: int, target_length: int
) -> tuple[list[EncodedExample], Seq2SeqReport]:
    """Encode the rows of an exported file through the serving path's own ``seq2seq_ids``.

    A source is cut to fit as it is when served. A target is never cut: a row whose target is too long
    is dropped and counted.

    Raises:
        TrainingError: the file or a row is unusable, or no row is left to train on.
    """
    try:
        rows, report = encode_examples(read_examples(path), tokenizer, source_length, target_length)
    except FormatError as error:
        raise TrainingError(f"{path}, {error}") from error
    if not rows:
        raise TrainingError(
            f"{path} holds no row to train on: {report.rows_read} read, {report.rows_too_long} longer than "
            f"train.max_length = {source_length}, {report.targets_too_long} with targets longer than "
            f"train.target_length = {target_length}, {report.rows_unlabelled} without a target"
        )
    return rows, report


def encode_examples(
    examples: Iterable[Example], tokenizer: Any, source_length: int, target_length: int
) -> tuple[list[EncodedExample], Seq2SeqReport]:
    """Encode examples; see ``load_examples``.

    Raises:
        FormatError: an example cannot be encoded, or its target would end twice; its name is said.
    """
    report = Seq2SeqReport()
    rows: list[EncodedExample] = []
    for example in examples:
        report.rows_read += 1
        try:
            row = _row(example, tokenizer, source_length, target_length, report)
        except FormatError as error:
            raise FormatError(f"row {example.name!r}: {error}") from error
        if row is not None:
            rows.append(row)
            _count(row, report)
    return rows, report


def _row(
    example: Example, tokenizer: Any, source_length: int, target_length: int, report: Seq2SeqReport
) -> EncodedExample | None:
    target = ids_of(tokenizer, example.target)
    if len(target) < 2:
        report.rows_unlabelled += 1
        return None
    if len(target) > target_length:
        report.targets_too_long += 1
        return None
    if tokenizer.eos_token_id in target[:-1]:
        raise FormatError("the target holds an end token; export the dataset again")
    try:
        source, fitted = fit_source(tokenizer, example.input, source_length)
    except ContextLimitError:
        report.rows_too_long += 1
        return None
    report.rows_cut += bool(fitted.entries or fitted.characters)
    report.entries_left_out += fitted.entries
    report.characters_left_out += fitted.characters
    return EncodedExample(array("i", source), array("i", target))


def _count(row: EncodedExample, report: Seq2SeqReport) -> None:
    report.rows_kept += 1
    report.tokens += len(row.source) + len(row.target)
    report.labelled_tokens += len(row.target)
    report.longest_source = max(report.longest_source, len(row.source))
    report.longest_target = max(report.longest_target, len(row.target))


class Seq2SeqCollator:
    """Pads on the right. Padding is masked by length in sources, and is ``IGNORE`` in labels.

    Args:
        pad: what fills sources and the decoder's inputs.
        start: what the decoder starts from.
    """

    def __init__(self, pad: int, start: int) -> None:
        self._pad = pad
        self._start = start

    def __call__(self, rows: Sequence[EncodedExample]) -> dict[str, torch.Tensor]:
        """A batch, right-padded.

        ``input_ids`` and ``attention_mask`` have the shape (rows, longest source), ``labels`` and
        ``decoder_input_ids`` (the labels shifted right by one) the shape (rows, longest target).
        """
        sources = [row.source.tolist() for row in rows]
        targets = [row.target.tolist() for row in rows]
        return {
            "input_ids": _padded(sources, self._pad),
            "attention_mask": _padded([[1] * len(source) for source in sources], 0),
            "labels": _padded(targets, IGNORE),
            "decoder_input_ids": _padded([[self._start, *target[:-1]] for target in targets], self._pad),
        }


def _padded(lists: Sequence[list[int]], fill: int) -> torch.Tensor:
    width = max(map(len, lists))
    return torch.tensor([values + [fill] * (width - len(values)) for values in lists])
