"""A prompt as pieces that are encoded one by one, each with what of it the model must write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from pipeline.errors import FormatError
from pipeline.rendering.base import ChatPrompt, Message, Prompt, TextPrompt
from pipeline.rendering.ids import is_control, split_control, text_ids
from pipeline.rendering.template import fold_system, frames, joined_system
from pipeline.rendering.tool_template import Dialect, dialect, shape_of, tool_frames


@dataclass(frozen=True)
class Piece:
    """Text that is encoded by itself. ``control``: control tokens in it are meant as such.

    ``trained`` says which of its ids are labels: none, all, or the first alone.
    """

    text: str
    trained: Literal["none", "all", "first"] = "none"
    control: bool = False
    shared: bool = False


def pieces_of(prompt: Prompt, tokenizer: Any, *, generate: bool) -> list[Piece]:
    """The pieces of a prompt, in order; see ``tokens.encode``.

    Raises:
        FormatError: the chat template cannot be taken apart, or the prompt ends wrongly.
    """
    if isinstance(prompt, TextPrompt):
        return _text_pieces(prompt)
    messages = _ended(prompt, tokenizer, generate)
    if prompt.tools or any(message.calls or message.role == "tool" for message in messages):
        return _tool_pieces(messages, prompt, tokenizer, generate)
    return _chat_pieces(messages, tokenizer, generate)


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


def _text_pieces(prompt: TextPrompt) -> list[Piece]:
    pieces: list[Piece] = []
    marked = ((segment.source == "model" and not segment.shared, segment) for segment in prompt.segments)
    for (model, shared), group in groupby(marked, key=lambda pair: (pair[0], pair[1].shared)):
        texts = [segment.text for _, segment in group]
        if model:
            pieces += [Piece(text, trained="all") for text in texts]
        else:
            pieces.append(Piece("".join(texts), shared=shared))
    return pieces


def _ended(prompt: ChatPrompt, tokenizer: Any, generate: bool) -> tuple[Message, ...]:
    """The messages, ending as they must, with a system message only where there is such a role."""
    messages = fold_system(prompt.messages, tokenizer)
    if not generate:
        while messages and messages[-1].role != "assistant":
            messages = messages[:-1]
    if not messages or (generate and messages[-1].role == "assistant"):
        raise FormatError(
            "a prompt must not end with an assistant message, and a training row must have one; "
            f"the roles are: {', '.join(message.role for message in prompt.messages) or 'none'}"
        )
    return messages


def _chat_pieces(messages: tuple[Message, ...], tokenizer: Any, generate: bool) -> list[Piece]:
    written = frames(tokenizer, tuple(message.role for message in messages), generate=generate)
    common = _common(messages)
    pieces = [Piece(written[0], control=True, shared=common > 0)]
    for index, message in enumerate(messages):
        model = message.role == "assistant" and not message.shared
        frame = written[index + 1]
        if model:
            _stop(tokenizer, frame)
        pieces.append(Piece(message.content, trained="all" if model else "none", shared=index < common))
        pieces.append(Piece(frame, trained="first" if model else "none", control=True, shared=index < common))
    return pieces


def _common(messages: tuple[Message, ...]) -> int:
    return next((n for n, message in enumerate(messages) if not message.shared), len(messages))


def _tool_pieces(
    messages: tuple[Message, ...], prompt: ChatPrompt, tokenizer: Any, generate: bool
) -> list[Piece]:
    speech = dialect(tokenizer, prompt.tools)
    if not speech.system:
        messages = joined_system(messages)
    if generate and not speech.words:
        messages = _without_words(messages)
    shapes = tuple(shape_of(message) for message in messages)
    written = iter(tool_frames(tokenizer, shapes, prompt.tools, generate=generate))
    stop = stop_token(tokenizer)
    common = _common(messages)
    pieces = [Piece(next(written), control=True, shared=common > 0)]
    for index, message in enumerate(messages):
        texts = [part for slot in _slots(message, speech) for part in ((slot, False), (next(written), True))]
        if message.role != "assistant":
            pieces += [Piece(text, control=control, shared=index < common) for text, control in texts]
        else:
            model = not message.shared
            pieces += _turn_pieces(tokenizer, texts, stop, model=model, shared=index < common)
    return pieces


def _slots(message: Message, speech: Dialect) -> Iterator[str]:
    yield speech.answer(message.content) if message.role == "tool" else message.content
    for call in message.calls:
        yield call.name
        for key, value in call.arguments.items():
            yield key
            yield speech.value(value)


def _turn_pieces(
    tokenizer: Any, texts: list[tuple[str, bool]], stop: int, *, model: bool, shared: bool
) -> list[Piece]:
    """An assistant's turn: plain text in runs as long as they get, control tokens, and what is behind it.

    A model writes its thought, the frame of the call and the arguments in one go, so they are encoded
    as one text wherever no control token stands between.
    """
    parts = [part for text, control in texts for part in _parts(tokenizer, text, control)]
    end = next((n for n, part in enumerate(parts) if _is_stop(tokenizer, part, stop)), None)
    if end is None:
        written = tokenizer.convert_ids_to_tokens(stop)
        raise FormatError(
            f"the chat template does not end a tool call with {written!r}, as it ends other turns, so a "
            "model could not learn to stop; use the chat renderer, or another template"
        )
    label: Literal["none", "all"] = "all" if model else "none"
    pieces = [
        Piece("".join(text for text, _ in run), label, control, shared)
        for control, run in groupby(parts[: end + 1], key=lambda part: part[1])
    ]
    return [*pieces, Piece("".join(text for text, _ in parts[end + 1 :]), control=True, shared=shared)]


def _parts(tokenizer: Any, text: str, control: bool) -> list[tuple[str, bool]]:
    return split_control(tokenizer, text) if control else [(text, False)]


def _is_stop(tokenizer: Any, part: tuple[str, bool], stop: int) -> bool:
    return part[1] and text_ids(tokenizer, part[0], control=True) == [stop]


def _without_words(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Without the turns that called no tool, and what they were told."""
    kept: list[Message] = []
    dropping = False
    for message in messages:
        wordy = message.role == "assistant" and not message.calls and not message.shared
        if not wordy and not (dropping and message.role == "user"):
            kept.append(message)
        dropping = wordy
    return tuple(kept)
