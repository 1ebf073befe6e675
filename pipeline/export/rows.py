"""The rows of a trajectory in a format: what each format is called, holds, and is rendered by."""

from __future__ import annotations

from typing import Any, Final, Literal

from pipeline.errors import FormatError
from pipeline.export.messages import messages_rows
from pipeline.export.restyle import Style, restyle
from pipeline.export.sharegpt import sharegpt_rows
from pipeline.export.text import text_rows
from pipeline.export.tools import tools_rows
from pipeline.rendering.base import ChatPrompt, Prompt, PromptSpec, Renderer, TextPrompt
from pipeline.rendering.opening import shown
from pipeline.trajectories.schema import Trajectory

Format = Literal["messages", "text", "sharegpt", "tools", "swift"]

RENDERERS: Final[dict[Format, str]] = {
    "text": "text",
    "messages": "chat",
    "sharegpt": "chat",
    "tools": "tools",
}
"""Which renderer writes a format; ``swift`` writes its rows itself (``swift_rows``)."""

_STRING: Final = "string"
_ABOUT: Final = [{"name": name, "dtype": _STRING} for name in ("id", "task", "kind")]

FEATURES: Final[dict[Format, list[dict[str, Any]]]] = {
    "text": [
        *_ABOUT,
        {"name": "step", "dtype": "int64"},
        {"name": "prompt", "dtype": _STRING},
        {"name": "completion", "dtype": _STRING},
    ],
    "messages": [
        *_ABOUT,
        {
            "name": "messages",
            "list": [{"name": "role", "dtype": _STRING}, {"name": "content", "dtype": _STRING}],
        },
    ],
    "sharegpt": [
        *_ABOUT,
        {
            "name": "conversations",
            "list": [{"name": "from", "dtype": _STRING}, {"name": "value", "dtype": _STRING}],
        },
    ],
    "tools": [
        *_ABOUT,
        {"name": "messages", "list": "json"},
        {"name": "tools", "list": "json"},
    ],
    "swift": [
        *_ABOUT,
        {"name": "step", "dtype": "int64"},
        {"name": "input", "dtype": _STRING},
        {"name": "target", "dtype": _STRING},
    ],
}
"""The columns of a format as a dataset card declares them, so that no reader has to guess."""


def trajectory_rows(
    trajectory: Trajectory, style: Style, kind: Format, spec: PromptSpec, renderer: Renderer
) -> list[dict[str, Any]]:
    """The rows of one trajectory: one a step in the text format, else one.

    Raises:
        FormatError: the trajectory cannot be put in this style, or the renderer is of another kind.
    """
    steps = restyle(trajectory, style)
    prompt = renderer.training(spec, shown(spec, trajectory.task, trajectory.opening), steps)
    return with_origin(trajectory, _rows(prompt, kind, len(steps)))


def with_origin(trajectory: Trajectory, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with what every format says first: the trajectory, its task, the task's kind."""
    about = {"id": trajectory.id, "task": trajectory.task.id, "kind": trajectory.task.kind}
    return [{**about, **row} for row in rows]


def _rows(prompt: Prompt, kind: Format, steps: int) -> list[dict[str, Any]]:
    if kind == "text" and isinstance(prompt, TextPrompt):
        return text_rows(prompt, steps)
    if kind == "messages" and isinstance(prompt, ChatPrompt):
        return messages_rows(prompt)
    if kind == "sharegpt" and isinstance(prompt, ChatPrompt):
        return sharegpt_rows(prompt)
    if kind == "tools" and isinstance(prompt, ChatPrompt):
        return tools_rows(prompt)
    raise FormatError(
        f"format {kind!r} cannot hold a {type(prompt).__name__}: use renderer {RENDERERS[kind]!r}"
    )
