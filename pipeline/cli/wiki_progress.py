"""How a build of a wiki goes: pages or titles, the rate, and the time left."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console

from pipeline.environments.wiki.build import BuildState
from pipeline.rollout.bar import Bar
from pipeline.rollout.projection import duration


class BuildProgress:
    """Shows pages read or titles indexed, the rate, and the time left of the phase.

    Args:
        title: what is built (foreign text is shown as it is, never as markup).
        size: bytes of all sources.
        console: where to; by default the standard error.
        clock: seconds, for tests.
    """

    def __init__(
        self,
        title: str,
        size: int,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._size = size
        self._bar = Bar(title, console, clock)
        self._clock = clock
        self._begun: BuildState | None = None
        self._start = clock()

    def __enter__(self) -> Self:
        self._bar.start(1.0, "")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def advance(self, state: BuildState) -> None:
        """Show a state; the first of a phase begins its clock."""
        begins = self._begun is None or self._begun.phase != state.phase
        if begins:
            self._begun, self._start = state, self._clock()
        self._bar.show(self._share(state), lambda: self.line(state), at_once=begins)

    def line(self, state: BuildState) -> str:
        """The state in words."""
        if state.phase == "redirects":
            return f"{state.pages:,} pages, {state.redirects:,} redirects"
        done = state.pages if state.phase == "pages" else state.indexed
        words = f"{done:,} pages" if state.phase == "pages" else f"{done:,} of {state.pages:,} titles indexed"
        return ", ".join([words, *self._speed(state, done)])

    def _speed(self, state: BuildState, done: int) -> list[str]:
        begun = self._begun or state
        seconds = self._clock() - self._start
        before = begun.pages if state.phase == "pages" else begun.indexed
        gained = self._share(state) - self._share(begun)
        if seconds <= 0 or gained <= 0:
            return []
        parts = [f"{(done - before) / seconds:,.0f}/s", f"{self._share(state):.0%}"]
        left = (1 - self._share(state)) * seconds / gained
        return [*parts, f"about {duration(left)} left"] if left > 0 else parts

    def _share(self, state: BuildState) -> float:
        """The part of the phase that is done, of 1."""
        if state.phase == "pages":
            return min(state.read / max(self._size, 1), 1.0)
        return state.indexed / max(state.pages, 1) if state.phase == "titles" else 0.0
