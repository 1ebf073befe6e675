"""What stands between a prompt and a server that takes text: writing it out, counting, cutting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipeline.errors import ContextLimitError
from pipeline.rendering.base import ChatPrompt, Message, Prompt, TextPrompt
from pipeline.trajectories.files import clean_text, to_json


def prompt_text(prompt: Prompt) -> str:
    """Everything that a prompt says, calls and offered tools included, for counting."""
    if isinstance(prompt, TextPrompt):
        return prompt.text
    said: list[str] = []
    for message in prompt.messages:
        said.append(message.content)
        said.extend(f"{call.name} {to_json(call.arguments)}" for call in message.calls)
    if prompt.tools:
        said.append(to_json(tool_schemas(prompt)))
    return "\n".join(said)


def chat_messages(prompt: Prompt) -> list[dict[str, Any]]:
    """The prompt as chat messages; raw text becomes one user message."""
    if isinstance(prompt, TextPrompt):
        return [{"role": "user", "content": clean_text(prompt.text)}]
    return [_chat_message(message) for message in prompt.messages]


def tool_schemas(prompt: ChatPrompt) -> list[dict[str, Any]]:
    """The offered tools as the API describes them."""
    from pipeline.rendering.tools import tool_schema

    return [tool_schema(tool) for tool in prompt.tools]


def cut_at_stop(text: str, stops: Iterable[str]) -> tuple[str, bool]:
    """The text before the earliest stop string, and whether there was one."""
    places = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    return (text[: min(places)], True) if places else (text, False)


def estimate_tokens(text: str) -> int:
    """A guess for when nobody has counted: four bytes of UTF-8 a token, rounded up."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


def completion_budget(context: int, prompt_tokens: int, max_tokens: int) -> int:
    """How many tokens may be asked for beside a prompt.

    Raises:
        ContextLimitError: none.
    """
    left = context - prompt_tokens
    if left < 1:
        raise ContextLimitError(
            f"the prompt has {prompt_tokens} tokens and the model's context {context}: no token can be added"
        )
    return min(max_tokens, left)


def _chat_message(message: Message) -> dict[str, Any]:
    written: dict[str, Any] = {"role": message.role, "content": clean_text(message.content)}
    if message.calls:
        written["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": clean_text(call.name), "arguments": to_json(call.arguments)},
            }
            for call in message.calls
        ]
    if message.role == "tool":
        written["tool_call_id"] = message.answers
    return written
