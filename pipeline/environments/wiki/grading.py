"""Verdicts on answers to questions and on labels of claims (specs, section 1.3)."""

from __future__ import annotations

from pipeline.environments.answers import Mode, best, claim_label, exact_match, f1
from pipeline.trajectories.schema import Grade, Task

MODES: dict[Mode, str] = {"strict": "", "official": "_official"}
"""Both ways to score an answer, and what each adds to a metric's name; strict decides."""


def grade_question(task: Task, answer: str | None) -> Grade:
    """Exact match and F1 against the best accepted answer; None is an episode without an answer."""
    metrics = {
        f"{name}{suffix}": best(metric, answer or "", task.gold, mode)
        for mode, suffix in MODES.items()
        for name, metric in (("em", exact_match), ("f1", f1))
    }
    return Grade(correct=bool(metrics["em"]), reward=metrics["em"], metrics=metrics)


def grade_claim(task: Task, answer: str | None) -> Grade:
    """Whether the answer is a wording of the label; officially, whether it is the label's own."""
    right = float(answer is not None and claim_label(answer) in task.gold)
    official = best(exact_match, answer or "", task.gold, "official")
    metrics = {"accuracy": right, "accuracy_official": official}
    return Grade(correct=bool(right), reward=right, metrics=metrics)
