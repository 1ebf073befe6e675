"""How a run goes: episodes, what was correct, tokens, cost, rate and time left."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console

from pipeline.rollout.bar import Bar
from pipeline.rollout.projection import Projection, duration
from pipeline.rollout.tally import REPEATED, Tally
from pipeline.trajectories.schema import Trajectory


class RunProgress:
    """Shows episodes done and owed, how many are correct, tokens, cost, rate and time left.

    Of a run with a target it shows how many correct trajectories count towards it, and projections
    of what it will take, each on a line that stays.

    Args:
        title: what is running (foreign text is shown as it is, never as markup).
        console: where to; by default the standard error.
        clock: seconds, for tests.
        say: prints a line that is to stay; by default the console does.
    """

    def __init__(
        self,
        title: str,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._title = title
        self._bar = Bar(title, console, clock)
        self._print = say or self._bar.print
        self._tally: Tally | None = None
        self._before = 0
        self._clock = clock
        self._owed = self._done = self._correct = self._errors = self._tokens = 0
        self._cost = 0.0
        self._start = clock()

    def aim(self, tally: Tally) -> None:
        """Show how near the target is."""
        self._tally = None if tally.goal.until is None else tally
        self._before = tally.counted

    def begin(self, owed: int) -> None:
        """Start counting."""
        self._owed = owed
        self._done = self._correct = self._errors = self._tokens = 0
        self._cost = 0.0
        self._start = self._clock()
        self._bar.start(self._way()[1], self.line())

    def advance(self, trajectory: Trajectory) -> None:
        """Count an episode."""
        self._done += 1
        self._correct += trajectory.grade.correct
        self._errors += trajectory.outcome in REPEATED
        self._tokens += trajectory.usage.prompt_tokens + trajectory.usage.completion_tokens
        self._cost += trajectory.usage.cost
        self._bar.show(self._way()[0], self.line)

    def project(self, projection: Projection) -> None:
        """Say what the target will take."""
        with self._bar.away():
            self._print(f"{self._title}: {projection}")

    def end(self) -> None:
        """Say the last word."""
        self._bar.stop(self.line if self._owed else None)

    def line(self) -> str:
        """The state in words."""
        seconds = max(self._clock() - self._start, 1e-9)
        counted, total = self._way()
        if self._tally:
            parts = [f"{self._tally.counted:,}/{self._tally.goal.until:,} correct", f"{self._done} episodes"]
        else:
            parts = [f"{self._done}/{self._owed} episodes", f"{self._correct} correct"]
        parts.append(f"{self._tokens:,} tokens")
        if self._errors:
            parts.append(f"{self._errors} errors")
        if self._cost:
            parts.append(f"cost {self._cost:.2f}")
        if self._done:
            parts.append(f"{self._done / seconds:.1f}/s")
        if 0 < counted < total:
            parts.append(f"about {duration((total - counted) * seconds / counted)} left")
        return ", ".join(parts)

    def _way(self) -> tuple[int, int]:
        """How far this call has come, and how far it has to go."""
        if self._tally is None or self._tally.goal.until is None:
            return self._done, self._owed
        return self._tally.counted - self._before, self._tally.goal.until - self._before
