"""The curves of a report: the score against the samples of a vote, and against the size of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from pipeline.environments.base import Environment
from pipeline.evaluation.figures import SizePoint
from pipeline.evaluation.metrics import Metric
from pipeline.evaluation.rows import Group, Row, Settings
from pipeline.evaluation.votes import VotePoint, vote_curve
from pipeline.rendering.parse import finish
from pipeline.trajectories.schema import Task


def vote_curves(
    groups: Sequence[Group], environment: Environment, settings: Settings
) -> dict[str, list[VotePoint]]:
    """The curve of every group of CoT-SC episodes, by the group's name.

    Raises:
        StoreError: the episodes of one group hold different numbers of votes.
        EnvironmentFault: an answer cannot be graded.
    """
    return {
        group.name: vote_curve(
            group.trajectories,
            environment.normalise,
            answer_score(environment, settings.metric),
            confidence=settings.confidence,
            resamples=settings.resamples,
            seed=settings.seed,
        )
        for group in groups
        if group.method == "cot_sc" and any(step.votes for t in group.trajectories for step in t.steps)
    }


def answer_score(environment: Environment, metric: Metric) -> Callable[[Task, str], float]:
    """What an answer to a task would score: an episode that does nothing but finish with it."""

    def score(task: Task, answer: str) -> float:
        with closing(environment.episode(task)) as episode:
            episode.reset()
            episode.step(finish(answer))
            grade = episode.grade()
        return float(grade.correct) if metric == "accuracy" else grade.metrics[metric]

    return score


def size_points(rows: Sequence[Row], metric: Metric) -> list[SizePoint]:
    """Every row whose model's size is known, where there are at least two sizes; else nothing."""
    points = [
        SizePoint(
            method=row.method,
            kind=row.kind,
            size=f"{row.size:g}B",
            parameters=row.size * 1e9,
            value=row.value(metric),
            ci_low=row.ci_low,
            ci_high=row.ci_high,
        )
        for row in rows
        if row.size
    ]
    return points if len({point.parameters for point in points}) > 1 else []
