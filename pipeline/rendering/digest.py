"""The identity of a prompt's fixed part, as training and serving must agree on it."""

from __future__ import annotations

from pipeline.rendering.base import PromptSpec
from pipeline.trajectories.schema import digest


def spec_digest(spec: PromptSpec) -> str:
    """Hash of style, label and instruction; without exemplars, since a student is served none."""
    return digest([spec.style, spec.label, spec.instruction])
