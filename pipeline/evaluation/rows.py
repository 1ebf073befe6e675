"""The rows of a comparison (one a method and model) and the paired comparisons between them.

The denominator is the panel: a task without an episode counts as errored and wrong, an episode of
a task outside the panel, or a second one of the same task, is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from pipeline.errors import RecipeError, StoreError
from pipeline.evaluation import metrics
from pipeline.evaluation.metrics import LabelReport, Metric
from pipeline.evaluation.statistics import difference_interval, mcnemar, mean_interval
from pipeline.trajectories.schema import Record, Task, Trajectory

RowKind = Literal["prompted", "fine-tuned"]


@dataclass(frozen=True)
class Group:
    """The episodes of one entry of the evaluation.

    ``base`` is the model label that a fine-tuned model started from: its prompted rows are the
    baselines to beat. Left empty, every prompted row is one.
    """

    method: str
    model: str
    kind: RowKind
    trajectories: Sequence[Trajectory]
    base: str = ""

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
        return {"em": self.em, "f1": self.f1, "accuracy": self.accuracy}[metric] or 0.0


class Comparison(Record):
    """Row ``a`` against row ``b`` on the same tasks: difference = a - b in the report's metric.

    ``p`` is the exact McNemar test on right and wrong; ``a_only`` and ``b_only`` count the tasks
    that it rests on. ``best_baseline`` says that ``b`` is the best prompted row of all.
    """

    a: str
    b: str
    difference: float
    ci_low: float
    ci_high: float
    ci_method: str
    p: float
    a_only: int
    b_only: int
    best_baseline: bool = False


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


def align(panel_ids: Sequence[str], groups: Sequence[Group]) -> list[Aligned]:
    """Put every group's episodes in the panel's order.

    Raises:
        RecipeError: the panel is empty or repeats a task, or two groups have the same name.
        StoreError: a group holds two episodes of one task, or one of a task outside the panel.
    """
    if not panel_ids or not groups:
        raise RecipeError(
            f"an evaluation needs tasks and entries, not {len(panel_ids)} and {len(groups)} of them"
        )
    if twice := _repeated(panel_ids):
        raise RecipeError(f"the panel lists task {twice!r} more than once; a panel needs distinct tasks")
    if twice := _repeated([group.name for group in groups]):
        raise RecipeError(f"two entries of the evaluation are called {twice!r}; give each a name of its own")
    return [_align_one(panel_ids, group) for group in groups]


def _repeated(names: Sequence[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _align_one(panel_ids: Sequence[str], group: Group) -> Aligned:
    wanted = set(panel_ids)
    found: dict[str, Trajectory] = {}
    for trajectory in group.trajectories:
        task_id = trajectory.task.id
        if task_id in found:
            raise StoreError(
                f"{group.name!r} has two episodes of task {task_id!r} ({found[task_id].id!r} and "
                f"{trajectory.id!r}); keep one episode a task"
            )
        if task_id not in wanted:
            raise StoreError(f"{group.name!r} has an episode of task {task_id!r}, which is not in the panel")
        found[task_id] = trajectory
    return Aligned(group, [found.get(task_id) for task_id in panel_ids])


def build_rows(panel_ids: Sequence[str], groups: Sequence[Group], settings: Settings) -> list[Row]:
    """One row a group, the best first.

    Raises:
        RecipeError, StoreError: as ``align`` does, or a finished episode lacks the metric.
    """
    aligned = align(panel_ids, groups)
    tasks = {t.task.id: t.task for g in groups for t in g.trajectories}
    carried = metrics.carried_metrics(t for g in groups for t in g.trajectories)
    panel_tasks = [tasks.get(task_id) for task_id in panel_ids]
    rows = [_row(one, panel_tasks, carried, settings) for one in aligned]
    return sorted(rows, key=lambda row: (-row.value(settings.metric), row.kind, row.name))


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
    """Counts by the task's kind; a task that no group has played has kind ``(unknown)``."""
    counts: dict[str, KindCount] = {}
    for right, task in zip(correct, tasks, strict=True):
        count = counts.setdefault((task.kind or "(none)") if task else "(unknown)", KindCount(n=0, correct=0))
        count.n += 1
        count.correct += right
    return dict(sorted(counts.items()))


