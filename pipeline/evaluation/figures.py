"""The ReAct paper's figures of curves: accuracy against votes (2) and model sizes (3); and groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pipeline.evaluation.canvas import (
    COLOURS,
    bar_style,
    legend_beside,
    line_style,
    new_figure,
    no_formulas,
    open_frame,
    to_image,
    whiskers,
    whole_ticks,
)
from pipeline.evaluation.kinds import KindTable
from pipeline.evaluation.metrics import Metric
from pipeline.evaluation.plots import METRIC_NAMES, label
from pipeline.evaluation.rows import RowKind
from pipeline.evaluation.votes import VotePoint
from pipeline.trajectories.schema import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS: Final[tuple[RowKind, ...]] = ("prompted", "fine-tuned")


class SizePoint(Record):
    """One method with a model of one size. ``parameters`` places it on the axis, ``size`` names it."""

    method: str
    kind: RowKind
    size: str
    parameters: float
    value: float
    ci_low: float
    ci_high: float


def plot_votes(
    points: Sequence[VotePoint],
    others: Mapping[str, float],
    *,
    metric: Metric,
    confidence: float = 0.95,
    image_format: str = "png",
) -> bytes:
    """Accuracy against the number of samples in the vote, as the bytes of an image.

    Args:
        points: as ``vote_curve`` gives them; at least one.
        others: other methods' scores by name, drawn as level lines.
        metric: what is measured.
        confidence: of the band around the curve.
        image_format: ``png`` (150 dots an inch) or ``svg``.
    """
    figure = new_figure(8.0, 5.0)
    axes = figure.subplots()
    samples = [point.samples for point in points]
    lows, highs = [point.ci_low for point in points], [point.ci_high for point in points]
    axes.fill_between(samples, lows, highs, color=COLOURS[0], alpha=0.15, linewidth=0)
    name = f"vote, with its {confidence:.0%} interval"
    axes.plot(samples, [point.mean for point in points], label=name, **line_style(0))
    for place, (method, value) in enumerate(others.items(), start=1):
        style = {key: kept for key, kept in line_style(place).items() if not key.startswith("marker")}
        axes.axhline(value, label=label(method), **style)
    axes.set_xlabel("samples in the vote")
    _finish(axes, METRIC_NAMES[metric], max([*highs, *others.values()]))
    whole_ticks(axes, samples)
    figure.suptitle(f"{METRIC_NAMES[metric].capitalize()} on {points[0].episodes} tasks", fontsize=13)
    legend_beside(figure, axes)
    return to_image(figure, image_format)


def plot_sizes(
    points: Sequence[SizePoint], *, metric: Metric, confidence: float = 0.95, image_format: str = "png"
) -> bytes:
    """A line a method over model sizes, prompted on the left and fine-tuned on the right, as an image.

    Args:
        points: in any order; at least one. A method keeps its colour in both panels.
        metric: what is measured.
        confidence: of the whiskers.
        image_format: ``png`` (150 dots an inch) or ``svg``.
    """
    figure = new_figure(10.0, 5.0)
    panels: Sequence[Axes] = list(figure.subplots(1, len(KINDS), sharey=True))
    methods = list(dict.fromkeys(point.method for point in points))
    for axes, kind in zip(panels, KINDS, strict=True):
        for place, method in enumerate(methods):
            shown = [point for point in points if (point.kind, point.method) == (kind, method)]
            _line(axes, sorted(shown, key=lambda point: point.parameters), label(method), line_style(place))
        axes.set_title(kind)
        _size_axis(axes, points)
        name = f"{METRIC_NAMES[metric]} with its {confidence:.0%} interval" if axes is panels[0] else ""
        _finish(axes, name, max(point.ci_high for point in points))
    figure.suptitle(f"{METRIC_NAMES[metric].capitalize()} by model size", fontsize=13)
    legend_beside(figure, panels[0])
    return to_image(figure, image_format)


def plot_groups(
    table: KindTable, *, metric: Metric, confidence: float = 0.95, image_format: str = "png"
) -> bytes:
    """A bar an entry for every group of kinds, with its interval, as the bytes of an image.

    Args:
        table: at least one entry.
        metric: what the bars measure.
        confidence: of the whiskers.
        image_format: ``png`` (150 dots an inch) or ``svg``.
    """
    figure = new_figure(9.0, 5.0)
    axes = figure.subplots()
    names = [mean.group for mean in table.entries[0].groups]
    width = 0.8 / len(table.entries)
    for place, entry in enumerate(table.entries):
        means = entry.groups
        middles = [group + width * (place - (len(table.entries) - 1) / 2) for group in range(len(names))]
        values = [mean.mean for mean in means]
        reach = whiskers(values, [mean.ci_low for mean in means], [mean.ci_high for mean in means])
        style: dict[str, Any] = {**bar_style(place), "capsize": 3}
        axes.bar(middles, values, width, yerr=reach, label=label(entry.entry), **style)
    axes.set_xticks(range(len(names)), names)
    _finish(axes, f"{METRIC_NAMES[metric]} with its {confidence:.0%} interval", _highest(table))
    figure.suptitle(f"{METRIC_NAMES[metric].capitalize()} by group of tasks", fontsize=13)
    legend_beside(figure, axes)
    return to_image(figure, image_format)


def _highest(table: KindTable) -> float:
    return max(mean.ci_high for entry in table.entries for mean in entry.groups)


def _line(axes: Axes, points: Sequence[SizePoint], name: str, style: dict[str, Any]) -> None:
    # Drawn even where it is empty, so that the legend holds every method.
    values = [point.value for point in points]
    reach = whiskers(values, [point.ci_low for point in points], [point.ci_high for point in points])
    axes.errorbar([point.parameters for point in points], values, yerr=reach, capsize=3, label=name, **style)


def _size_axis(axes: Axes, points: Sequence[SizePoint]) -> None:
    sizes = {point.parameters: point.size for point in points}
    axes.set_xscale("log")
    axes.set_xticks(list(sizes), [label(size) for size in sizes.values()])
    axes.minorticks_off()
    axes.set_xlim(min(sizes) / 1.5, max(sizes) * 1.5)
    axes.set_xlabel("model size")
    no_formulas(axes.get_xticklabels())


def _finish(axes: Axes, name: str, highest: float) -> None:
    # From 0, and to a round number above all that is drawn: small scores stay apart.
    axes.set_ylim(0.0, min(1.0, math.ceil(10 * highest + 0.5) / 10))
    axes.set_ylabel(name)
    open_frame(axes, "y")
