"""Paired comparisons between the rows of a report, and the note that a fine-tuning had no effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pipeline.evaluation import metrics
from pipeline.evaluation.rows import Aligned, Group, Settings, align
from pipeline.evaluation.statistics import difference_interval, mcnemar
from pipeline.trajectories.panels import Panel
from pipeline.trajectories.schema import Record, Trajectory


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


def build_comparisons(panel: Panel, groups: Sequence[Group], settings: Settings) -> list[Comparison]:
    """Every paired comparison worth reading.

    Each fine-tuned row against the best prompted row and against every prompted row of the model it
    started from; then the best fine-tuned row against the other fine-tuned ones. Where nothing is
    fine-tuned: the best prompted row against the others. Scripted rows are compared with nothing.
    """
    ranked = sorted(
        align(panel, groups),
        key=lambda one: (-metrics.mean(one.scores(settings.metric)), one.group.name),
    )
    tuned = [one for one in ranked if one.group.kind == "fine-tuned"]
    prompted = [one for one in ranked if one.group.kind == "prompted"]
    pairs = [(a, b) for a in tuned for b in prompted if b is prompted[0] or _is_baseline(a.group, b.group)]
    comparisons = [_compare(a, b, settings, best=b is prompted[0]) for a, b in pairs]
    rivals = tuned or prompted
    return comparisons + [_compare(rivals[0], other, settings) for other in rivals[1:]]


def _is_baseline(tuned: Group, prompted: Group) -> bool:
    # An untrained model has its student's base. A checkpoint named by its folder has none: all count.
    return tuned.base in ("", prompted.model, prompted.base)


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


def no_effect_notes(panel: Panel, groups: Sequence[Group]) -> list[str]:
    """A note for every fine-tuned group that answered exactly as its base did with the same method.

    An adapter that was silently not applied shows itself this way.
    """
    aligned = align(panel, groups)
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
    if not same_text and all(x.answer is None for x, _ in both):
        # Where nothing is answered, equal answers say nothing.
        return ""
    how = "wrote the same text, letter for letter," if same_text else "gave the same answer"
    return (
        f"No effect: {a.group.name} {how} as {b.group.name} on all {len(both)} tasks that both played; "
        "check that the fine-tuned weights or the adapter were really loaded."
    )


def _written(trajectory: Trajectory) -> list[str]:
    return [step.completion or step.action for step in trajectory.steps]
