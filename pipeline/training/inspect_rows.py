"""Inspection of causal rows: every episode goes through training's own encoding, one at a time."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal

from pipeline.errors import FormatError, TrainingError
from pipeline.recipe.models import TrainRecipe
from pipeline.rendering.base import Prompt, PromptSpec, TextPrompt
from pipeline.rendering.ids import bos_ids, text_ids
from pipeline.rendering.pieces import pieces_of, stop_token
from pipeline.rendering.text import TextRenderer
from pipeline.rendering.tokens import IGNORE, Encoded, encode
from pipeline.training.data import DataReport, Row, encode_episodes
from pipeline.training.inspect_findings import Choice, Fault, Findings, Shown, Stretch, bits, control_names
from pipeline.training.packing import build_blocks
from pipeline.training.rows import Episode, Format, read_episodes, without_oldest_turn
from pipeline.trajectories.schema import Task

_TURNS: Final[dict[str, Literal["answer", "reason", "act", "react"]]] = {
    "standard": "answer",
    "cot": "reason",
    "act": "act",
    "react": "react",
}
"""The shape of a turn in each style."""


def inspect_rows(
    path: Path, kind: Format, style: str, tokenizer: Any, train: TrainRecipe, choice: Choice
) -> Findings:
    """Inspect a file of rows in the format ``text``, ``messages``, ``sharegpt`` or ``tools``.

    Raises:
        TrainingError: the file cannot be read, or holds no row.
    """
    found = Findings(DataReport())
    kept: list[Row] = []
    for episode in read_episodes(path, kind):
        prompt, row, report, faults = _examine(episode, style, tokenizer, train.max_length)
        parts: list[Stretch] = []
        if row is not None:
            kept.append(row)
            parts = stretches(prompt, Encoded(row.ids, row.labels), tokenizer)
            foreign = [name for part in parts if part.plain for name in control_names(tokenizer, part.ids)]
            found.control_ids += len(foreign)
            faults += [Fault("control", episode.id, ", ".join(dict.fromkeys(foreign)))] if foreign else []
        found.add(report, faults)
        if choice.wants(episode.id, len(found.shown)):
            parts = parts or as_it_is(episode.prompt, tokenizer)
            found.shown.append(Shown(episode.id, bits(parts, tokenizer), "" if row else faults[0].kind))
    blocks = build_blocks(kept, train.max_length, train.seed, packing=train.packing)
    found.units = len(blocks)
    if train.packing and blocks:
        found.fill = sum(len(block["input_ids"]) for block in blocks) / (len(blocks) * train.max_length)
    return found


def lacks_stop(prompt: Prompt, style: str, tokenizer: Any) -> bool:
    """Whether a turn of the model's own does not end with the stop of its kind, or holds it before its end.

    In a chat the stop is the control token that the template ends a turn with; in raw text it is what
    serving stops on.
    """
    if isinstance(prompt, TextPrompt):
        stop = text_stop(style)
        texts = [segment.text for segment in prompt.segments if segment.source == "model"]
        return any(not text.endswith(stop) or text.find(stop) != len(text) - len(stop) for text in texts)
    try:
        end = stop_token(tokenizer)
    except FormatError:
        return True
    try:
        labels = encode(prompt, tokenizer, generate=False).labels
    except FormatError:
        return False
    runs = [list(run) for trained, run in groupby(labels, key=lambda label: label != IGNORE) if trained]
    return any(run.count(end) != 1 or run[-1] != end for run in runs)


def text_stop(style: str) -> str:
    """What a student of the style stops on in raw text."""
    spec = PromptSpec(_TURNS.get(style, "react"), "Question", "")
    task = Task(id="", environment="", split="train", instruction="")
    return TextRenderer().prompt(spec, task, ()).stop[0]


def stretches(prompt: Prompt, encoded: Encoded, tokenizer: Any) -> list[Stretch]:
    """The ids of a row, piece by piece.

    Raises:
        TrainingError: the pieces do not give the row's ids.
    """
    pieces = pieces_of(prompt, tokenizer, generate=False)
    parts = [(text_ids(tokenizer, piece.text, control=piece.control), not piece.control) for piece in pieces]
    if isinstance(prompt, TextPrompt):
        parts.insert(0, (bos_ids(tokenizer), False))
    found: list[Stretch] = []
    at = 0
    for whole, plain in parts:
        # A row ends with its last label, wherever the piece ends that it stands in.
        ids = whole[: len(encoded.ids) - at]
        found.append(Stretch(ids, encoded.labels[at : at + len(ids)], plain))
        at += len(ids)
    if [token for part in found for token in part.ids] != encoded.ids:
        raise TrainingError("a row's ids are not those of its pieces; this is a fault of the program")
    return found


def _examine(
    episode: Episode, style: str, tokenizer: Any, max_length: int
) -> tuple[Prompt, Row | None, DataReport, list[Fault]]:
    """What training makes of an episode: the prompt as it is trained on, the row, and what is wrong."""
    prompt = episode.prompt
    try:
        rows, report = encode_episodes([episode], tokenizer, max_length)
    except TrainingError as error:
        kind = "stop" if lacks_stop(prompt, style, tokenizer) else "refused"
        return prompt, None, DataReport(rows_read=1), [Fault(kind, episode.id, str(error))]
    if not rows:
        kind = "too_long" if report.rows_too_long else "unlabelled"
        return prompt, None, report, [Fault(kind, episode.id)]
    for _ in range(report.turns_dropped):
        prompt = without_oldest_turn(prompt) or prompt
    faults = [Fault("stop", episode.id)] if lacks_stop(prompt, style, tokenizer) else []
    return prompt, rows[0], report, faults


def as_it_is(prompt: Prompt, tokenizer: Any) -> list[Stretch]:
    """A row that training drops, whole; nothing where it cannot even be encoded."""
    try:
        return stretches(prompt, encode(prompt, tokenizer, generate=False), tokenizer)
    except FormatError:
        return []
