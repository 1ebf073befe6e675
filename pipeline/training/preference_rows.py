"""Exported pairs, read back as prompts: two ways in which the same beginning went on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from pipeline.errors import StoreError, TrainingError
from pipeline.rendering.base import Prompt, Segment, TextPrompt
from pipeline.training.rows import Format, chat_prompt, tools_prompt, turns, without_oldest_turn
from pipeline.trajectories.files import read_jsonl


@dataclass(frozen=True)
class PairRow:
    """One pair before it is ids. ``shared`` counts the model's turns that both halves begin with."""

    id: str
    chosen: Prompt
    rejected: Prompt
    shared: int

    @property
    def prompt(self) -> Prompt:
        """What both halves begin with: what is served where they part."""
        return until_turn(self.chosen, self.shared)

    def without_oldest_turn(self) -> PairRow | None:
        """The pair without the oldest turn that both have, and its answer; None where there is none."""
        if not self.shared:
            return None
        chosen, rejected = without_oldest_turn(self.chosen), without_oldest_turn(self.rejected)
        if chosen is None or rejected is None:
            return None
        return replace(self, chosen=chosen, rejected=rejected, shared=self.shared - 1)


def read_pair_rows(path: Path, kind: Format) -> Iterator[PairRow]:
    """Read the pairs of a JSONL file, one at a time.

    Raises:
        TrainingError: the file is missing, a line is broken, or a row is not of the format.
    """
    try:
        for row in read_jsonl(path):
            yield _pair(row, kind)
    except StoreError as error:
        raise TrainingError(f"{error}; export the dataset again") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TrainingError(
            f"{path}: a row is no pair of the format {kind!r} ({error!r}); export it again"
        ) from None


def until_turn(prompt: Prompt, number: int) -> Prompt:
    """A prompt up to where the model's turn of a number (from 0) begins."""
    if isinstance(prompt, TextPrompt):
        own = (place for place, segment in enumerate(prompt.segments) if segment.source == "model")
        return replace(prompt, segments=prompt.segments[: next(islice(own, number, None))])
    said = (place for place, message in enumerate(prompt.messages) if message.role == "assistant")
    return replace(prompt, messages=prompt.messages[: next(islice(said, number, None))])


def _pair(row: Any, kind: Format) -> PairRow:
    name: str = row["id"]
    chosen, rejected = _half(row, kind, "chosen"), _half(row, kind, "rejected")
    shared = turns(_half(row, kind, None))
    if min(turns(chosen), turns(rejected)) <= shared:
        raise TrainingError(f"row {name!r}: a half of the pair holds no turn of its own; export it again")
    return PairRow(name, chosen, rejected, shared)


def _half(row: Any, kind: Format, half: str | None) -> Prompt:
    """The prompt with one of its two remainders, or without."""
    if kind == "text":
        parts = [*row["prompt_parts"], *(row[f"{half}_parts"] if half else [])]
        return _text(row["id"], parts)
    messages = [*row["prompt"], *(row[half] if half else [])]
    if kind == "tools":
        return tools_prompt(row["id"], messages, row["tools"])
    return chat_prompt(row["id"], messages)


def _text(name: str, parts: list[Any]) -> TextPrompt:
    """Parts take turns: context, the model's own words, context, and so on."""
    if not all(isinstance(part, str) for part in parts):
        raise TrainingError(f"row {name!r}: a part is no text; export it again")
    return TextPrompt(
        tuple(Segment(part, "model" if place % 2 else "context") for place, part in enumerate(parts))
    )
