"""What an episode shows before its first step, as a part of the task: serving and training say it alike."""

from __future__ import annotations

from pipeline.rendering.base import PromptSpec
from pipeline.trajectories.schema import Task


def shown(spec: PromptSpec, task: Task, opening: str) -> Task:
    """The task as an acting model sees it: its instruction, then what the reset showed.

    Unchanged where the style does not act, and where the opening says nothing that the prompt does not
    say already (the public environments open with the task itself).
    """
    if spec.style not in ("act", "react") or opening.strip() == f"{spec.label}: {task.instruction.strip()}":
        return task
    instruction = extended(task.instruction, opening)
    return task if instruction == task.instruction else task.model_copy(update={"instruction": instruction})


def extended(instruction: str, opening: str) -> str:
    """An instruction with an opening on the lines behind it; an empty opening changes nothing."""
    return f"{instruction.strip()}\n{opening.strip()}" if opening.strip() else instruction
