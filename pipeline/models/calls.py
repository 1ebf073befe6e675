"""Tool calls that a server answered with, as the text that the tools renderer reads."""

from __future__ import annotations

import json
from typing import Any

from pipeline.rendering.base import ToolCall
from pipeline.rendering.tools import write_call
from pipeline.trajectories.files import clean_text


def called_functions(tool_calls: Any, function_call: Any) -> list[dict[str, Any]]:
    """The functions (``name``, ``arguments``) that an API message calls; the old single call comes last."""
    calls: list[Any] = tool_calls if isinstance(tool_calls, list) else []
    functions = [call.get("function") for call in calls if isinstance(call, dict)]
    return [function for function in (*functions, function_call) if isinstance(function, dict)]


def call_text(function: dict[str, Any]) -> tuple[str, bool]:
    """A called function as the renderer's text, and whether it could be read.

    One that could not (no name, arguments cut in the middle) is written so that nobody reads it as a call.
    """
    name, given = function.get("name"), function.get("arguments")
    arguments = _arguments(given)
    if isinstance(name, str) and name and arguments is not None:
        return write_call(ToolCall(clean_text(name), arguments)), True
    raw = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return clean_text(f"{name if isinstance(name, str) else ''} {raw}".strip()), False


def _arguments(given: Any) -> dict[str, str] | None:
    """Arguments by name; None where they are no JSON object (cut in the middle, or never one)."""
    if isinstance(given, str):
        try:
            given = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError):
            return None
    if given is None:
        return {}
    if not isinstance(given, dict):
        return None
    return {clean_text(name): _plain(value) for name, value in given.items()}


def _plain(value: Any) -> str:
    return clean_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
