"""Scores by kind of task and by groups of kinds, for environments that say which group a kind is in.

As the SwiftSage paper counts (Lin et al. 2023, table 1): the mean of a group is the mean over its kinds
of the mean over their episodes, so that every kind weighs the same. The panel is the denominator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from pipeline.environments.kinds import KindGroup
from pipeline.evaluation import metrics
from pipeline.evaluation.rows import Aligned, Group, Settings, align, panel_tasks
from pipeline.evaluation.statistics import Interval, mean_interval, stratified_interval
from pipeline.trajectories.panels import Panel
from pipeline.trajectories.schema import Record

OVERALL: Final = "overall"
"""The mean over all kinds."""
EPISODES: Final = "every episode"
"""The plain mean over episodes."""
POINTS: Final = 100
"""Points of a whole score, as tables of points show it."""


class KindLine(Record):
    """A kind of the panel: its name, its group, the published oracle's steps, its tasks in the panel."""

    kind: str
    name: str
    group: str
    length: float
    n: int


class GroupMean(Record):
    """A mean of one entry with its interval; ``published`` is the same mean as the benchmark counts it."""

    group: str
    kinds: int
    n: int
    mean: float
    ci_low: float
    ci_high: float
    ci_method: str
    published: float | None = None


class EntryKinds(Record):
    """One entry of the evaluation: means by kind, means of groups, and what acting cost it.

    Tokens (prompt and completion) and seconds are an action's, over all episodes; ``cost`` is a point's,
    None where no points were made.
    """

    entry: str
    kinds: dict[str, float]
    correct: dict[str, int]
    groups: list[GroupMean]
    actions: int
    tokens: float
    seconds: float
    cost: float | None


class KindTable(Record):
    """Every entry by kind of task. ``lines`` are the rows, in the order that the environment gives."""

    lines: list[KindLine]
    entries: list[EntryKinds]


def kind_table(
    panel: Panel, groups: Sequence[Group], known: Mapping[str, KindGroup], settings: Settings
) -> KindTable | None:
    """The table of an evaluation; None where the panel holds a task of a kind that is not known.

    Raises:
        RecipeError: as ``align`` does.
        StoreError: as ``align`` does, or a finished episode lacks the metric.
    """
    kinds = [task.kind if task else "" for task in panel_tasks(panel, groups)]
    if not set(kinds) <= set(known):
        return None
    lines = [
        KindLine(kind=kind, n=kinds.count(kind), **asdict(about))
        for kind, about in known.items()
        if kind in kinds
    ]
    published = settings.metric == metrics.SCORE and metrics.PUBLISHED_SCORE in metrics.carried_metrics(
        trajectory for group in groups for trajectory in group.trajectories
    )
    entries = [_entry(one, kinds, lines, settings, published) for one in align(panel, groups)]
    return KindTable(lines=lines, entries=entries)


def _entry(
    one: Aligned, kinds: Sequence[str], lines: Sequence[KindLine], settings: Settings, published: bool
) -> EntryKinds:
    scores = _by_kind(kinds, one.scores(settings.metric))
    others = _by_kind(kinds, one.scores(metrics.PUBLISHED_SCORE)) if published else None
    verdicts = _by_kind(kinds, one.correct)
    return EntryKinds(
        entry=one.group.name,
        kinds={line.kind: metrics.mean(scores[line.kind]) for line in lines},
        correct={line.kind: int(sum(verdicts[line.kind])) for line in lines},
        groups=_groups(scores, others, lines, settings),
        **_efficiency(one, sum(map(sum, scores.values()))),
    )


def _by_kind(kinds: Sequence[str], scores: Sequence[float]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for kind, score in zip(kinds, scores, strict=True):
        found.setdefault(kind, []).append(float(score))
    return found


def _groups(
    scores: Mapping[str, list[float]],
    published: Mapping[str, list[float]] | None,
    lines: Sequence[KindLine],
    settings: Settings,
) -> list[GroupMean]:
    how: dict[str, Any] = {
        "confidence": settings.confidence,
        "resamples": settings.resamples,
        "seed": settings.seed,
    }
    members = {line.group: [other.kind for other in lines if other.group == line.group] for line in lines}
    order = sorted(members, key=lambda group: min(line.length for line in lines if line.group == group))
    made: list[GroupMean] = []
    for group, chosen in [*((name, members[name]) for name in order), (OVERALL, list(scores))]:
        strata = [scores[kind] for kind in chosen]
        other = [metrics.mean(published[kind]) for kind in chosen] if published else None
        mean = metrics.mean([metrics.mean(stratum) for stratum in strata])
        made.append(_mean(group, strata, mean, stratified_interval(strata, **how), other))
    everything = [value for stratum in scores.values() for value in stratum]
    other = [value for stratum in published.values() for value in stratum] if published else None
    interval = mean_interval(everything, **how)
    return [*made, _mean(EPISODES, list(scores.values()), metrics.mean(everything), interval, other)]


def _mean(
    group: str, strata: Sequence[Sequence[float]], mean: float, interval: Interval, other: list[float] | None
) -> GroupMean:
    return GroupMean(
        group=group,
        kinds=len(strata),
        n=sum(map(len, strata)),
        mean=mean,
        ci_low=interval.low,
        ci_high=interval.high,
        ci_method=interval.method,
        published=metrics.mean(other) if other else None,
    )


def _efficiency(one: Aligned, total: float) -> dict[str, Any]:
    played = [trajectory for trajectory in one.episodes if trajectory is not None]
    actions = sum(len(trajectory.steps) for trajectory in played)
    tokens = sum(trajectory.usage.prompt_tokens + trajectory.usage.completion_tokens for trajectory in played)
    return {
        "actions": actions,
        "tokens": tokens / actions if actions else 0.0,
        "seconds": sum(trajectory.seconds for trajectory in played) / actions if actions else 0.0,
        "cost": sum(trajectory.usage.cost for trajectory in played) / (POINTS * total) if total else None,
    }
