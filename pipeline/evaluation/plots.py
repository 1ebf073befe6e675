"""The picture of a report: one bar a row, with its confidence interval.

Bars differ in colour and in hatch, so that the picture also reads in black and white.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipeline.evaluation.canvas import new_figure, no_formulas, open_frame, to_image, whiskers
from pipeline.evaluation.metrics import Metric
from pipeline.evaluation.rows import Row, RowKind
from pipeline.trajectories.text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRIC_NAMES: dict[Metric, str] = {
    "em": "exact match",
    "f1": "F1",
    "accuracy": "accuracy",
    "score": "score",
}
MAX_BARS = 40
"""A picture of more bars could not be read; the best are drawn."""

_STYLES: dict[RowKind, tuple[str, str]] = {
    "fine-tuned": ("#0072B2", ""),
    "prompted": ("#E69F00", "///"),
    "scripted": ("#999999", "..."),
}
_LABEL_WIDTH = 26
_LABEL_LINES = 3


def draw_bars(
    rows: Sequence[Row], *, metric: Metric, confidence: float, split: str, image_format: str = "png"
) -> bytes:
    """A bar chart of ``rows``, in their order from the top, as the bytes of an image.

    Args:
        rows: At least one row.
        metric: What the bars measure.
        confidence: Of the whiskers, between 0 and 1.
        split: The panel's split, for the title.
        image_format: ``png`` (150 dots an inch) or ``svg``.
    """
    shown = list(rows[:MAX_BARS])
    figure = new_figure(8.0, 1.5 + 0.55 * len(shown))
    axes = figure.subplots()
    _bars(axes, shown, metric)
    _labels(axes, shown, f"{METRIC_NAMES[metric]} with its {confidence:.0%} interval")
    figure.suptitle(f"{METRIC_NAMES[metric].capitalize()} on {rows[0].n} {split} tasks", fontsize=13)
    return to_image(figure, image_format)


def _bars(axes: Axes, rows: Sequence[Row], metric: Metric) -> None:
    seen: set[RowKind] = set()
    for place, row in enumerate(rows):
        value = row.value(metric)
        colour, hatch = _STYLES[row.kind]
        options: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": "white", "height": 0.7}
        axes.barh(place, value, label=None if row.kind in seen else row.kind, **options)
        seen.add(row.kind)
        reach = whiskers([value], [row.ci_low], [row.ci_high])
        axes.errorbar(value, place, xerr=reach, color="black", capsize=4, linewidth=1.3)
        axes.text(max(row.ci_high, value) + 0.015, place, f"{value:.2f}", va="center", fontsize=11)
    handles, labels = axes.get_legend_handles_labels()
    axes.figure.legend(handles, labels, loc="outside lower right", ncols=3, frameon=False)


def _labels(axes: Axes, rows: Sequence[Row], caption: str) -> None:
    axes.set_yticks(range(len(rows)), [label(row.name) for row in rows], fontsize=10)
    no_formulas(axes.get_yticklabels())
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.1)
    axes.set_xticks([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    axes.set_xlabel(caption)
    open_frame(axes, "x")


def label(name: str) -> str:
    """A row's name folded into at most three short lines of printable characters."""
    return "\n".join(textwrap.wrap(printable(name), _LABEL_WIDTH, max_lines=_LABEL_LINES, placeholder=" …"))
