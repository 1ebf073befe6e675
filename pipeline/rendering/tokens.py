"""Token ids and labels: the one function that serving and training share.

A prompt becomes ids by encoding its pieces one after the other, never the joined text, so the ids
of a step's prompt are a prefix of the ids of every later prompt of the episode and of the training
row. Foreign text is encoded with control tokens split: ``<|im_end|>`` in an observation stays text.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

from pipeline.rendering.base import Prompt, TextPrompt
from pipeline.rendering.ids import bos_ids, text_ids
from pipeline.rendering.pieces import Piece, pieces_of, stop_token

__all__ = ["IGNORE", "Encoded", "encode", "joint_difference", "stop_token"]

IGNORE = -100
"""The label of a position that trains nothing (what torch's cross-entropy skips)."""

_SHARED_KEPT = 512
_shared: WeakKeyDictionary[Any, dict[tuple[str, bool], list[int]]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Encoded:
    """Ids of a prompt.

    ``labels`` has the length of ``ids``: the id where the model itself must write it (stop
    included), ``IGNORE`` elsewhere. ``shared`` counts the leading ids that every episode of the
    method has in common.
    """

    ids: list[int]
    labels: list[int]
    shared: int = 0


def encode(prompt: Prompt, tokenizer: Any, *, generate: bool) -> Encoded:
    """Encode a prompt with a transformers tokeniser.

    Tokenisers that put a space before every text (SentencePiece with a dummy prefix) are encoded
    behind an anchor, which is then cut off. Lone surrogates become U+FFFD.

    Args:
        prompt: raw-text segments or chat messages.
        tokenizer: a transformers tokeniser.
        generate: end where the model begins to write (chat: with the assistant's header). For a
            training row pass False: the row ends with the model's last stop token.

    Raises:
        FormatError: the chat template cannot be taken apart, or drops text it was given.
    """
    pieces = pieces_of(prompt, tokenizer, generate=generate)
    ids = bos_ids(tokenizer) if isinstance(prompt, TextPrompt) else []
    labels = [IGNORE] * len(ids)
    shared = 0
    leading = True
    for piece in pieces:
        new = _piece_ids(tokenizer, piece)
        ids += new
        labels += _labels(piece, new)
        leading = leading and piece.shared
        if leading:
            shared = len(ids)
    if not generate:
        end = _last_label(labels)
        ids, labels = ids[:end], labels[:end]
    return Encoded(ids, labels, shared)


def joint_difference(prompt: Prompt, tokenizer: Any) -> int:
    """At how many seams between pieces the joined text would be encoded into other ids.

    The training data are right either way (serving makes the same seams), but a model pre-trained
    on joined text meets ids that it seldom saw there.

    Raises:
        FormatError: as ``encode``.
    """
    generate = isinstance(prompt, TextPrompt) or prompt.messages[-1].role != "assistant"
    pieces = [piece for piece in pieces_of(prompt, tokenizer, generate=generate) if piece.text]
    return sum(_seam_differs(tokenizer, one, two) for one, two in pairwise(pieces))


def _piece_ids(tokenizer: Any, piece: Piece) -> list[int]:
    if not piece.shared and not piece.control:
        return text_ids(tokenizer, piece.text, control=False)
    kept = _shared.setdefault(tokenizer, {})
    key = (piece.text, piece.control)
    if key not in kept:
        if len(kept) >= _SHARED_KEPT:
            kept.clear()
        kept[key] = text_ids(tokenizer, piece.text, control=piece.control)
    return kept[key]


def _labels(piece: Piece, ids: list[int]) -> list[int]:
    if piece.trained == "all":
        return ids
    if piece.trained == "first":
        return ids[:1] + [IGNORE] * (len(ids) - 1)
    return [IGNORE] * len(ids)


def _last_label(labels: list[int]) -> int:
    """The length up to and with the last label; the whole length where nothing is labelled."""
    for index in range(len(labels) - 1, -1, -1):
        if labels[index] != IGNORE:
            return index + 1
    return len(labels)


def _seam_differs(tokenizer: Any, one: Piece, two: Piece) -> bool:
    apart = _piece_ids(tokenizer, one) + _piece_ids(tokenizer, two)
    control = one.control or two.control
    return text_ids(tokenizer, one.text + two.text, control=control) != apart
