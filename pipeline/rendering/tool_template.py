"""Chat templates with tools, taken apart: the frame text around contents, names and arguments.

As in ``template``, unique words stand in place of everything that comes from outside. What a
template writes around a call (``{"name": "``) is written by the model, so an assistant's turn is
cut where it was generated: behind the header, whether or not a content stands there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from pipeline.errors import FormatError
from pipeline.rendering.base import Message, Role, ToolCall, ToolSpec
from pipeline.rendering.calls import read_call
from pipeline.rendering.template import WORD, Frames, check_history, name_of, render
from pipeline.rendering.tools import tool_schema

Escape = Callable[[str], str]

_PROBE = 'a"b\\c\nd/é<&>🙂'
_KEPT = 4096
_ADVICE = "use the chat renderer (export format messages), or a model whose chat template takes tools"


@dataclass(frozen=True)
class Shape:
    """What a template is told of a message. ``arguments`` counts those of its call; None is no call.

    ``id`` is the call's, or that of the call which a tool message answers. ``content`` is false for
    an assistant that calls without a word. ``shared`` messages were never generated.
    """

    role: Role
    content: bool = True
    arguments: int | None = None
    id: str = ""
    shared: bool = False

    @property
    def slots(self) -> int:
        """Texts of the message that the frames surround: content, name, and key and value an argument."""
        return 1 if self.arguments is None else 2 + 2 * self.arguments


@dataclass(frozen=True)
class Dialect:
    """How a template writes what it is given.

    ``value`` and ``answer`` spell an argument and a tool message's content. ``words`` says that a
    turn without a call may stand in the history (some templates move their tools when it does),
    ``system`` that a system message stays there (Mistral's show it beside the last user alone).
    """

    value: Escape
    answer: Escape
    words: bool
    system: bool


_cache: WeakKeyDictionary[Any, dict[object, Frames]] = WeakKeyDictionary()
_dialects: WeakKeyDictionary[Any, dict[object, Dialect]] = WeakKeyDictionary()


def shape_of(message: Message) -> Shape:
    """The shape of a message.

    Raises:
        FormatError: it holds several calls; one turn is one action here.
    """
    if len(message.calls) > 1:
        raise FormatError(f"an assistant message holds {len(message.calls)} tool calls; keep one a turn")
    if not message.calls:
        return Shape(message.role, id=message.answers, shared=message.shared)
    call = message.calls[0]
    return Shape(message.role, bool(message.content), len(call.arguments), call.id, message.shared)


def tool_frames(
    tokenizer: Any, shapes: tuple[Shape, ...], tools: tuple[ToolSpec, ...], *, generate: bool
) -> Frames:
    """The texts before, between and behind the slots of a conversation (one more than slots).

    Each assistant's content slot stands where its header ends. With ``generate`` the last text ends
    with the header under which the model writes; without, it begins with the end of the last turn.

    Raises:
        FormatError: the template has no tools, drops or reorders what it is given, or writes a turn
            otherwise in the history than where it is generated.
    """
    known = _cache.setdefault(tokenizer, {})
    key = (tokenizer.chat_template, shapes, tools, generate)
    if key not in known:
        if len(known) >= _KEPT:
            known.clear()
        known[key] = (_served if generate else _finished)(tokenizer, shapes, tools)
    return known[key]


def dialect(tokenizer: Any, tools: tuple[ToolSpec, ...]) -> Dialect:
    """How the template writes calls and answers, found out once by showing it a short conversation.

    Raises:
        FormatError: it has no place for tools, calls or their answers.
    """
    known = _dialects.setdefault(tokenizer, {})
    key = (tokenizer.chat_template, tools)
    if key not in known:
        try:
            known[key] = _probe(tokenizer, tools)
        except FormatError as error:
            # Its own advice is for conversations without tools.
            reason = str(error).split("; ", 1)[0]
            name = name_of(tokenizer)
            raise FormatError(
                f"the chat template of {name} cannot be used for tool calls ({reason}); {_ADVICE}"
            ) from error
    return known[key]


def _served(tokenizer: Any, shapes: tuple[Shape, ...], tools: tuple[ToolSpec, ...]) -> Frames:
    between = iter(_between(tokenizer, shapes, tools, generate=True))
    frames: list[str] = []
    last = 0
    for number, shape in enumerate(shapes):
        frame = next(between)
        generated = shape.role == "assistant" and not shape.shared
        header = tool_frames(tokenizer, shapes[:number], tools, generate=True)[-1] if generated else frame
        if generated:
            last = number
        if shape.content:
            frames += [frame, *(next(between) for _ in range(shape.slots - 1))]
            continue
        if not frame.startswith(header):
            check_history(tokenizer, (header,), (frame,))
        frames += [header, frame[len(header) :], *(next(between) for _ in range(shape.slots - 2))]
    frames.append(next(between))
    if last:
        served = tool_frames(tokenizer, shapes[:last], tools, generate=True)
        check_history(tokenizer, served, tuple(frames[: len(served)]))
    return tuple(frames)


def _finished(tokenizer: Any, shapes: tuple[Shape, ...], tools: tuple[ToolSpec, ...]) -> Frames:
    # A template may dress up its last turn. A call is taken as it stands once it was answered; words
    # have no such place, so only the end of the turn is taken from the last one.
    *before, last = shapes
    if last.arguments is not None:
        answered = (*shapes, Shape("tool", id=last.id))
        return tool_frames(tokenizer, answered, tools, generate=True)[:-1]
    tail = _between(tokenizer, shapes, tools, generate=False)[-1]
    return (*tool_frames(tokenizer, tuple(before), tools, generate=True), tail)


def _between(
    tokenizer: Any, shapes: Sequence[Shape], tools: Sequence[ToolSpec], *, generate: bool
) -> list[str]:
    """The rendered text, split at the words."""
    words = _words()
    messages = [_message(shape, words) for shape in shapes]
    pieces = WORD.split(render(tokenizer, messages, generate=generate, tools=_schemas(tools)))
    count = int(next(words)[2:-2])
    if pieces[1::2] != [str(index) for index in range(count)]:
        raise FormatError(
            f"the chat template of {name_of(tokenizer)} drops, repeats or reorders parts of a conversation "
            "with tool calls (several leave out the thought beside a call: use the style act, or the chat "
            "renderer)"
        )
    return pieces[0::2]


def _words() -> Iterator[str]:
    number = 0
    while True:
        yield f"zq{number}qz"
        number += 1


def _message(shape: Shape, words: Iterator[str]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": shape.role, "content": next(words) if shape.content else ""}
    if shape.arguments is not None:
        name = next(words)
        message["tool_calls"] = [
            _written_call(shape.id, name, {next(words): next(words) for _ in range(shape.arguments)})
        ]
    elif shape.id:
        message["tool_call_id"] = shape.id
    return message


def _written_call(identity: str, name: str, arguments: dict[str, str]) -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def _schemas(tools: Sequence[ToolSpec]) -> list[dict[str, Any]] | None:
    return [tool_schema(tool) for tool in tools] or None


def _probe(tokenizer: Any, tools: tuple[ToolSpec, ...]) -> Dialect:
    identity = "call00001"
    arguments = {"zq0qz": f"zq1qz{_PROBE}zq2qz"}
    conversation: list[dict[str, Any]] = [
        {"role": "user", "content": "zq3qz"},
        {"role": "assistant", "content": "", "tool_calls": [_written_call(identity, "zq4qz", arguments)]},
        {"role": "tool", "content": f"zq5qz{_PROBE}zq6qz", "tool_call_id": identity},
    ]
    text = render(tokenizer, conversation, generate=True, tools=_schemas(tools))
    missing = [tool.name for tool in tools if tool.name not in text]
    if missing:
        raise FormatError(f"it does not show the tool {missing[0]!r}")
    told = (Shape("user"), Shape("assistant", False, 1, identity), Shape("tool", id=identity))
    _check_readable(tokenizer, tool_frames(tokenizer, told, tools, generate=True))
    return Dialect(
        value=_spelling(text, "zq1qz", "zq2qz", "the arguments of a call"),
        answer=_spelling(text, "zq5qz", "zq6qz", "the answer of a tool"),
        words=_keeps(tokenizer, (Shape("user"), Shape("assistant"), Shape("user")), tools),
        system=_keeps(tokenizer, (Shape("system"), *told), tools),
    )


def _check_readable(tokenizer: Any, frames: Frames) -> None:
    """Make sure that what the template lets a model write is a call to ``read_call``."""
    _, _, opening, between, middle, closing, _ = frames
    text = f"{opening}Search{between}title{middle}Lima{closing}"
    # Decoding leaves special tokens out.
    for special in tokenizer.all_special_tokens:
        text = text.replace(special, " ")
    if read_call(text).call != ToolCall("Search", {"title": "Lima"}):
        raise FormatError(f"it writes calls in a form that is not known here: {text[:120]!r}")


def _spelling(text: str, start: str, end: str, what: str) -> Escape:
    if start not in text or end not in text:
        raise FormatError(f"it does not write {what}")
    written = text[text.index(start) + len(start) : text.index(end)]
    for escape in (_plain, _json, _ascii):
        if escape(_PROBE) == written:
            return escape
    raise FormatError(f"it writes {what} in a way of its own: {written!r}")


def _keeps(tokenizer: Any, shapes: tuple[Shape, ...], tools: tuple[ToolSpec, ...]) -> bool:
    try:
        tool_frames(tokenizer, shapes, tools, generate=True)
    except FormatError:
        return False
    return True


def _plain(text: str) -> str:
    return text


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _ascii(text: str) -> str:
    return json.dumps(text)[1:-1]
