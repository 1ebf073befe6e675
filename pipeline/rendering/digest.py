"""The identity of a prompt's fixed part, as training and serving must agree on it."""

from __future__ import annotations

from pipeline.rendering.base import PromptSpec
from pipeline.trajectories.schema import digest


def spec_digest(spec: PromptSpec) -> str:
    """Hash of style, label, instruction and offered tools; without exemplars: a student is served none."""
    fixed = [spec.style, spec.label, spec.instruction]
    # Where no tools are offered they are no part of the prompt.
    offered = [[tool.name, tool.argument, tool.description] for tool in spec.tools]
    return digest([*fixed, offered] if offered else fixed)
