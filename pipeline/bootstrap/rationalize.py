"""Rationalised trajectories: which tasks are tried again with a hint, and which tries may be trained on.

A model that knows the answer can copy it. Two rules, on top of those of every selection, keep what it
might have done without: it saw the answer before it spoke of it, and it spoke of no hint.
Source: rationalisation in STaR (Zelikman et al. 2022), section 3.2; the rules are ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from pipeline.methods.hinted import HINTED
from pipeline.trajectories.panels import normal_text
from pipeline.trajectories.schema import Task, Trajectory

LABELS: Final = frozenset({"yes", "no", "true", "false", "supports", "refutes", "not enough info"})
"""Answers that are chosen instead of found: no observation shows them."""
SPOKEN: Final = re.compile(
    r"\bhint(?:s|ed|ing)?\b"
    r"|\b(?:given|known|provided|told|supplied) (?:the )?answer\b"
    r"|\banswer (?:\w+ ){0,3}(?:given|provided|supplied|told|known)\b"
    r"|\b(?:told|already know|was given|were given|am given) (?:\w+ ){0,3}answer\b",
    re.IGNORECASE,
)
"""Words of somebody who was told the answer."""


def failed_tasks(tasks: Sequence[Task], played: Iterable[Trajectory]) -> list[Task]:
    """The tasks that no episode solved, and whose answer can be hinted at, in their order."""
    solved = {trajectory.task.id for trajectory in played if trajectory.grade.correct}
    return [task for task in tasks if task.id not in solved and task.gold and task.gold[0].strip()]


def is_hinted(trajectory: Trajectory) -> bool:
    """Whether the agent was shown the answer."""
    return trajectory.settings.get(HINTED) is True


def grounded(trajectory: Trajectory) -> bool:
    """The final answer stood in an observation before any thought or action held it.

    An answer that the instruction itself names may be spoken of at once (one of two things to compare),
    but must have been seen by the end. Labels (``yes``, ``SUPPORTS``) are not found in any text.
    """
    answer = normal_text(trajectory.answer or "")
    if not answer:
        return trajectory.answer is None
    if answer in LABELS:
        return True
    named = _holds(trajectory.task.instruction, answer)
    for step in trajectory.steps[:-1]:
        if not named and _holds(f"{step.thought}\n{step.action}", answer):
            return False
        if _holds(step.observation, answer):
            return True
    return False


def silent(trajectory: Trajectory) -> bool:
    """No thought and no action speaks of a hint, or of an answer that was given."""
    return not any(SPOKEN.search(text) for step in trajectory.steps for text in (step.thought, step.action))


HINT_RULES: Final[dict[str, Callable[[Trajectory], bool]]] = {"grounded": grounded, "silent": silent}
"""What a rationalised trajectory must be, beside what every selected one must."""


def hint_fault(trajectory: Trajectory) -> str | None:
    """The rule about hints that a trajectory fails first, or None; those without a hint fail none."""
    if not is_hinted(trajectory):
        return None
    return next((name for name, rule in HINT_RULES.items() if not rule(trajectory)), None)


def _holds(text: str, answer: str) -> bool:
    """Whether a text holds whole words of an answer, both in the form in which texts are compared."""
    return f" {answer} " in f" {normal_text(text)} "
