"""A sweep for people: a table, a picture with a line a method, and files for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pipeline.evaluation.canvas import (
    legend_beside,
    line_style,
    new_figure,
    open_frame,
    to_image,
    whiskers,
    whole_ticks,
)
from pipeline.evaluation.plots import METRIC_NAMES, label
from pipeline.evaluation.sweep import Point, Sweep
from pipeline.evaluation.tables import Sheet, escaped, to_markdown
from pipeline.trajectories.files import write_bytes, write_json, write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE: Final = "sweep.png"


def sweep_sheet(sweep: Sweep) -> Sheet:
    """The table: 80 columns hold it. Checkpoints are named by step; the files name their folders."""
    name = METRIC_NAMES[sweep.metric]
    rows = [
        (
            point.method,
            _remark(point),
            str(point.step),
            f"{point.value:.3f}",
            _interval(point),
            str(point.errored),
        )
        for point in sweep.points
    ]
    note = (
        f"{sweep.size} {sweep.split} tasks; intervals of {sweep.confidence:.0%}. The best was chosen on "
        "these tasks, so its score here flatters it: measure it on others."
    )
    headings = ("method", "remark", "step", name, "interval", "errors")
    return Sheet(f"{sweep.recipe}: {name} by training step", headings, rows, note)


def _remark(point: Point) -> str:
    words = ["base"] if not point.weights else []
    words += ["best"] if point.best else []
    words += ["no effect"] if point.no_effect else []
    return ", ".join(words)


def _interval(point: Point) -> str:
    return f"{point.ci_low:.2f}–{point.ci_high:.2f}"


def no_effect_lines(sweep: Sweep) -> list[str]:
    """A sentence for every checkpoint that wrote what its base wrote."""
    return [
        f"No effect: {point.method} × {point.checkpoint} wrote the same text as the base, letter for letter, "
        f"on all {point.n} tasks; check that its weights or its adapter were really loaded."
        for point in sweep.points
        if point.no_effect
    ]


def write_sweep(folder: Path, sweep: Sweep) -> None:
    """Write sweep.png, sweep.csv, sweep.md and sweep.json, each replaced whole, the last one last.

    Raises:
        StoreError: the folder cannot be written.
    """
    write_bytes(folder / PICTURE, [draw_sweep(sweep)])
    write_text(folder / "sweep.csv", _csv(sweep.points))
    lines = [f"- {escaped(line)}" for line in no_effect_lines(sweep)]
    text = [to_markdown([sweep_sheet(sweep)]), *lines, "", f"![success by training step]({PICTURE})", ""]
    write_text(folder / "sweep.md", "\n".join(text))
    write_json(folder / "sweep.json", sweep.model_dump(mode="json"))


def _csv(points: Sequence[Point]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(Point.model_fields), lineterminator="\n")
    writer.writeheader()
    writer.writerows(point.model_dump() for point in points)
    return text.getvalue()


def draw_sweep(sweep: Sweep, image_format: str = "png") -> bytes:
    """A line a method over training steps, as the bytes of an image.

    The best point of a line has a ring, one without effect a cross; the base stands at step 0.

    Args:
        sweep: at least one point.
        image_format: ``png`` (150 dots an inch) or ``svg``.
    """
    figure = new_figure(8.0, 5.0)
    axes = figure.subplots()
    for place, method in enumerate(dict.fromkeys(point.method for point in sweep.points)):
        _line(axes, [point for point in sweep.points if point.method == method], place)
    _marks(axes, sweep.points)
    _axes(axes, sweep)
    name = METRIC_NAMES[sweep.metric].capitalize()
    figure.suptitle(f"{name} on {sweep.size} {sweep.split} tasks, by training step", fontsize=13)
    legend_beside(figure, axes)
    return to_image(figure, image_format)


def _line(axes: Axes, points: Sequence[Point], place: int) -> None:
    ordered = sorted(points, key=lambda point: point.step)
    steps, values = [point.step for point in ordered], [point.value for point in ordered]
    reach = whiskers(values, [point.ci_low for point in ordered], [point.ci_high for point in ordered])
    axes.errorbar(steps, values, yerr=reach, capsize=3, label=label(points[0].method), **line_style(place))


def _marks(axes: Axes, points: Sequence[Point]) -> None:
    """A ring around the best points, and a cross over those without effect."""
    for name, marker, chosen in (
        ("best", "o", [point for point in points if point.best]),
        ("no effect", "x", [point for point in points if point.no_effect]),
    ):
        if chosen:
            ring: dict[str, Any] = {"facecolors": "none", "edgecolors": "black"}
            colours: dict[str, Any] = ring if marker == "o" else {"color": "black"}
            places = [point.step for point in chosen], [point.value for point in chosen]
            axes.scatter(*places, s=130, marker=marker, zorder=3, label=name, **colours)


def _axes(axes: Axes, sweep: Sweep) -> None:
    whole_ticks(axes, [point.step for point in sweep.points])
    axes.set_xlabel("training steps (0: the model before training)")
    axes.set_ylabel(f"{METRIC_NAMES[sweep.metric]} with its {sweep.confidence:.0%} interval")
    axes.set_ylim(0.0, 1.02)
    open_frame(axes, "y")
