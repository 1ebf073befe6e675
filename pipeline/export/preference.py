"""Rows of pairs: a prompt, and what two episodes of the same task made of it.

The columns are TRL's for preferences. A remainder of several turns holds what the environment answered in
between; which parts are the model's own words is told by the roles of the messages, and in raw text by the
lists of parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pipeline.errors import FormatError
from pipeline.export.messages import plain_messages
from pipeline.export.restyle import Style, lacking, restyle
from pipeline.export.rows import RENDERERS, Format
from pipeline.export.tools import tools_rows
from pipeline.rendering.base import ChatPrompt, PromptSpec, Renderer, TextPrompt
from pipeline.rendering.opening import shown
from pipeline.trajectories.files import clean_text
from pipeline.trajectories.pairs import Pair
from pipeline.trajectories.schema import Trajectory

_STRING: Final = "string"
_PARTS: Final = ("prompt", "chosen", "rejected")
_ABOUT: Final = [{"name": name, "dtype": _STRING} for name in ("id", "task", "kind")]


def _message() -> list[dict[str, Any]]:
    # A new one each time: YAML would write a shared list as an anchor, which not every reader knows.
    return [{"name": "role", "dtype": _STRING}, {"name": "content", "dtype": _STRING}]


PAIR_FEATURES: Final[dict[str, list[dict[str, Any]]]] = {
    "text": [
        *_ABOUT,
        *({"name": name, "dtype": _STRING} for name in _PARTS),
        *({"name": f"{name}_parts", "list": _STRING} for name in _PARTS),
    ],
    "messages": [*_ABOUT, *({"name": name, "list": _message()} for name in _PARTS)],
    "tools": [*_ABOUT, *({"name": name, "list": "json"} for name in (*_PARTS, "tools"))],
}
"""The columns of a format of pairs, as a dataset card declares them."""


def pair_rows(
    pair: Pair, style: Style, kind: Format, spec: PromptSpec, renderer: Renderer
) -> list[dict[str, Any]]:
    """The row of one pair; none where the style leaves no difference, or no common way to it.

    Raises:
        FormatError: the renderer is of another kind than the format.
    """
    if lacking(pair.chosen, style) or lacking(pair.rejected, style):
        return []
    tools: dict[str, Any] = {}
    halves: list[list[Any]] = []
    for trajectory in (pair.chosen, pair.rejected):
        parts, tools = _rendered(trajectory, style, kind, spec, renderer)
        halves.append(parts)
    fork = _fork(halves[0], halves[1], kind)
    if fork is None:
        return []
    task = pair.chosen.task
    about = {"id": pair.id, "task": task.id, "kind": task.kind}
    told = (halves[0][:fork], halves[0][fork:], halves[1][fork:])
    columns: dict[str, Any] = dict(zip(_PARTS, told, strict=True))
    if kind == "text":
        columns = {
            **{name: "".join(parts) for name, parts in columns.items()},
            **{f"{name}_parts": parts for name, parts in columns.items()},
        }
    return [{**about, **columns, **tools}]


def _rendered(
    trajectory: Trajectory, style: Style, kind: Format, spec: PromptSpec, renderer: Renderer
) -> tuple[list[Any], dict[str, Any]]:
    """An episode as the parts or messages of its format, and its tools where it has any."""
    steps = restyle(trajectory, style)
    prompt = renderer.training(spec, shown(spec, trajectory.task, trajectory.opening), steps)
    if kind == "text" and isinstance(prompt, TextPrompt):
        return text_parts(prompt), {}
    if kind == "messages" and isinstance(prompt, ChatPrompt):
        return list(plain_messages(prompt)), {}
    if kind == "tools" and isinstance(prompt, ChatPrompt):
        [row] = tools_rows(prompt)
        return row["messages"], {"tools": row["tools"]}
    raise FormatError(
        f"pairs in the format {kind!r} hold no {type(prompt).__name__}: use renderer {RENDERERS[kind]!r}"
    )


def text_parts(prompt: TextPrompt) -> list[str]:
    """The text in turns: context first, then the model's own words, context, and so on."""
    parts: list[str] = [""]
    for segment in prompt.segments:
        own = len(parts) % 2 == 0
        if (segment.source == "model") == own:
            parts[-1] += segment.text
        else:
            parts.append(segment.text)
    # What cannot be written is replaced here, so that the parts still make up the whole.
    return [clean_text(part) for part in parts]


def _fork(one: Sequence[Any], two: Sequence[Any], kind: Format) -> int | None:
    """The first part that differs; None where it is not the model's, or where there is none."""
    for place, (mine, yours) in enumerate(zip(one, two, strict=False)):
        if mine != yours:
            if kind == "text":
                return place if place % 2 else None
            return place if mine["role"] == yours["role"] == "assistant" else None
    return None
