"""Rows for SWIFT: one a step, the text that the encoder reads and the action that the decoder writes."""

from __future__ import annotations

from typing import Any

from pipeline.rendering.swift import is_dropped, swift_examples
from pipeline.trajectories.schema import Trajectory


def swift_rows(trajectory: Trajectory, history: int, *, skip_first: bool = True) -> list[dict[str, Any]]:
    """One row a target: ``step`` (from 1), ``input``, ``target``.

    Empty where fewer than two steps remain without ``look around`` and closed doors.

    Args:
        trajectory: an episode of ScienceWorld.
        history: K, how many past actions an input shows.
        skip_first: leave the first action out, as the public data does.
    """
    examples = swift_examples(trajectory, history, skip_first=skip_first)
    return [{"step": example.step, "input": example.input, "target": example.target} for example in examples]


def dropped_steps(trajectory: Trajectory) -> int:
    """How many steps of the trajectory no row shows, being ``look around`` or closed doors."""
    return sum(is_dropped(step.action) for step in trajectory.steps)
