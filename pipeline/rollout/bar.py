"""The state of long work: a bar on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.text import Text

EVERY_SECONDS: Final = 5.0
"""The shortest time between two plain lines."""


class Bar:
    """Shows how far work has come, and its state in words.

    Args:
        title: what is going on (foreign text is shown as it is, never as markup).
        console: where to; by default the standard error.
        clock: seconds, for tests.
    """

    def __init__(
        self, title: str, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._title = title
        self._console = console or Console(stderr=True)
        self._clock = clock
        self._progress: Progress | None = None
        self._said = clock()
        self._pending = False

    def start(self, total: float, state: str) -> None:
        """Begin. On a terminal this draws the bar."""
        self._said, self._pending = self._clock(), True
        if self._console.is_terminal:
            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[state]}", markup=False),
                console=self._console,
            )
            self._progress.add_task(self._title, total=total, state=state)
            self._progress.start()

    def show(self, completed: float, state: Callable[[], str], *, at_once: bool = False) -> None:
        """Show a state; elsewhere than on a terminal only now and then, or ``at_once``."""
        self._pending = True
        if self._progress:
            self._progress.update(self._progress.task_ids[0], completed=completed, state=state())
        elif at_once or self._clock() - self._said >= EVERY_SECONDS:
            self._say(state)

    def stop(self, state: Callable[[], str] | None = None) -> None:
        """End; elsewhere than on a terminal with the last state, where one is given and was not said yet."""
        if self._progress:
            self._progress.stop()
            self._progress, self._pending = None, False
        elif state and self._pending:
            self._say(state)

    def print(self, line: str) -> None:
        """Print a line that stays."""
        self._console.print(Text(line), soft_wrap=True)

    @contextmanager
    def away(self) -> Generator[None]:
        """Take the bar off the screen: what prints meanwhile may know nothing of it."""
        if self._progress is None:
            yield
            return
        self._progress.live.transient = True
        self._progress.stop()
        try:
            yield
        finally:
            self._progress.live.transient = False
            self._progress.start()

    def _say(self, state: Callable[[], str]) -> None:
        self._said, self._pending = self._clock(), False
        self.print(f"{self._title}: {state()}")
