"""The table of kinds as people read it: points of 100, as the papers print them."""

from __future__ import annotations

from typing import Final

from pipeline.evaluation.kinds import POINTS, EntryKinds, GroupMean, KindTable
from pipeline.evaluation.tables import Sheet

NOTE: Final = (
    "Points of 100. A group's mean is the mean over its kinds of the mean over their episodes; in brackets "
    "its interval, which resamples episodes within their kind."
)
PUBLISHED: Final = "overall, as published"
"""The row of the mean over kinds in which a fall below zero counts as one."""


def kind_sheets(table: KindTable) -> list[Sheet]:
    """Every kind, the means of groups, and what acting cost."""
    return [_kinds(table), _groups(table), _costs(table)]


def _kinds(table: KindTable) -> Sheet:
    return Sheet(
        "Score by kind of task",
        ("kind", "group", "steps", "n", *(entry.entry for entry in table.entries)),
        [
            (
                *(line.kind, line.group, f"{line.length:g}", str(line.n)),
                *(points(entry.kinds[line.kind]) for entry in table.entries),
            )
            for line in table.lines
        ],
        "Points of 100: the mean over a kind's episodes. Steps are the published oracle's.",
    )


def _groups(table: KindTable) -> Sheet:
    first = table.entries[0].groups
    rows = [
        (
            *(mean.group, str(mean.kinds), str(mean.n)),
            *(_with_interval(entry.groups[place]) for entry in table.entries),
        )
        for place, mean in enumerate(first)
    ]
    if overall := [mean for entry in table.entries if (mean := _published(entry))]:
        whole = first[-1]
        found = tuple(points(mean.published or 0.0) for mean in overall)
        rows.append((PUBLISHED, str(whole.kinds), str(whole.n), *found))
    names = (entry.entry for entry in table.entries)
    return Sheet("Score by group of kinds", ("group", "kinds", "n", *names), rows, NOTE, words=1)


def _published(entry: EntryKinds) -> GroupMean | None:
    """The mean over all kinds, where the benchmark's own counting is known."""
    overall = entry.groups[-2]
    return overall if overall.published is not None else None


def _costs(table: KindTable) -> Sheet:
    return Sheet(
        "What acting cost",
        ("entry", "actions", "tokens an action", "seconds an action", "cost a point"),
        [
            (entry.entry, str(entry.actions), f"{entry.tokens:.1f}", f"{entry.seconds:.2f}", _cost(entry))
            for entry in table.entries
        ],
        "Tokens of prompts and completions. Seconds ran while other episodes ran beside.",
        words=1,
    )


def points(value: float) -> str:
    """A score from 0 to 1 as points of 100."""
    return f"{POINTS * value:.2f}"


def _with_interval(mean: GroupMean) -> str:
    return f"{points(mean.mean)} ({POINTS * mean.ci_low:.1f}–{POINTS * mean.ci_high:.1f})"


def _cost(entry: EntryKinds) -> str:
    return f"{entry.cost:.6f}" if entry.cost else "–"
