"""What a stage says: to the terminal, and to the run's log as well."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType


class Log:
    """Prints lines and appends the same lines to a file below the run's ``logs/``."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a", encoding="utf-8", errors="replace")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._file.write(f"{kind.__name__ if kind else 'error'}: {error}\n")
        self._file.close()

    def say(self, text: str) -> None:
        """One line or several, on standard output and in the log."""
        typer.echo(text)
        self._file.write(f"{text}\n")
        self._file.flush()

    def show(self, renderable: RenderableType) -> None:
        """A table: in colour on a terminal, plain in the log."""
        from rich.console import Console

        Console().print(renderable)
        Console(file=self._file, width=160, no_color=True).print(renderable)
        self._file.flush()
