"""Chat templates, taken apart: the frame text that a template writes around each message.

A template is rendered with a unique word in place of every content and split at those words. What
lies between is the frame; contents never pass through the template, so nothing that stands in them
can become a control token, switch a branch of the template, or be trimmed away.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from jinja2 import TemplateError

from pipeline.errors import FormatError
from pipeline.rendering.base import Message, Role

Frames = tuple[str, ...]

WORD = re.compile(r"zq(\d+)qz")
"""What stands in place of a content while a template is taken apart."""
_FIXED = {"date_string": "26 Jul 2024"}
"""Llama 3's templates write today's date unless given one: a row must not depend on the day."""
_cache: WeakKeyDictionary[Any, dict[tuple[object, tuple[Role, ...], bool], Frames]] = WeakKeyDictionary()


def fold_system(messages: Sequence[Message], tokenizer: Any) -> tuple[Message, ...]:
    """Put the system message at the head of the first user message where a template has no such role.

    Raises:
        FormatError: the template refuses the conversation with and without its system message.
    """
    if len(messages) < 2 or messages[0].role != "system" or messages[1].role != "user":
        return tuple(messages)
    try:
        frames(tokenizer, ("system", "user"), generate=True)
    except FormatError:
        return joined_system(messages)
    return tuple(messages)


def joined_system(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The system message at the head of the first user message."""
    if len(messages) < 2 or messages[0].role != "system" or messages[1].role != "user":
        return tuple(messages)
    system, user = messages[0], messages[1]
    joined = Message("user", f"{system.content}\n\n{user.content}", shared=system.shared and user.shared)
    return (joined, *messages[2:])


def frames(tokenizer: Any, roles: tuple[Role, ...], *, generate: bool) -> Frames:
    """The texts before, between and after the contents of a conversation (one more than messages).

    With ``generate`` the last one ends with the header under which the model writes; without, the
    conversation ends with an assistant message and the last one begins with its end of turn. Every
    assistant message stands under the header that it was, or will be, generated under.

    Raises:
        FormatError: the template drops or reorders contents, or writes an assistant turn otherwise
            in the history than where it is generated (training would not be what is served).
    """
    known = _cache.setdefault(tokenizer, {})
    key = (tokenizer.chat_template, roles, generate)
    if key not in known:
        known[key] = _take_apart(tokenizer, roles, generate)
    return known[key]


def _take_apart(tokenizer: Any, roles: tuple[Role, ...], generate: bool) -> Frames:
    if generate:
        whole = _render(tokenizer, roles, generate=True)
        turns = [index for index, role in enumerate(roles) if role == "assistant"]
        if turns:
            served = frames(tokenizer, roles[: turns[-1]], generate=True)
            check_history(tokenizer, served, whole[: len(served)])
        return whole
    # The template may dress up a final assistant turn (Qwen3 adds an empty <think>): it is never
    # served so, therefore only the text after it is taken from this rendering.
    tail = _render(tokenizer, roles, generate=False)[-1]
    return (*frames(tokenizer, roles[:-1], generate=True), tail)


def check_history(tokenizer: Any, served: Frames, history: Frames) -> None:
    """Make sure that what stands before a turn is the same when it is generated and ever after.

    Raises:
        FormatError: it is not.
    """
    for ours, theirs in zip(served, history, strict=True):
        if ours != theirs:
            raise FormatError(
                f"the chat template of {name_of(tokenizer)} changes a conversation as it grows: what stood "
                f"before an assistant turn was {ours[-80:]!r} when it was generated and is {theirs[-80:]!r} "
                "in the history, so training could not match serving; give the tokenizer a chat template "
                "that writes both alike, or use the text renderer"
            )


def render(
    tokenizer: Any, messages: Sequence[Mapping[str, Any]], *, generate: bool, tools: Any = None
) -> str:
    """What the template makes of messages (and tools), as text.

    Raises:
        FormatError: it refuses them, or there is no template.
    """
    options = {**_FIXED, **({"tools": tools} if tools else {})}
    try:
        return tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=generate, **options
        )
    except (TemplateError, ValueError, TypeError, AttributeError, KeyError) as error:
        roles = ", ".join(str(message["role"]) for message in messages)
        raise FormatError(
            f"the chat template of {name_of(tokenizer)} cannot render the roles {roles}: "
            f"{' '.join(str(error).split())}; use the text renderer, or a model that has a chat template"
        ) from error


def _render(tokenizer: Any, roles: tuple[Role, ...], *, generate: bool) -> Frames:
    messages = [{"role": role, "content": f"zq{index}qz"} for index, role in enumerate(roles)]
    pieces = WORD.split(render(tokenizer, messages, generate=generate))
    if pieces[1::2] != [str(index) for index in range(len(roles))]:
        raise FormatError(
            f"the chat template of {name_of(tokenizer)} drops, repeats or reorders messages of the roles "
            f"{', '.join(roles)}; use the text renderer, or another chat template"
        )
    return tuple(pieces[0::2])


def name_of(tokenizer: Any) -> str:
    """The tokeniser's name, for errors."""
    return repr(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
