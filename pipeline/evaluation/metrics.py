"""What one episode is worth, and per-label scores for claims.

The environment has graded each episode already (``trajectory.grade``); nothing is graded again
here. Scores are read so that an episode that did not finish, or is missing, is worth nothing; points
that a world gives on the way (``score``) are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field

from pipeline.errors import StoreError
from pipeline.trajectories.schema import ERRORED, Outcome, Record, Trajectory

Metric = Literal["em", "f1", "accuracy", "score"]

SCORE = "score"
"""The metric of worlds that give points on the way. An episode keeps its points however it ended."""
PUBLISHED_SCORE = "score_published"
"""The same as a benchmark's own wrapper counts it, from -1 to 1."""

MISSING = "missing"
"""The outcome reported for a task of the panel that has no episode."""

NO_ANSWER = "(no answer)"
OTHER = "(other)"
MAX_LABELS = 12
"""More distinct gold answers than this are free text, not labels."""


class LabelScore(Record):
    """Precision, recall and F1 of one label, and how often it is the gold one."""

    precision: float
    recall: float
    f1: float
    support: int


class LabelReport(Record):
    """Per-label scores. ``confusion[gold][predicted]`` counts episodes; each row sums to support."""

    labels: dict[str, LabelScore]
    macro_f1: float
    confusion: dict[str, dict[str, int]] = Field(default_factory=dict)


def is_correct(trajectory: Trajectory | None) -> bool:
    """Whether the environment called the episode correct; never so unless it finished."""
    return trajectory is not None and trajectory.outcome == Outcome.FINISHED and trajectory.grade.correct


def is_errored(trajectory: Trajectory | None) -> bool:
    """Whether the episode is missing, or failed through no fault of the agent."""
    return trajectory is None or trajectory.outcome in ERRORED


def score(trajectory: Trajectory | None, metric: str) -> float:
    """The episode's score in one metric, between 0 and 1; ``accuracy`` is the verdict itself.

    An episode that did not finish is worth nothing, except in points (``score`` and its variants):
    there it keeps what it had, unless it failed through no fault of the agent.

    Raises:
        StoreError: a finished episode does not carry the metric, or carries it outside [0, 1]
            (``score_published``: [-1, 1]).
    """
    if trajectory is None or not (trajectory.outcome == Outcome.FINISHED or _keeps(trajectory, metric)):
        return 0.0
    if metric == "accuracy":
        return float(trajectory.grade.correct)
    value = trajectory.grade.metrics.get(metric)
    if value is None or not (-1.0 if metric == PUBLISHED_SCORE else 0.0) <= value <= 1.0:
        has = ", ".join(sorted(trajectory.grade.metrics)) or "none"
        raise StoreError(
            f"trajectory {trajectory.id!r} of task {trajectory.task.id!r} has {metric} = {value!r} where a "
            f"number from 0 to 1 is needed (it carries: {has}); name a metric that the environment measures"
        )
    return value


def _keeps(trajectory: Trajectory, metric: str) -> bool:
    """Whether an unfinished episode is worth what it is graded with."""
    points = metric.partition("_")[0] == SCORE and metric in trajectory.grade.metrics
    return points and trajectory.outcome not in ERRORED


def carried_metrics(trajectories: Iterable[Trajectory]) -> list[str]:
    """Names of the metrics that every finished episode carries, sorted."""
    sets = [set(t.grade.metrics) for t in trajectories if t.outcome == Outcome.FINISHED]
    return sorted(set.intersection(*sets)) if sets else []


def mean(values: Sequence[float]) -> float:
    """The mean, 0 for no values."""
    return sum(values) / len(values) if values else 0.0


def label_report(cases: Iterable[tuple[str, Trajectory | None]]) -> LabelReport | None:
    """Per-label scores of one group, or None where the gold answers are not a small set of labels.

    ``cases`` pairs each task's gold label with its episode (None: missing). The environment's
    verdict comes first: a correct episode counts as its gold label. A wrong one counts as the label
    that its answer spells (letter case and outer space aside), ``(no answer)`` where there is none
    or the episode did not finish, and else ``(other)``.
    """
    pairs = list(cases)
    labels = sorted({gold for gold, _ in pairs})
    if not 1 < len(labels) <= MAX_LABELS:
        return None
    counts = {gold: Counter[str]() for gold in labels}
    for gold, trajectory in pairs:
        counts[gold][_predicted(gold, trajectory, labels)] += 1
    scores = {label: _label_score(label, counts) for label in labels}
    return LabelReport(
        labels=scores,
        macro_f1=mean([s.f1 for s in scores.values()]),
        confusion={gold: dict(sorted(row.items())) for gold, row in counts.items()},
    )


def _predicted(gold: str, trajectory: Trajectory | None, labels: Sequence[str]) -> str:
    if is_correct(trajectory):
        return gold
    if trajectory is None or trajectory.outcome != Outcome.FINISHED:
        return NO_ANSWER
    answer = (trajectory.answer or "").strip().casefold()
    if not answer:
        return NO_ANSWER
    # An answer that spells the gold label and was still not accepted is no hit.
    return next((x for x in labels if x.casefold() == answer and x != gold), OTHER)


def _label_score(label: str, counts: dict[str, Counter[str]]) -> LabelScore:
    hits = counts[label][label]
    support = counts[label].total()
    predicted = sum(row[label] for row in counts.values())
    precision = hits / predicted if predicted else 0.0
    recall = hits / support if support else 0.0
    f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
    return LabelScore(precision=precision, recall=recall, f1=f1, support=support)
