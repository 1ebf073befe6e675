"""How a run goes: a bar on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from pipeline.rollout.engine import REPEATED
from pipeline.trajectories.schema import Trajectory

EVERY_SECONDS: Final = 5.0
"""The shortest time between two plain lines."""


class RunProgress:
    """Shows episodes done and owed, how many are correct, tokens, cost, rate and time left.

    Args:
        title: what is running (foreign text is shown as it is, never as markup).
        console: where to; by default the standard error.
        clock: seconds, for tests.
    """

    def __init__(
        self, title: str, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._title = title
        self._console = console or Console(stderr=True)
        self._clock = clock
        self._bar: Progress | None = None
        self._owed = self._done = self._correct = self._errors = self._tokens = 0
        self._cost = 0.0
        self._said_done = -1
        self._start = self._said = clock()

    def begin(self, owed: int) -> None:
        """Start counting."""
        self._owed = owed
        self._done = self._correct = self._errors = self._tokens = 0
        self._cost = 0.0
        self._start = self._said = self._clock()
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[state]}", markup=False),
                TimeRemainingColumn(),
                console=self._console,
            )
            self._bar.add_task(self._title, total=owed, state=self.line())
            self._bar.start()

    def advance(self, trajectory: Trajectory) -> None:
        """Count an episode."""
        self._done += 1
        self._correct += trajectory.grade.correct
        self._errors += trajectory.outcome in REPEATED
        self._tokens += trajectory.usage.prompt_tokens + trajectory.usage.completion_tokens
        self._cost += trajectory.usage.cost
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=self._done, state=self.line())
        elif self._clock() - self._said >= EVERY_SECONDS:
            self._say()

    def end(self) -> None:
        """Say the last word."""
        if self._bar:
            self._bar.stop()
            self._bar = None
        elif self._owed and self._said_done != self._done:
            self._say()

    def line(self) -> str:
        """The state in words."""
        seconds = max(self._clock() - self._start, 1e-9)
        parts = [
            f"{self._done}/{self._owed} episodes",
            f"{self._correct} correct",
            f"{self._tokens:,} tokens",
        ]
        if self._errors:
            parts.append(f"{self._errors} errors")
        if self._cost:
            parts.append(f"cost {self._cost:.2f}")
        if self._done:
            parts.append(f"{self._done / seconds:.1f}/s")
        if 0 < self._done < self._owed:
            left = (self._owed - self._done) * seconds / self._done
            parts.append(f"about {duration(left)} left")
        return ", ".join(parts)

    def _say(self) -> None:
        self._said, self._said_done = self._clock(), self._done
        self._console.print(Text(f"{self._title}: {self.line()}"), soft_wrap=True)


def duration(seconds: float) -> str:
    """Seconds in words: ``45 s``, ``3 min``, ``2 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
