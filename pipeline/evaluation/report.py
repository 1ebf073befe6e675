"""The report of an evaluation: report.json for programs, report.md and pictures for people.

The report holds nothing that changes from one writing to the next (no date, no path), so the same
trajectories give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import Field, ValidationError

from pipeline.environments.kinds import KindGroup
from pipeline.errors import StoreError
from pipeline.evaluation.comparisons import Comparison, build_comparisons, no_effect_notes
from pipeline.evaluation.curves import size_points
from pipeline.evaluation.failures import FailureTable, failure_table
from pipeline.evaluation.figures import plot_groups, plot_sizes, plot_votes
from pipeline.evaluation.kinds import KindTable, kind_table
from pipeline.evaluation.metrics import Metric
from pipeline.evaluation.plots import draw_bars
from pipeline.evaluation.presentation import (
    GROUPS_NAME,
    PICTURE_NAME,
    SIZES_NAME,
    markdown,
    terminal_table,
    vote_pictures,
)
from pipeline.evaluation.rows import Group, Row, Settings, build_rows
from pipeline.evaluation.votes import VotePoint
from pipeline.trajectories.files import write_bytes, write_json, write_text
from pipeline.trajectories.panels import Panel
from pipeline.trajectories.schema import Record

__all__ = ["PanelSummary", "Report", "build_report", "load_report", "terminal_table", "write_report"]

JSON_NAME = "report.json"
MARKDOWN_NAME = "report.md"


class PanelSummary(Record):
    """Which tasks the numbers are about."""

    split: str
    size: int
    digest: str


class Report(Record):
    """All that an evaluation found.

    ``rows`` come best first. ``votes`` holds, for every CoT-SC row, the score of smaller votes from the
    same samples. ``failures`` counts the automatic signs of what went wrong. ``kinds`` is there where the
    environment says which group a kind of task is in.
    """

    recipe: str
    metric: Metric
    confidence: float
    resamples: int
    seed: int
    panel: PanelSummary
    rows: list[Row]
    comparisons: list[Comparison]
    votes: dict[str, list[VotePoint]] = Field(default_factory=dict)
    failures: FailureTable = Field(default_factory=lambda: FailureTable(groups=[]))
    kinds: KindTable | None = None
    notes: list[str] = Field(default_factory=list)
    versions: dict[str, str] = Field(default_factory=dict)


def build_report(
    recipe_name: str,
    panel: Panel,
    groups: Sequence[Group],
    settings: Settings | None = None,
    votes: Mapping[str, list[VotePoint]] | None = None,
    kinds: Mapping[str, KindGroup] | None = None,
) -> Report:
    """Compute a report without writing anything.

    Args:
        recipe_name: what was evaluated.
        panel: the tasks, which are the denominator.
        groups: the episodes of every entry.
        settings: the metric and how intervals are computed.
        votes: curves of votes by the name of their group, as ``curves.vote_curves`` gives them.
        kinds: the environment's ``kind_groups``, where it has them.

    Raises:
        RecipeError: there are no tasks or no groups, or two groups have the same name.
        StoreError: the panel repeats a task; a group has two episodes of a task, or one of a task
            that is not the panel's; or a finished episode lacks the metric.
    """
    settings = settings or Settings()
    rows = build_rows(panel, groups, settings)
    order = [row.name for row in rows]
    ranked = sorted(groups, key=lambda group: order.index(group.name))
    return Report(
        recipe=recipe_name,
        metric=settings.metric,
        confidence=settings.confidence,
        resamples=settings.resamples,
        seed=settings.seed,
        panel=PanelSummary(split=panel.split, size=len(panel), digest=panel.digest),
        rows=rows,
        comparisons=build_comparisons(panel, groups, settings),
        votes=dict(votes or {}),
        failures=failure_table(ranked),
        kinds=kind_table(panel, ranked, kinds, settings) if kinds else None,
        notes=no_effect_notes(panel, groups),
        versions=_versions(groups),
    )


def write_report(folder: Path, report: Report) -> None:
    """Write the pictures, report.md and report.json into ``folder``.

    Each file is replaced whole; report.json comes last, so that where it is new all are.

    Raises:
        StoreError: the folder cannot be written.
    """
    for name, picture in pictures(report):
        write_bytes(folder / name, [picture])
    write_text(folder / MARKDOWN_NAME, markdown(report))
    without = {"kinds"} if report.kinds is None else None
    write_json(folder / JSON_NAME, report.model_dump(mode="json", exclude=without))


def pictures(report: Report) -> Iterator[tuple[str, bytes]]:
    """The pictures of a report, each with the name of its file."""
    metric, confidence = report.metric, report.confidence
    yield (
        PICTURE_NAME,
        draw_bars(report.rows, metric=metric, confidence=confidence, split=report.panel.split),
    )
    for name, (group, points) in zip(vote_pictures(report), report.votes.items(), strict=True):
        model = next(row.model for row in report.rows if row.name == group)
        others = {
            row.method: row.value(metric) for row in report.rows if row.model == model and row.name != group
        }
        yield name, plot_votes(points, others, metric=metric, confidence=confidence)
    if report.kinds:
        yield GROUPS_NAME, plot_groups(report.kinds, metric=metric, confidence=confidence)
    if sizes := size_points(report.rows, metric):
        yield SIZES_NAME, plot_sizes(sizes, metric=metric, confidence=confidence)


def load_report(folder: Path) -> Report:
    """Read a report back.

    Raises:
        StoreError: there is none, or it is damaged.
    """
    path = folder / JSON_NAME
    try:
        return Report.model_validate_json(path.read_bytes())
    except OSError as error:
        raise StoreError(f"there is no report at {str(path)!r}: {error.strerror}; evaluate first") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise StoreError(
            f"{str(path)!r} is not a report: {where}: {first['msg']}; write it again with `staract report`"
        ) from error


def _versions(groups: Sequence[Group]) -> dict[str, str]:
    """Every version that the episodes name; several of one thing are all listed."""
    found: dict[str, set[str]] = {}
    for group in groups:
        for trajectory in group.trajectories:
            for name, version in trajectory.versions.items():
                found.setdefault(name, set()).add(version)
    return {name: ", ".join(sorted(found[name])) for name in sorted(found)}
