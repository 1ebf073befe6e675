"""The same trajectory in another style: what is taken away decides what a student learns.

As in the paper (ReAct, section 3.2): act removes the thoughts, cot the actions and observations,
standard all three.
"""

from __future__ import annotations

from typing import Literal

from pipeline.errors import FormatError
from pipeline.trajectories.schema import Step, Trajectory

Style = Literal["standard", "cot", "act", "react"]


def lacking(trajectory: Trajectory, style: Style) -> str:
    """What the trajectory lacks to be put in a style; empty when it lacks nothing."""
    if not trajectory.steps:
        return "steps"
    if style in {"react", "cot"} and not _reasoning(trajectory):
        return "thoughts"
    if style in {"standard", "cot"}:
        return "" if _answer(trajectory) else "an answer"
    return "" if all(step.action.strip() for step in trajectory.steps) else "an action in some step"


def restyle(trajectory: Trajectory, style: Style) -> list[Step]:
    """The steps to train a style on, holding only thought, action and observation.

    What the model wrote beyond its thought and action (an invented observation, say) is not carried
    over, and neither is the observation after the last action: it is often a verdict.

    Raises:
        FormatError: the trajectory lacks what the style is made of (see ``lacking``).
    """
    missing = lacking(trajectory, style)
    if missing:
        raise FormatError(
            f"trajectory {trajectory.id!r} lacks {missing}: style {style!r} cannot be made from it"
        )
    if style in {"standard", "cot"}:
        thought = _reasoning(trajectory) if style == "cot" else ""
        return [Step(thought=thought, action=f"Finish[{_answer(trajectory)}]")]
    last = len(trajectory.steps) - 1
    return [
        Step(
            thought=step.thought if style == "react" else "",
            action=step.action,
            observation=step.observation if index < last else "",
        )
        for index, step in enumerate(trajectory.steps)
    ]


def _answer(trajectory: Trajectory) -> str:
    return " ".join((trajectory.answer or "").split())


def _reasoning(trajectory: Trajectory) -> str:
    """The thoughts as one paragraph: one line, one space between words."""
    return " ".join(" ".join(step.thought for step in trajectory.steps).split())
