"""A report as people read it: Markdown for the folder, a table for the terminal.

Errors are shown apart from wrong answers everywhere. Foreign text (names of models, kinds, versions)
is data: it can break neither a table nor the terminal. jinja2 and rich are imported when needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.evaluation.comparisons import Comparison
from pipeline.evaluation.curves import size_points
from pipeline.evaluation.failures import failure_markdown
from pipeline.evaluation.kind_sheets import kind_sheets
from pipeline.evaluation.metrics import MISSING
from pipeline.evaluation.plots import METRIC_NAMES
from pipeline.evaluation.rows import Row
from pipeline.evaluation.tables import escaped, one_line, to_markdown, to_terminal
from pipeline.trajectories.schema import Outcome

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pipeline.evaluation.report import Report

PICTURE_NAME = "report.png"
SIZES_NAME = "sizes.png"
GROUPS_NAME = "groups.png"

_TEMPLATES = Path(__file__).parent / "templates"


def markdown(report: Report) -> str:
    """The readable report. Foreign text is escaped: it cannot become markup."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=False,  # noqa: S701 - the text is Markdown; `finalize` escapes every value for it
        finalize=lambda value: escaped(value) if isinstance(value, str) else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {"share": _share, "verdict": verdict, "p_value": _p_value, "signed": _signed}
    environment.filters.update(filters)
    text = environment.get_template("report.md.j2").render(**_view(report)).rstrip()
    if report.kinds:
        text = f"{text}\n\n{to_markdown(kind_sheets(report.kinds)).rstrip()}"
    return f"{text}\n\n{failure_markdown(report.failures)}"


def vote_pictures(report: Report) -> list[str]:
    """The names of the pictures of ``report.votes``, in its order."""
    return [
        "votes.png" if number == 1 else f"votes-{number}.png" for number in range(1, len(report.votes) + 1)
    ]


def terminal_table(report: Report) -> RenderableType:
    """The tables shown at the end of a run, for ``rich.console.Console.print``."""
    from rich.console import Group

    rows = _terminal_rows(report)
    return Group(rows, to_terminal(kind_sheets(report.kinds))) if report.kinds else rows


def _terminal_rows(report: Report) -> RenderableType:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    title = (
        f"{report.recipe}: {METRIC_NAMES[report.metric]} on {report.panel.size} {report.panel.split} tasks"
    )
    # Sober enough to fit 80 columns: a log or a pipe is no wider.
    table = Table(
        title=Text(title), title_justify="left", caption_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    words = [_in_words(comparison, report.confidence) for comparison in report.comparisons]
    table.caption = Text("\n".join([*words, *map(one_line, report.notes)]))
    for heading in ("method", "model"):
        table.add_column(heading, overflow="fold")
    metric, interval = report.metric.upper(), f"{report.confidence:.0%} interval"
    rows = [_terminal_cells(report, row) for row in report.rows]
    for place, heading in enumerate(
        (metric, interval, "correct", "errored", "steps", "tokens", "seconds"), 2
    ):
        # Names may be folded, numbers may not.
        width = max((len(cells[place]) for cells in rows), default=0)
        table.add_column(heading, justify="right", min_width=width)
    for row, cells in zip(report.rows, rows, strict=True):
        table.add_row(*map(Text, cells), style="bold" if row.kind == "fine-tuned" else None)
    return table


def _terminal_cells(report: Report, row: Row) -> list[str]:
    return [
        *(one_line(row.method), one_line(row.model)),
        *(_share(row.value(report.metric)), f"{row.ci_low:.2f}–{row.ci_high:.2f}"),
        *(f"{row.correct}/{row.n}", str(row.errored), f"{row.steps:.1f}"),
        *(f"{row.prompt_tokens + row.completion_tokens:.0f}", f"{row.seconds:.1f}"),
    ]


def verdict(comparison: Comparison, confidence: float) -> str:
    """What a comparison shows, in words: its interval decides, and the test may object."""
    if comparison.ci_low <= 0.0 <= comparison.ci_high:
        return "no clear difference"
    direction = "better" if comparison.difference > 0 else "worse"
    agreed = comparison.p < 1.0 - confidence
    return direction if agreed else f"{direction} by the interval, not by the test"


def _in_words(comparison: Comparison, confidence: float) -> str:
    return (
        f"{one_line(comparison.a)} against {one_line(comparison.b)}: {_signed(comparison.difference)} "
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
        "votes": list(zip(vote_pictures(report), report.votes, strict=True)),
        "sizes": SIZES_NAME if size_points(report.rows, report.metric) else "",
        "groups": GROUPS_NAME if report.kinds else "",
        "extra_metrics": [name for name in first.metrics if name != report.metric],
        "outcomes": [o for o in outcomes if any(o in row.outcomes for row in report.rows)],
        "kinds": list(first.by_kind),
        "labelled": [row for row in report.rows if row.labels],
        "best_tuned": next((row for row in report.rows if row.kind == "fine-tuned"), None),
        "best_prompted": next((row for row in report.rows if row.kind == "prompted"), None),
        "total_cost": sum(row.cost for row in report.rows),
    }


def _share(value: float) -> str:
    return f"{value:.2f}"


def _signed(value: float) -> str:
    return f"{value:+.2f}"


def _p_value(p: float) -> str:
    return f"= {p:.3f}" if p >= 0.001 else "below 0.001"
