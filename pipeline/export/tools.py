"""Rows for a model that calls tools: the API's own messages beside the schemas of the tools."""

from __future__ import annotations

from typing import Any

from pipeline.rendering.base import ChatPrompt, Message
from pipeline.rendering.tools import tool_schema


def tools_rows(prompt: ChatPrompt) -> list[dict[str, Any]]:
    """One row an episode: ``messages`` and ``tools``.

    Arguments are objects, since chat templates write them out as JSON and would quote a string once
    more (a hosted API takes them as strings). Both columns are of datasets' type ``Json``: a column of
    plain structs would give every message and every call all the keys that any other has, as nulls.
    """
    messages = [_message(message) for message in prompt.messages]
    return [{"messages": messages, "tools": [tool_schema(tool) for tool in prompt.tools]}]


def _message(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        plain["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    if message.role == "tool":
        plain["tool_call_id"] = message.answers
    return plain
