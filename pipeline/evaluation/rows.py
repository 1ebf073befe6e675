"""The rows of a report: one a method and model, all over the same panel.

The denominator is the panel: a task without an episode counts as errored and wrong, an episode of
a task outside the panel, or a second one of the same task, is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from pipeline.errors import RecipeError, StoreError
from pipeline.evaluation import metrics
from pipeline.evaluation.metrics import LabelReport, Metric
from pipeline.evaluation.statistics import mean_interval
from pipeline.trajectories.panels import Panel
from pipeline.trajectories.schema import Record, Task, Trajectory

RowKind = Literal["prompted", "fine-tuned", "scripted"]
"""``scripted`` rows are an environment's own solver: an upper bound, never a baseline to beat."""


@dataclass(frozen=True)
class Group:
    """The episodes of one entry of the evaluation.

    ``base`` is the model label that a fine-tuned model started from: its prompted rows are the
    baselines to beat. Left empty, every prompted row is one. ``size`` is in billions of parameters.
    """

    method: str
    model: str
    kind: RowKind
    trajectories: Sequence[Trajectory]
    base: str = ""
    size: float | None = None

    @property
    def name(self) -> str:
        """What the row is called in comparisons: method × model."""
        return f"{self.method} × {self.model}"


@dataclass(frozen=True)
class Settings:
    """How numbers are computed: the metric that intervals are of, and the bootstrap's settings."""

    metric: Metric = "em"
    confidence: float = 0.95
    resamples: int = 9999
    seed: int = 0


class KindCount(Record):
    """How many tasks of one kind the panel has, and how many were answered correctly."""

    n: int
    correct: int


class Row(Record):
    """One method with one model on the panel.

    ``em``, ``f1`` and ``metrics`` are means over the panel (null where the environment does not
    measure them); ``accuracy`` is the share of episodes that the environment calls correct.
    ``ci_low`` and ``ci_high`` belong to the report's metric. ``steps``, ``invalid_actions``,
    ``prompt_tokens``, ``completion_tokens`` and ``seconds`` are means an episode over the episodes
    that exist; seconds are wall-clock, with other episodes running beside. ``cost`` is the sum.
    """

    name: str
    method: str
    model: str
    kind: RowKind
    size: float | None = None
    n: int
    correct: int
    errored: int
    em: float | None
    f1: float | None
    accuracy: float
    ci_low: float
    ci_high: float
    ci_method: str
    steps: float
    invalid_actions: float
    prompt_tokens: float
    completion_tokens: float
    seconds: float
    cost: float
    metrics: dict[str, float] = Field(default_factory=dict)
    outcomes: dict[str, int] = Field(default_factory=dict)
    by_kind: dict[str, KindCount] = Field(default_factory=dict)
    labels: LabelReport | None = None

    def value(self, metric: Metric) -> float:
        """The row's mean in the report's metric."""
        means = {"em": self.em, "f1": self.f1, "accuracy": self.accuracy, "score": self.metrics.get("score")}
        return means[metric] or 0.0


@dataclass(frozen=True)
class Aligned:
    """A group's episodes in the panel's order; None where there is no episode."""

    group: Group
    episodes: list[Trajectory | None]
    correct: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "correct", [metrics.is_correct(t) for t in self.episodes])

    def scores(self, metric: str) -> list[float]:
        """The score of every task of the panel, in its order."""
        return [metrics.score(t, metric) for t in self.episodes]


def align(panel: Panel, groups: Sequence[Group]) -> list[Aligned]:
    """Put every group's episodes in the panel's order.

    Raises:
        RecipeError: there are no tasks or no groups, or two groups have the same name.
        StoreError: the panel repeats a task, or a group holds two episodes of one task, one of a
            task outside the panel, or one of a task that has changed since.
    """
    if not panel.entries or not groups:
        raise RecipeError(
            f"an evaluation needs tasks and entries: the panel has {len(panel)} tasks and there are "
            f"{len(groups)} entries"
        )
    if twice := _repeated(panel.ids):
        raise StoreError(f"the panel lists task {twice!r} more than once: draw a new panel")
    if twice := _repeated([group.name for group in groups]):
        raise RecipeError(f"two entries of the evaluation are called {twice!r}; give each a name of its own")
    return [_align_one(panel, group) for group in groups]


