"""From an exported dataset to ids and labels, with a report of everything that was lost on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from pipeline.errors import FormatError, TrainingError
from pipeline.rendering.base import ChatPrompt, Prompt
from pipeline.rendering.tokens import IGNORE, Encoded, encode, joint_difference, stop_token
from pipeline.training.rows import Episode, Format, read_episodes, turns, without_oldest_turn


@dataclass(frozen=True)
class Row:
    """One episode as the model is trained on it: ids, and labels of the same length."""

    id: str
    ids: list[int]
    labels: list[int]


@dataclass
class DataReport:
    """What became of the rows: nothing is cut or dropped without being counted here.

    ``joint_differences`` counts seams at which the joined text would be encoded into other ids.
    """

    rows_read: int = 0
    rows_kept: int = 0
    rows_truncated: int = 0
    turns_dropped: int = 0
    rows_too_long: int = 0
    final_turns_lost: int = 0
    rows_unlabelled: int = 0
    tokens: int = 0
    labelled_tokens: int = 0
    turns_trained: int = 0
    longest: int = 0
    joint_differences: int = 0

    def lines(self) -> list[str]:
        """The report as plain lines; losses are mentioned only where there are any."""
        kept = (
            f"{self.rows_kept} of {self.rows_read} rows, {self.turns_trained} turns, {self.tokens} tokens, "
            f"{self.labelled_tokens} of them labels; the longest row has {self.longest}"
        )
        losses = {
            "rows truncated": self.rows_truncated,
            "oldest turns dropped": self.turns_dropped,
            "rows dropped as too long": self.rows_too_long,
            "final-answer turns lost": self.final_turns_lost,
            "rows dropped without labels": self.rows_unlabelled,
            "seams that joined text would encode otherwise": self.joint_differences,
        }
        return [kept, *(f"{name}: {count}" for name, count in losses.items() if count)]

    def as_dict(self) -> dict[str, int]:
        """The counts by name."""
        return asdict(self)


def load_rows(path: Path, kind: Format, tokenizer: Any, max_length: int) -> tuple[list[Row], DataReport]:
    """Encode the rows of an exported file.

    A row over ``max_length`` loses its oldest turns; one that is too long even then is dropped, and
    so is one without labels.

    Raises:
        TrainingError: the file or a row is unusable, or no row is left to train on.
    """
    rows, report = encode_episodes(read_episodes(path, kind), tokenizer, max_length)
    if not rows:
        raise TrainingError(
            f"{path} holds no row to train on: {report.rows_read} read, {report.rows_too_long} longer than "
            f"train.max_length = {max_length}, {report.rows_unlabelled} without labels"
        )
    return rows, report


def encode_episodes(
    episodes: Iterable[Episode], tokenizer: Any, max_length: int
) -> tuple[list[Row], DataReport]:
    """Encode episodes through the serving path's own ``encode``; see ``load_rows``.

    Raises:
        TrainingError: an episode cannot be encoded, or would teach a turn without exactly one stop.
    """
    report = DataReport()
    rows: list[Row] = []
    for episode in episodes:
        report.rows_read += 1
        try:
            row = _row(episode, tokenizer, max_length, report)
        except FormatError as error:
            raise TrainingError(f"row {episode.id!r}: {error}") from error
        if row is not None:
            rows.append(row)
            _count(row, report)
    return rows, report


def _row(episode: Episode, tokenizer: Any, max_length: int, report: DataReport) -> Row | None:
    if not turns(episode.prompt):
        report.rows_unlabelled += 1
        return None
    prompt, encoded = _fitted(episode.prompt, tokenizer, max_length)
    if prompt is None or encoded is None:
        report.rows_too_long += 1
        report.final_turns_lost += 1
        return None
    if all(label == IGNORE for label in encoded.labels[1:]):
        report.rows_unlabelled += 1
        return None
    lost = turns(episode.prompt) - turns(prompt)
    report.rows_truncated += lost > 0
    report.turns_dropped += lost
    report.turns_trained += turns(prompt)
    report.joint_differences += joint_difference(prompt, tokenizer)
    _check_turns(episode.id, prompt, encoded, tokenizer)
    return Row(episode.id, encoded.ids, encoded.labels)


def _fitted(prompt: Prompt | None, tokenizer: Any, max_length: int) -> tuple[Prompt | None, Encoded | None]:
    """The prompt with as few of its oldest turns gone as ``max_length`` asks for."""
    while prompt is not None:
        encoded = encode(prompt, tokenizer, generate=False)
        if len(encoded.ids) <= max_length:
            return prompt, encoded
        prompt = without_oldest_turn(prompt)
    return None, None


def _check_turns(name: str, prompt: Prompt, encoded: Encoded, tokenizer: Any) -> None:
    """Every turn is one run of labels; in a chat, each run holds one stop, at its end."""
    labels = encoded.labels
    ends = [n for n, (one, two) in enumerate(pairwise([*labels, IGNORE])) if one != IGNORE and two == IGNORE]
    if len(ends) != turns(prompt):
        raise TrainingError(
            f"row {name!r}: {turns(prompt)} turns became {len(ends)} runs of labels; export again"
        )
    if not isinstance(prompt, ChatPrompt):
        return
    stop = stop_token(tokenizer)
    if [n for n, label in enumerate(labels) if label == stop] != ends:
        written = tokenizer.convert_ids_to_tokens(stop)
        raise TrainingError(
            f"row {name!r}: the stop token {written!r} does not stand exactly once at the end of every turn "
            "of the assistant; use another chat template or the text format"
        )


def _count(row: Row, report: DataReport) -> None:
    report.rows_kept += 1
    report.tokens += len(row.ids)
    report.labelled_tokens += sum(label != IGNORE for label in row.labels[1:])
    report.longest = max(report.longest, len(row.ids))
