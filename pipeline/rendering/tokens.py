"""Token ids and labels: the one function that serving and training share.

A prompt becomes ids by encoding its pieces one after the other, never the joined text, so the ids
of a step's prompt are a prefix of the ids of every later prompt of the episode and of the training
row. Foreign text is encoded with control tokens split: ``<|im_end|>`` in an observation stays text.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, Literal
from weakref import WeakKeyDictionary

from pipeline.errors import FormatError
from pipeline.rendering.base import ChatPrompt, Prompt, TextPrompt
from pipeline.rendering.ids import bos_ids, is_control, text_ids
from pipeline.rendering.template import fold_system, frames

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


@dataclass(frozen=True)
class _Piece:
    """Text that is encoded by itself. ``control``: control tokens in it are meant as such."""

    text: str
    trained: Literal["none", "all", "first"] = "none"
    control: bool = False
    shared: bool = False


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
    pieces = _pieces(prompt, tokenizer, generate)
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
    pieces = [piece for piece in _pieces(prompt, tokenizer, generate) if piece.text]
    return sum(_seam_differs(tokenizer, one, two) for one, two in pairwise(pieces))


def stop_token(tokenizer: Any) -> int:
    """The id with which the chat template ends an assistant turn: what a chat student must emit.

    Raises:
        FormatError: there is no chat template, or an assistant turn does not end with one token.
    """
    return _stop(tokenizer, frames(tokenizer, ("user", "assistant"), generate=False)[-1])


def _stop(tokenizer: Any, frame: str) -> int:
    first = text_ids(tokenizer, frame, control=True)[:1]
    if not first or not is_control(tokenizer, first[0]):
        raise FormatError(
            f"the chat template ends an assistant turn with {frame[:40]!r}, which does not begin with a "
            "control token, so a model could not learn to stop; use the text renderer, or another template"
        )
    return first[0]


def _pieces(prompt: Prompt, tokenizer: Any, generate: bool) -> list[_Piece]:
    if isinstance(prompt, TextPrompt):
        return _text_pieces(prompt)
    return _chat_pieces(prompt, tokenizer, generate)


def _text_pieces(prompt: TextPrompt) -> list[_Piece]:
    pieces: list[_Piece] = []
    marked = ((segment.source == "model" and not segment.shared, segment) for segment in prompt.segments)
    for (model, shared), group in groupby(marked, key=lambda pair: (pair[0], pair[1].shared)):
        texts = [segment.text for _, segment in group]
        if model:
            pieces += [_Piece(text, trained="all") for text in texts]
        else:
            pieces.append(_Piece("".join(texts), shared=shared))
    return pieces


def _chat_pieces(prompt: ChatPrompt, tokenizer: Any, generate: bool) -> list[_Piece]:
    messages = fold_system(prompt.messages, tokenizer)
    if not generate:
        while messages and messages[-1].role != "assistant":
            messages = messages[:-1]
    if not messages or (generate and messages[-1].role == "assistant"):
        raise FormatError(
            "a prompt must not end with an assistant message, and a training row must have one; "
            f"the roles are: {', '.join(message.role for message in prompt.messages) or 'none'}"
        )
    written = frames(tokenizer, tuple(message.role for message in messages), generate=generate)
    common = next((n for n, message in enumerate(messages) if not message.shared), len(messages))
    pieces = [_Piece(written[0], control=True, shared=common > 0)]
    for index, message in enumerate(messages):
        model = message.role == "assistant" and not message.shared
        frame = written[index + 1]
        if model:
            _stop(tokenizer, frame)
        pieces.append(_Piece(message.content, trained="all" if model else "none", shared=index < common))
        pieces.append(
            _Piece(frame, trained="first" if model else "none", control=True, shared=index < common)
        )
    return pieces


def _piece_ids(tokenizer: Any, piece: _Piece) -> list[int]:
    if not piece.shared and not piece.control:
        return text_ids(tokenizer, piece.text, control=False)
    kept = _shared.setdefault(tokenizer, {})
    key = (piece.text, piece.control)
    if key not in kept:
        if len(kept) >= _SHARED_KEPT:
            kept.clear()
        kept[key] = text_ids(tokenizer, piece.text, control=piece.control)
    return kept[key]


def _labels(piece: _Piece, ids: list[int]) -> list[int]:
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


def _seam_differs(tokenizer: Any, one: _Piece, two: _Piece) -> bool:
    apart = _piece_ids(tokenizer, one) + _piece_ids(tokenizer, two)
    control = one.control or two.control
    return text_ids(tokenizer, one.text + two.text, control=control) != apart
