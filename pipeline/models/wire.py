"""What stands between a prompt and a server that takes text: writing it out, counting, cutting."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.errors import ContextLimitError
from pipeline.rendering.base import Prompt, TextPrompt
from pipeline.trajectories.files import clean_text


def prompt_text(prompt: Prompt) -> str:
    """Everything that a prompt says, for counting."""
    if isinstance(prompt, TextPrompt):
        return prompt.text
    return "\n".join(message.content for message in prompt.messages)


def chat_messages(prompt: Prompt) -> list[dict[str, str]]:
    """The prompt as chat messages; raw text becomes one user message."""
    if isinstance(prompt, TextPrompt):
        return [{"role": "user", "content": clean_text(prompt.text)}]
    return [{"role": message.role, "content": clean_text(message.content)} for message in prompt.messages]


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
