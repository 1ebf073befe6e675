"""What a trajectory must be to become training data: small named rules in a fixed order.

A trajectory that fails falls to the first rule it fails, so the ledger adds up. The rules here look
at one trajectory; those that compare trajectories (duplicate, distinct, per_task, target) are applied
by ``select``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from pipeline.trajectories.panels import Panel, normal_text
from pipeline.trajectories.schema import Outcome, Step, Task, Trajectory, digest

VERDICT: Final = re.compile(
    r"\breward\s*[=:]\s*[-+]?\d|\banswer\s+(?:is|was)\s+(?:in)?correct\b", re.IGNORECASE
)
"""How environments announce a verdict: ``reward = 1``, ``Answer is CORRECT``."""


@dataclass(frozen=True)
class Excluded:
    """Tasks that may not be trained on: those of evaluation panels and of the exemplars.

    ``texts`` holds hashes of problems' normalised words, as panels do: a task that asks the same under
    another id leaks just as much.
    """

    task_ids: frozenset[str] = field(default=frozenset())
    texts: frozenset[str] = field(default=frozenset())

    @classmethod
    def of(cls, panels: Iterable[Panel] = (), others: Iterable[str] = ()) -> Excluded:
        """From evaluation panels, and ids or instructions of other tasks (exemplars)."""
        entries = [entry for panel in panels for entry in panel.entries]
        others = list(others)
        texts = [*(entry.text for entry in entries), *(digest(normal_text(text)) for text in others)]
        return cls(frozenset([*(entry.id for entry in entries), *others]), frozenset(texts))

    def holds(self, task: Task) -> bool:
        """Whether the task is one of them, by id or by text."""
        return task.id in self.task_ids or digest(normal_text(task.problem)) in self.texts


@dataclass(frozen=True)
class Limits:
    """What the recipe adds to the rules."""

    max_steps: int | None = None
    excluded: Excluded = field(default_factory=Excluded)


def provenance(trajectory: Trajectory, _: Limits) -> bool:
    """It says which task of which split was played in which version of the environment."""
    task = trajectory.task
    named = (trajectory.id, task.id, task.split, task.environment, trajectory.versions.get("environment"))
    return all(named)


def finished(trajectory: Trajectory, _: Limits) -> bool:
    """The episode ended by itself, at no limit and through no error."""
    return trajectory.outcome is Outcome.FINISHED


def correct(trajectory: Trajectory, _: Limits) -> bool:
    """The environment's own grader says so."""
    return trajectory.grade.correct


def well_formed(trajectory: Trajectory, _: Limits) -> bool:
    """It has steps, and every step could be read as an action."""
    return bool(trajectory.steps) and all(
        step.action.strip() and "no_action" not in step.flags for step in trajectory.steps
    )


def valid_actions(trajectory: Trajectory, _: Limits) -> bool:
    """The environment could carry out every action (it did so too where a search found nothing)."""
    return not any(step.invalid for step in trajectory.steps)


def nothing_invented(trajectory: Trajectory, _: Limits) -> bool:
    """The model wrote no observation of its own in any step."""
    return not any("hallucinated_observation" in step.flags for step in trajectory.steps)


def uncut(trajectory: Trajectory, _: Limits) -> bool:
    """No completion was cut by the token budget or by an error."""
    return all(step.stop_reason == "stop" and "truncated" not in step.flags for step in trajectory.steps)


def short_enough(trajectory: Trajectory, limits: Limits) -> bool:
    """It has no more steps than the recipe allows."""
    return limits.max_steps is None or len(trajectory.steps) <= limits.max_steps


def trained_texts(steps: list[Step]) -> Iterable[str]:
    """Every text of the steps that can reach a training row: all but the last observation."""
    for index, step in enumerate(steps):
        yield from (step.thought, step.action)
        if index < len(steps) - 1:
            yield step.observation


def no_verdict(trajectory: Trajectory, _: Limits) -> bool:
    """No text that would be trained on announces a reward or a verdict.

    The observation after the last action may: no row holds it.
    """
    return not any(VERDICT.search(text) for text in (trajectory.opening, *trained_texts(trajectory.steps)))


def no_leak(trajectory: Trajectory, limits: Limits) -> bool:
    """Its task is in no evaluation panel and no exemplar."""
    return not limits.excluded.holds(trajectory.task)


Rule = Callable[[Trajectory, Limits], bool]

RULES: Final[dict[str, Rule]] = {
    "provenance": provenance,
    "finished": finished,
    "correct": correct,
    "well_formed": well_formed,
    "valid_actions": valid_actions,
    "nothing_invented": nothing_invented,
    "uncut": uncut,
    "max_steps": short_enough,
    "no_verdict": no_verdict,
    "no_leak": no_leak,
}
"""The rules for one trajectory, in the order of their application."""

ORDER: Final[tuple[str, ...]] = ("duplicate", *RULES, "distinct", "per_task", "target")
"""Every rule's name, in order."""


def first_failed(trajectory: Trajectory, limits: Limits) -> str | None:
    """The name of the first rule that the trajectory fails, or None when it passes all."""
    return next((name for name, rule in RULES.items() if not rule(trajectory, limits)), None)