def _repeated(names: Sequence[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _align_one(panel: Panel, group: Group) -> Aligned:
    contents = {entry.id: entry.content for entry in panel.entries}
    found: dict[str, Trajectory] = {}
    for trajectory in group.trajectories:
        task = trajectory.task
        if task.id in found:
            raise StoreError(
                f"{group.name!r} has two episodes of task {task.id!r} ({found[task.id].id!r} and "
                f"{trajectory.id!r}); keep one episode a task"
            )
        if task.id not in contents:
            raise StoreError(f"{group.name!r} has an episode of task {task.id!r}, which is not in the panel")
        if task.content_hash != contents[task.id]:
            raise StoreError(
                f"{group.name!r} played another version of task {task.id!r} than the panel's; play it again"
            )
        found[task.id] = trajectory
    return Aligned(group, [found.get(entry.id) for entry in panel.entries])


def build_rows(panel: Panel, groups: Sequence[Group], settings: Settings) -> list[Row]:
    """One row a group, the best first.

    Raises:
        RecipeError: as ``align`` does.
        StoreError: as ``align`` does, or a finished episode lacks the metric.
    """
    aligned = align(panel, groups)
    tasks = panel_tasks(panel, groups)
    carried = metrics.carried_metrics(t for g in groups for t in g.trajectories)
    rows = [_row(one, tasks, carried, settings) for one in aligned]
    return sorted(rows, key=lambda row: (-row.value(settings.metric), row.kind, row.name))


def panel_tasks(panel: Panel, groups: Sequence[Group]) -> list[Task | None]:
    """The panel's tasks in its order: its own, else as some group played them, else None."""
    known = {t.task.id: t.task for group in groups for t in group.trajectories}
    known.update((task.id, task) for task in panel.attached or ())
    return [known.get(entry.id) for entry in panel.entries]


def _row(one: Aligned, tasks: Sequence[Task | None], carried: Sequence[str], settings: Settings) -> Row:
    means = {name: metrics.mean(one.scores(name)) for name in carried}
    scores = one.scores(settings.metric)
    if settings.metric != "accuracy":
        means[settings.metric] = metrics.mean(scores)
    interval = mean_interval(
        scores, confidence=settings.confidence, resamples=settings.resamples, seed=settings.seed
    )
    return Row(
        name=one.group.name,
        method=one.group.method,
        model=one.group.model,
        kind=one.group.kind,
        size=one.group.size,
        n=len(one.episodes),
        correct=sum(one.correct),
        errored=sum(metrics.is_errored(t) for t in one.episodes),
        em=means.get("em"),
        f1=means.get("f1"),
        accuracy=metrics.mean(one.correct),
        ci_low=interval.low,
        ci_high=interval.high,
        ci_method=interval.method,
        **_costs([t for t in one.episodes if t is not None]),
        metrics=means,
        outcomes=dict(Counter(t.outcome.value if t else metrics.MISSING for t in one.episodes).most_common()),
        by_kind=_by_kind(one.correct, tasks),
        labels=_labels(one, tasks) if settings.metric == "accuracy" else None,
    )


def _costs(played: Sequence[Trajectory]) -> dict[str, float]:
    return {
        "steps": metrics.mean([len(t.steps) for t in played]),
        "invalid_actions": metrics.mean([sum(s.invalid for s in t.steps) for t in played]),
        "prompt_tokens": metrics.mean([t.usage.prompt_tokens for t in played]),
        "completion_tokens": metrics.mean([t.usage.completion_tokens for t in played]),
        "seconds": metrics.mean([t.seconds for t in played]),
        "cost": float(sum(t.usage.cost for t in played)),
    }


def _by_kind(correct: Sequence[bool], tasks: Sequence[Task | None]) -> dict[str, KindCount]:
    """Counts by the task's kind; a task that is not at hand has kind ``(unknown)``."""
    counts: dict[str, KindCount] = {}
    for right, task in zip(correct, tasks, strict=True):
        count = counts.setdefault((task.kind or "(none)") if task else "(unknown)", KindCount(n=0, correct=0))
        count.n += 1
        count.correct += right
    return dict(sorted(counts.items()))


def _labels(one: Aligned, tasks: Sequence[Task | None]) -> LabelReport | None:
    pairs = zip(tasks, one.episodes, strict=True)
    return metrics.label_report((task.gold[0], t) for task, t in pairs if task and task.gold)
