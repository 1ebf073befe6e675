"""Rows for a raw-text model: one row a step, so that any prompt-completion trainer can read them."""

from __future__ import annotations

from typing import Any

from pipeline.errors import FormatError
from pipeline.rendering.base import TextPrompt


def text_rows(prompt: TextPrompt, steps: int) -> list[dict[str, Any]]:
    """One row a step: ``step`` (from 1), ``prompt`` (all text before) and ``completion``.

    The completion is what the model itself must write, stop marker included.

    Args:
        prompt: the whole episode, as ``Renderer.training`` gives it.
        steps: how many steps the episode has.

    Raises:
        FormatError: the prompt does not hold exactly one model part a step.
    """
    rows: list[dict[str, Any]] = []
    before = ""
    previous = ""
    for segment in prompt.segments:
        if segment.source == "model" and previous == "model":
            rows[-1]["completion"] += segment.text
        elif segment.source == "model":
            rows.append({"step": len(rows) + 1, "prompt": before, "completion": segment.text})
        before += segment.text
        previous = segment.source
    if len(rows) != steps:
        raise FormatError(f"the renderer wrote {len(rows)} model parts for an episode of {steps} steps")
    return rows
