"""Tables of text, the same for Markdown and for the terminal.

Foreign text in them (names of methods, models, annotators) is data: it can break neither.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.trajectories.text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

_MARKUP = re.compile(r"[\\`*\[\]<>&#~|!$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_SHOWN = 500
"""Characters of a text that a cell shows."""


@dataclass(frozen=True)
class Sheet:
    """A titled table. The first ``words`` columns are text, the others numbers, set to the right.

    ``note`` says below the table what its numbers are counts or shares of.
    """

    title: str
    headings: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    note: str = ""
    words: int = 2


def share(count: int, total: int) -> str:
    """A count with its denominator and share: ``3/10 (30%)``, or a dash where there is nothing to count."""
    return f"{count}/{total} ({count / total:.0%})" if total else "–"


def one_line(text: str) -> str:
    """One printable line of bounded length: control characters and line separators become spaces."""
    line = printable(text[: _SHOWN + 1])
    return line[:_SHOWN] + "…" if len(line) > _SHOWN else line


def short_name(address: str) -> str:
    """The end of a model's address, which tells it from others: its last folder and file."""
    return "/".join(address.split("/")[-2:])


def to_markdown(sheets: Sequence[Sheet], level: int = 2) -> str:
    """The tables as Markdown, each under a heading of this level; what a cell says is no markup."""
    return "\n".join(_markdown(sheet, level) for sheet in sheets)


def to_terminal(sheets: Sequence[Sheet]) -> RenderableType:
    """The tables for ``rich.console.Console.print``."""
    from rich.console import Group

    return Group(*map(_terminal, sheets))


def _markdown(sheet: Sheet, level: int) -> str:
    marks = ["---" if place < sheet.words else "---:" for place in range(len(sheet.headings))]
    lines = [f"{'#' * level} {escaped(sheet.title)}", ""]
    lines += [_line(list(map(escaped, sheet.headings))), _line(marks)]
    lines += [_line(list(map(escaped, row))) for row in sheet.rows]
    lines += ["", escaped(sheet.note)] if sheet.note else []
    return "\n".join([*lines, ""])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """Foreign text as one line of Markdown that cannot become markup."""
    return _MARKUP.sub(r"\\\g<0>", one_line(text))


def _terminal(sheet: Sheet) -> RenderableType:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(one_line(sheet.title)),
        caption=Text(one_line(sheet.note)),
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for place, heading in enumerate(sheet.headings):
        justify = "left" if place < sheet.words else "right"
        table.add_column(Text(heading), justify=justify, overflow="fold")
    for row in sheet.rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    return table
