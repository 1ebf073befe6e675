"""The report of an evaluation: report.json for programs, report.md and a picture for people.

The report holds nothing that changes from one writing to the next (no date, no path), so the same
trajectories give the same bytes. Errors are shown apart from wrong answers everywhere.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import Field, ValidationError

from pipeline.errors import StoreError
from pipeline.evaluation.metrics import MISSING, Metric
from pipeline.evaluation.plots import METRIC_NAMES, draw_bars
from pipeline.evaluation.rows import (
    Comparison,
    Group,
    Row,
    Settings,
    build_comparisons,
    build_rows,
    no_effect_notes,
)
from pipeline.trajectories.schema import Outcome, Record

if TYPE_CHECKING:
    from rich.console import RenderableType

JSON_NAME = "report.json"
MARKDOWN_NAME = "report.md"
PICTURE_NAME = "report.png"

_TEMPLATES = Path(__file__).parent / "templates"
_MARKUP = re.compile(r"[\\`*\[\]<>&#~|!$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_SHOWN = 200
"""Characters of a foreign text that the readable report shows."""


class PanelLike(Protocol):
    """What a report needs of a panel: its split, its task ids in order, and their digest."""

    @property
    def split(self) -> str: ...
    @property
    def ids(self) -> Sequence[str]: ...
    @property
    def digest(self) -> str: ...


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
    panel: PanelLike,
    groups: Sequence[Group],
    *,
    metric: Metric = "em",
    resamples: int = 9999,
    confidence: float = 0.95,
    seed: int = 0,
) -> Report:
    """Compute a report without writing anything.

    Raises:
        RecipeError: the panel is empty or repeats a task, or two groups have the same name.
        StoreError: a group has two episodes of a task or one outside the panel, or a finished
            episode lacks the metric.
    """
    settings = Settings(metric, confidence, resamples, seed)
    ids = list(panel.ids)
    return Report(
        recipe=recipe_name,
        metric=metric,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        panel=PanelSummary(split=panel.split, size=len(ids), digest=panel.digest),
        rows=build_rows(ids, groups, settings),
        comparisons=build_comparisons(ids, groups, settings),
        notes=no_effect_notes(ids, groups),
        versions=_versions(groups),
    )


def write_report(
    folder: Path,
    recipe_name: str,
    panel: PanelLike,
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
        RecipeError, StoreError: as ``build_report`` does, or the folder cannot be written.
    """
    report = build_report(
        recipe_name, panel, groups, metric=metric, resamples=resamples, confidence=confidence, seed=seed
    )
    picture = draw_bars(report.rows, metric=metric, confidence=confidence, split=report.panel.split)
    data = json.dumps(report.model_dump(mode="json"), ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _replace(folder / PICTURE_NAME, picture)
        _replace(folder / MARKDOWN_NAME, _encode(markdown(report)))
        _replace(folder / JSON_NAME, _encode(data))
    except OSError as error:
        raise StoreError(f"the report cannot be written into {str(folder)!r}: {error.strerror}") from error
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


def markdown(report: Report) -> str:
    """The readable report. Foreign text is escaped: it cannot become markup."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=False,  # noqa: S701 - the text is Markdown; `finalize` escapes every value for it
        finalize=_escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(share=_share, verdict=verdict, p_value=_p_value, signed=_signed)
    return environment.get_template("report.md.j2").render(**_view(report))


def terminal_table(report: Report) -> RenderableType:
    """The table shown at the end of a run, for ``rich.console.Console.print``."""
    from rich.table import Table
    from rich.text import Text

    title = (
        f"{report.recipe}: {METRIC_NAMES[report.metric]} on {report.panel.size} {report.panel.split} tasks"
    )
    table = Table(title=Text(title), title_justify="left", caption_justify="left")
    comparisons = [_in_words(comparison, report.confidence) for comparison in report.comparisons]
    table.caption = Text(
        "\n".join(_clean(line) for line in [*map(_in_words, report.comparisons), *report.notes])
    )
    for heading in ("method", "model", "kind"):
        table.add_column(heading, overflow="fold")
    for heading in (
        report.metric.upper(),
        f"{report.confidence:.0%} interval",
        "correct",
        "errored",
        "steps",
    ):
        table.add_column(heading, justify="right")
    table.add_column("tokens", justify="right")
    table.add_column("seconds", justify="right")
    for row in report.rows:
        cells = [
            *(_clean(row.method), _clean(row.model), row.kind),
            *(_share(row.value(report.metric)), f"{row.ci_low:.2f}–{row.ci_high:.2f}"),
            *(f"{row.correct}/{row.n}", str(row.errored), f"{row.steps:.1f}"),
            *(f"{row.prompt_tokens + row.completion_tokens:.0f}", f"{row.seconds:.1f}"),
        ]
        table.add_row(*map(Text, cells), style="bold" if row.kind == "fine-tuned" else None)
    return table


def verdict(comparison: Comparison, confidence: float) -> str:
    """What a comparison shows, in words: its interval decides, and the test may object."""
    if comparison.ci_low <= 0.0 <= comparison.ci_high:
        return "no clear difference"
    direction = "better" if comparison.difference > 0 else "worse"
    agreed = comparison.p < 1.0 - confidence
    return direction if agreed else f"{direction} by the interval, not by the test"


def _in_words(comparison: Comparison, confidence: float) -> str:
    return (
        f"{comparison.a} against {comparison.b}: {_signed(comparison.difference)} "
        f"({_signed(comparison.ci_low)} to {_signed(comparison.ci_high)}), "
        f"p {_p_value(comparison.p)}: {verdict(comparison, confidence)}"
    )


def _view(report: Report) -> dict[str, Any]:
    """What the template is given: the report and the columns that it really has."""
    outcomes = [o.value for o in Outcome] + [MISSING]
    first = report.rows[0]
    return {
        "report": report,
        "metric_name": METRIC_NAMES[report.metric],
        "picture": PICTURE_NAME,
        "extra_metrics": [name for name in first.metrics if name != report.metric],
        "outcomes": [o for o in outcomes if any(o in row.outcomes for row in report.rows)],
        "kinds": list(first.by_kind),
        "labelled": [row for row in report.rows if row.labels],
        "best_tuned": next((row for row in report.rows if row.kind == "fine-tuned"), None),
        "best_prompted": next((row for row in report.rows if row.kind == "prompted"), None),
        "total_cost": sum(row.cost for row in report.rows),
    }


def _versions(groups: Sequence[Group]) -> dict[str, str]:
    """Every version that the episodes name; several of one thing are all listed."""
    found: dict[str, set[str]] = {}
    for group in groups:
        for trajectory in group.trajectories:
            for name, version in trajectory.versions.items():
                found.setdefault(name, set()).add(version)
    return {name: ", ".join(sorted(found[name])) for name in sorted(found)}


def _clean(text: str) -> str:
    """One printable line of bounded length: control characters and line separators become spaces."""
    line = "".join(c if c.isprintable() else " " for c in text[: _SHOWN + 1])
    return line[:_SHOWN] + "…" if len(line) > _SHOWN else line


def _escape(value: object) -> object:
    return _MARKUP.sub(r"\\\g<0>", _clean(value)) if isinstance(value, str) else value


def _share(value: float) -> str:
    return f"{value:.2f}"


def _signed(value: float) -> str:
    return f"{value:+.2f}"


def _p_value(p: float) -> str:
    return f"= {p:.3f}" if p >= 0.001 else "below 0.001"


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _replace(path: Path, data: bytes) -> None:
    """Write beside the file and rename, so that a reader sees the old file or the new one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
