"""Rows on the terminal: what is trained stands out, and nothing in a row can act on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Final

from pipeline.cli.show import visible

if TYPE_CHECKING:
    from rich.text import Text

    from pipeline.training.inspect_findings import Bit, Shown

PLAIN: Final = "⟦…⟧ is trained, ⟪…⟫ is a control token, ⟪!…⟫ one that stands in text where none may be"
COLOURS: Final = "on green is trained, in magenta is a control token, on red is one in text where none may be"
_MARKS: Final = str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in "⟦⟧⟪⟫\u2028\u2029"})
_GUTTER: Final = "  │ "
"""Stands before every line of a row, so that no row can look like what we say ourselves."""


def plain_row(row: Shown) -> str:
    """A row with marks."""
    text = "".join(_marked(bit) for bit in _bracketed(row.bits))
    return "\n".join([_heading(row), *(_GUTTER + line for line in text.split("\n"))])


def coloured_row(row: Shown) -> Text:
    """A row in colours."""
    from rich.text import Text

    body = Text()
    for bit in row.bits:
        body.append(_shown(bit.text), style=_style(bit))
    lines = [Text(_GUTTER, style="dim").append_text(line) for line in body.split("\n", allow_blank=True)]
    return Text("\n").join([Text(_heading(row), style="bold"), *lines])


def _heading(row: Shown) -> str:
    return _shown(f"row {row.row!r}" + (f", which training drops: {row.fault}" if row.fault else ""))


def _shown(text: str) -> str:
    return visible(text).translate(_MARKS)


def _style(bit: Bit) -> str:
    if bit.alarm:
        return "bold white on red"
    ground = " on green" if bit.trained else ""
    return f"bold magenta{ground}" if bit.control else f"black{ground}" if ground else ""


def _bracketed(bits: tuple[Bit, ...]) -> Iterator[Bit | str]:
    for trained, run in groupby(bits, key=lambda bit: bit.trained):
        bits_of = list(run)
        yield from ["⟦", *bits_of, "⟧"] if trained else bits_of


def _marked(bit: Bit | str) -> str:
    if isinstance(bit, str):
        return bit
    text = _shown(bit.text)
    return f"⟪{'!' if bit.alarm else ''}{text}⟫" if bit.control else text
