"""What every picture has in common: how it is set up, its colours, and how it becomes bytes.

Colours are of the Okabe-Ito palette, told apart with any colour vision; markers, dashes and hatches
differ as well, so that pictures also read in black and white. matplotlib is imported when one is drawn.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_ROOM = 12
"""As many numbers have room below a picture."""
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_HATCHES = ("", "///", "...", "xxx", "\\\\\\\\", "ooo", "++")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches that needs no screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def to_image(figure: Figure, image_format: str) -> bytes:
    """The bytes of an image: ``png`` (150 dots an inch) or ``svg``."""
    picture = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a label in a script that the font lacks
        figure.savefig(picture, format=image_format, dpi=150)
    return picture.getvalue()


def line_style(place: int) -> dict[str, Any]:
    """Colour, marker and dashes of a picture's lines, in turn."""
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": _MARKERS[place % len(_MARKERS)],
        "linestyle": _DASHES[place % len(_DASHES)],
        "linewidth": 1.6,
        "markersize": 5,
    }


def bar_style(place: int) -> dict[str, Any]:
    """Colour and hatch of a picture's bars, in turn."""
    colour, hatch = COLOURS[place % len(COLOURS)], _HATCHES[place % len(_HATCHES)]
    return {"color": colour, "hatch": hatch, "edgecolor": "white"}


def whiskers(values: Sequence[float], lows: Sequence[float], highs: Sequence[float]) -> list[list[float]]:
    """How far intervals reach below and above their values."""
    # A mean can lie a rounding error outside its interval; whiskers must not be negative.
    return [
        [max(0.0, value - low) for value, low in zip(values, lows, strict=True)],
        [max(0.0, high - value) for value, high in zip(values, highs, strict=True)],
    ]


def legend_beside(figure: Figure, axes: Axes) -> None:
    """A legend on the right of everything."""
    handles, labels = axes.get_legend_handles_labels()
    legend = figure.legend(handles, labels, loc="outside right upper", frameon=False)
    no_formulas(legend.get_texts())


def no_formulas(texts: Iterable[Text]) -> None:
    """Show texts as they are: a dollar sign in a name is no formula."""
    for text in texts:
        text.set_parse_math(False)


def open_frame(axes: Axes, along: str) -> None:
    """Light lines across one axis (``x`` or ``y``), behind what is drawn, and no frame above or right."""
    axes.grid(axis="x" if along == "x" else "y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def whole_ticks(axes: Axes, values: Iterable[int]) -> None:
    """Whole numbers below: those that there are (steps, rounds), or round ones where they are too many."""
    from matplotlib.ticker import FixedLocator, MaxNLocator

    there = sorted(set(values))
    nearest = min((after - before for before, after in pairwise(there)), default=1)
    if nearest * _ROOM >= there[-1] - there[0]:
        axes.xaxis.set_major_locator(FixedLocator(there))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
