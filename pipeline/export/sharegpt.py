"""Rows in the ShareGPT shape: ``conversations`` of ``from`` and ``value``."""

from __future__ import annotations

from typing import Any, Final

from pipeline.export.messages import plain_messages
from pipeline.rendering.base import ChatPrompt

SPEAKERS: Final = {"system": "system", "user": "human", "assistant": "gpt"}


def sharegpt_rows(prompt: ChatPrompt) -> list[dict[str, Any]]:
    """One row an episode: ``conversations``, with the names that readers of this shape expect."""
    turns = [
        {"from": SPEAKERS[message["role"]], "value": message["content"]} for message in plain_messages(prompt)
    ]
    return [{"conversations": turns}]
