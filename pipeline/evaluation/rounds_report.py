"""STaR rounds for people: a table by round, a picture, and files for programs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.errors import StoreError
from pipeline.evaluation.canvas import (
    new_figure,
    no_formulas,
    open_frame,
    to_image,
    whiskers,
    whole_ticks,
)
from pipeline.evaluation.entrants import STUDENT
from pipeline.evaluation.metrics import Metric
from pipeline.evaluation.plots import METRIC_NAMES
from pipeline.evaluation.report import Report
from pipeline.evaluation.rows import Row
from pipeline.evaluation.tables import Sheet, to_markdown
from pipeline.trajectories.files import write_bytes, write_json, write_text
from pipeline.trajectories.schema import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE: Final = "rounds.png"


class Round(Record):
    """What one round collected, and what its student came to.

    ``correct`` counts tasks that its generator solved by itself, ``tried`` those tried again with a hint,
    ``rationalized`` those of them that were then correct, ``kept`` those of these that are trained on.
    ``rows`` is what the student was trained on, over all rounds so far. ``dev`` is its mean reward on the
    dev panel, ``test`` its mean in the metric of the evaluation, with its interval.
    """

    number: int
    run: str
    tasks: int
    correct: int
    tried: int
    rationalized: int
    kept: int
    rows: int
    dev: float
    test: float
    ci_low: float
    ci_high: float
    seconds: float


class Rounds(Record):
    """All rounds so far; ``best`` is the number of the one with the highest dev reward."""

    recipe: str
    metric: Metric
    confidence: float
    test_tasks: int
    dev_tasks: int
    best: int
    rounds: list[Round]


def student_row(report: Report, method: str) -> Row:
    """The row of a round's student: with the method that rounds play, else the best one.

    Raises:
        StoreError: the report has no student.
    """
    rows = [row for row in report.rows if row.model == STUDENT]
    if not rows:
        raise StoreError(f"the report of {report.recipe!r} has no row of a student: evaluate again")
    return next((row for row in rows if row.method == method), rows[0])


def rounds_sheet(result: Rounds) -> Sheet:
    """The table: a line a round."""
    name = METRIC_NAMES[result.metric]
    rows = [
        (
            f"{one.number}{' best' if one.number == result.best else ''}",
            str(one.tasks),
            str(one.correct),
            str(one.tried) if one.tried else "–",
            str(one.rationalized) if one.tried else "–",
            str(one.kept) if one.tried else "–",
            str(one.rows),
            f"{one.dev:.3f}",
            f"{one.test:.3f}",
            f"{one.ci_low:.2f}–{one.ci_high:.2f}",
            f"{one.seconds:.0f}",
        )
        for one in result.rounds
    ]
    headings = ("round", "tasks", "solved", "hinted", "right", "kept", "rows", "dev", "test", "interval", "s")
    note = (
        "Solved: by the generator itself. Hinted: failed, and tried again with the answer as a hint; then"
        " right, and kept. The rows of all rounds so far train the student."
        f" Dev: mean reward on {result.dev_tasks} tasks, by which the best round is chosen."
        f" Test: {name} on {result.test_tasks} tasks, with intervals of {result.confidence:.0%}."
    )
    return Sheet(f"{result.recipe}: rounds", headings, rows, note, words=1)


def write_rounds(folder: Path, result: Rounds) -> None:
    """Write rounds.png, rounds.md and rounds.json, each replaced whole, the last one last.

    Raises:
        StoreError: the folder cannot be written.
    """
    write_bytes(folder / PICTURE, [draw_rounds(result)])
    text = [to_markdown([rounds_sheet(result)]), f"![scores by round]({PICTURE})", ""]
    write_text(folder / "rounds.md", "\n".join(text))
    write_json(folder / "rounds.json", result.model_dump(mode="json"))


def draw_rounds(result: Rounds, image_format: str = "png") -> bytes:
    """The test metric with its interval and the dev reward by round, as the bytes of an image.

    Args:
        result: at least one round.
        image_format: ``png`` (150 dots an inch) or ``svg``.
    """
    figure = new_figure(6.4, 4.0)
    axes = figure.subplots()
    numbers = [one.number for one in result.rounds]
    test = [one.test for one in result.rounds]
    reach = whiskers(test, [one.ci_low for one in result.rounds], [one.ci_high for one in result.rounds])
    name = f"test {METRIC_NAMES[result.metric]}, {result.test_tasks} tasks"
    axes.errorbar(numbers, test, yerr=reach, capsize=3, marker="o", color="#0072B2", label=name)
    dev = [one.dev for one in result.rounds]
    label = f"dev reward, {result.dev_tasks} tasks"
    axes.plot(numbers, dev, marker="s", linestyle="--", color="#D55E00", label=label)
    best = next(one for one in result.rounds if one.number == result.best)
    axes.scatter([best.number], [best.dev], s=130, facecolors="none", edgecolors="black", label="best on dev")
    _axes(axes, numbers)
    no_formulas([figure.suptitle(f"{result.recipe}: rounds", fontsize=12)])
    return to_image(figure, image_format)


def _axes(axes: Axes, numbers: Iterable[int]) -> None:
    whole_ticks(axes, numbers)
    axes.set_xlabel("round (0: the first teacher's trajectories alone)")
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]), top=max(1.02, axes.get_ylim()[1]))
    open_frame(axes, "y")
    axes.legend(frameon=False)
