"""The report of an evaluation: report.json for programs, report.md and a picture for people.

The report holds nothing that changes from one writing to the next (no date, no path), so the same
trajectories give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field, ValidationError

from pipeline.errors import StoreError
from pipeline.evaluation.comparisons import Comparison, build_comparisons, no_effect_notes
from pipeline.evaluation.metrics import Metric
from pipeline.evaluation.plots import draw_bars
from pipeline.evaluation.presentation import PICTURE_NAME, markdown, terminal_table
from pipeline.evaluation.rows import Group, Row, Settings, build_rows
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
    """All that an evaluation found. ``rows`` come best first."""

    recipe: str
    metric: Metric
    confidence: float
    resamples: int
    seed: int
    panel: PanelSummary
    rows: list[Row]
    comparisons: list[Comparison]
    notes: list[str] = Field(default_factory=list)
    versions: dict[str, str] = Field(default_factory=dict)


def build_report(
    recipe_name: str,
    panel: Panel,
    groups: Sequence[Group],
    *,
    metric: Metric = "em",
    resamples: int = 9999,
    confidence: float = 0.95,
    seed: int = 0,
) -> Report:
    """Compute a report without writing anything.

    Raises:
        RecipeError: there are no tasks or no groups, or two groups have the same name.
        StoreError: the panel repeats a task; a group has two episodes of a task, or one of a task
            that is not the panel's; or a finished episode lacks the metric.
    """
    settings = Settings(metric, confidence, resamples, seed)
    return Report(
        recipe=recipe_name,
        metric=metric,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        panel=PanelSummary(split=panel.split, size=len(panel), digest=panel.digest),
        rows=build_rows(panel, groups, settings),
        comparisons=build_comparisons(panel, groups, settings),
        notes=no_effect_notes(panel, groups),
        versions=_versions(groups),
    )


def write_report(
    folder: Path,
    recipe_name: str,
    panel: Panel,
    groups: Sequence[Group],
    *,
    metric: Metric = "em",
    resamples: int = 9999,
    confidence: float = 0.95,
    seed: int = 0,
) -> Report:
    """Compute a report and write report.png, report.md and report.json into ``folder``.

    Each file is replaced whole; report.json comes last, so that where it is new all are.

    Raises:
        RecipeError: as ``build_report`` does.
        StoreError: as ``build_report`` does, or the folder cannot be written.
    """
    report = build_report(
        recipe_name, panel, groups, metric=metric, resamples=resamples, confidence=confidence, seed=seed
    )
    picture = draw_bars(report.rows, metric=metric, confidence=confidence, split=report.panel.split)
    write_bytes(folder / PICTURE_NAME, [picture])
    write_text(folder / MARKDOWN_NAME, markdown(report))
    write_json(folder / JSON_NAME, report.model_dump(mode="json"))
    return report


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
