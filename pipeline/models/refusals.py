"""Reading why an OpenAI-compatible server refused: quota, room, a parameter that it does not take."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

_NO_QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_CONTEXT = re.compile(r"context[ _](?:length|window|size)|too many tokens|too long", re.IGNORECASE)
_LIMIT = re.compile(r"context (?:length|window|size)(?: is| of)?(?: only)? (\d+)", re.IGNORECASE)
_PROMPT = re.compile(
    r"(\d+) (?:tokens )?in the (?:messages|prompt)|(\d+) (?:input|prompt) tokens", re.IGNORECASE
)
_NOT_TAKEN = re.compile(
    r"unsupported|not (?:currently )?support|un(?:known|expected|recogni[sz]ed)|not (?:permitted|allowed)"
    r"|extra[ _](?:inputs|fields|forbidden)|only the default",
    re.IGNORECASE,
)
_AT_MOST = re.compile(
    r"(?:<=|at most|up to|less than or equal to|maximum(?: value)?(?: is| of)?|between 1 and) ?(\d+)",
    re.IGNORECASE,
)
_READ = 1000
"""Characters of a message that are looked at: some servers quote the whole request after their reason."""


def is_quota(status: int | None, body: Any) -> bool:
    """Whether somebody has to pay before the server answers again."""
    error = body.get("error", body) if isinstance(body, dict) else None
    named = [error.get("code"), error.get("type")] if isinstance(error, dict) else []
    return status == 402 or any(isinstance(name, str) and name in _NO_QUOTA for name in named)


def is_context(code: object, message: str) -> bool:
    """Whether prompt and completion do not fit the model."""
    return _CONTEXT.search(f"{code} {message}") is not None


def room_left(message: str) -> int | None:
    """How many tokens the prompt leaves, where the message has both counts."""
    limit, prompt = _LIMIT.search(message), _PROMPT.search(message)
    if limit is None or prompt is None:
        return None
    return int(limit[1]) - int(prompt[1] or prompt[2])


def refused_parameter(body: Any, message: str, sent: Collection[str]) -> str | None:
    """Which of the parameters that were ``sent`` the server does not take, by its own words.

    A value out of range is no such refusal: that is the recipe's mistake. Only ``n`` is believed to be
    refused whenever it is named, because asking again for one answer is always right.
    """
    named: Any = body.get("param") if isinstance(body, dict) else None
    text = message[:_READ]
    if "n" in sent and (named == "n" or re.search(r"\bn\b", text)):
        return "n"
    if not _NOT_TAKEN.search(text):
        return None
    if isinstance(named, str) and named in sent:
        return named
    places = {name: found.start() for name in sent if (found := re.search(rf"\b{name}\b", text))}
    return min(places, key=places.__getitem__, default=None)


def most_choices(message: str) -> int:
    """How many choices a call may ask for, by the message that refused ``n``; 1 where it does not say."""
    found = _AT_MOST.search(message[:_READ])
    return max(1, int(found[1][:6])) if found else 1
