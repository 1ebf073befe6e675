"""Rows for a chat model, in the shape that hosted and local fine-tuning accept."""

from __future__ import annotations

from typing import Any

from pipeline.errors import FormatError
from pipeline.rendering.base import ChatPrompt


def plain_messages(prompt: ChatPrompt) -> list[dict[str, str]]:
    """The conversation as ``role`` and ``content``, ready to be trained on.

    Neighbours of one role are joined by a newline (several trainers refuse two assistant turns in a
    row), and what follows the last assistant message is left out (hosted fine-tuning refuses it).

    Raises:
        FormatError: no message is from the assistant.
    """
    merged: list[dict[str, str]] = []
    for message in prompt.messages:
        if merged and merged[-1]["role"] == message.role:
            merged[-1]["content"] += "\n" + message.content
        else:
            merged.append({"role": message.role, "content": message.content})
    while merged and merged[-1]["role"] != "assistant":
        merged.pop()
    if not merged:
        raise FormatError("the renderer wrote no assistant message: there is nothing to train on")
    return merged


def messages_rows(prompt: ChatPrompt) -> list[dict[str, Any]]:
    """One row an episode: ``messages``."""
    return [{"messages": plain_messages(prompt)}]