def _labels(one: Aligned, tasks: Sequence[Task | None]) -> LabelReport | None:
    pairs = zip(tasks, one.episodes, strict=True)
    return metrics.label_report((task.gold[0], t) for task, t in pairs if task and task.gold)


def build_comparisons(
    panel_ids: Sequence[str], groups: Sequence[Group], settings: Settings
) -> list[Comparison]:
    """Every paired comparison worth reading.

    Each fine-tuned row against the best prompted row and against every prompted row of the model it
    started from; then the best fine-tuned row against the other fine-tuned ones. Where nothing is
    fine-tuned: the best prompted row against the others.
    """
    ranked = sorted(
        align(panel_ids, groups),
        key=lambda one: (-metrics.mean(one.scores(settings.metric)), one.group.name),
    )
    tuned = [one for one in ranked if one.group.kind == "fine-tuned"]
    prompted = [one for one in ranked if one.group.kind == "prompted"]
    pairs = [(a, b) for a in tuned for b in prompted if b is prompted[0] or _is_baseline(a.group, b.group)]
    comparisons = [_compare(a, b, settings, best=b is prompted[0]) for a, b in pairs]
    rivals = tuned or prompted
    return comparisons + [_compare(rivals[0], other, settings) for other in rivals[1:]]


def _is_baseline(tuned: Group, prompted: Group) -> bool:
    return prompted.model == tuned.base or not tuned.base


def _compare(a: Aligned, b: Aligned, settings: Settings, *, best: bool = False) -> Comparison:
    ours, theirs = a.scores(settings.metric), b.scores(settings.metric)
    interval = difference_interval(
        ours, theirs, confidence=settings.confidence, resamples=settings.resamples, seed=settings.seed
    )
    verdicts = Counter(zip(a.correct, b.correct, strict=True))
    return Comparison(
        a=a.group.name,
        b=b.group.name,
        difference=metrics.mean(ours) - metrics.mean(theirs),
        ci_low=interval.low,
        ci_high=interval.high,
        ci_method=interval.method,
        p=mcnemar(a.correct, b.correct),
        a_only=verdicts[True, False],
        b_only=verdicts[False, True],
        best_baseline=best,
    )


def no_effect_notes(panel_ids: Sequence[str], groups: Sequence[Group]) -> list[str]:
    """A note for every fine-tuned group that answered exactly as its base did with the same method.

    An adapter that was silently not applied shows itself this way.
    """
    aligned = align(panel_ids, groups)
    return [
        note
        for a in aligned
        for b in aligned
        if (a.group.kind, b.group.kind) == ("fine-tuned", "prompted")
        and a.group.method == b.group.method
        and _is_baseline(a.group, b.group)
        and (note := _no_effect(a, b))
    ]


def _no_effect(a: Aligned, b: Aligned) -> str:
    both = [(x, y) for x, y in zip(a.episodes, b.episodes, strict=True) if x and y]
    both = [(x, y) for x, y in both if not (metrics.is_errored(x) or metrics.is_errored(y))]
    if not both or any(x.answer != y.answer for x, y in both):
        return ""
    same_text = all(_written(x) == _written(y) for x, y in both)
    how = "wrote the same text, letter for letter," if same_text else "gave the same answer"
    return (
        f"No effect: {a.group.name} {how} as {b.group.name} on all {len(both)} tasks that both played; "
        "check that the fine-tuned weights or the adapter were really loaded."
    )


def _written(trajectory: Trajectory) -> Iterable[str]:
    return [step.completion or step.action for step in trajectory.steps]
