"""Simulators that are kept running between episodes: starting one takes longer than loading a task."""

from __future__ import annotations

import threading

from pipeline.environments.scienceworld.simulator import Simulator
from pipeline.errors import EnvironmentFault


class Pool:
    """Lends simulators, each to one episode at a time.

    Nobody ever waits for one: with more episodes open than ``size``, more are started, and ended when
    these close. Waiting would be a trap, since whoever could give one back may need the waiting thread.

    Args:
        size: how many are kept while nobody uses them.
        seconds: how long one may take to answer.
    """

    def __init__(self, size: int, seconds: float) -> None:
        self._size = size
        self._seconds = seconds
        self._lock = threading.Lock()
        self._idle: list[Simulator] = []
        self._closed = False

    def acquire(self) -> Simulator:
        """A simulator that runs; its former state is unknown, so load a task first.

        Raises:
            EnvironmentFault: it cannot be started, or the pool is closed.
        """
        while True:
            with self._lock:
                if self._closed:
                    raise EnvironmentFault("the simulators of ScienceWorld were closed")
                found = self._idle.pop() if self._idle else None
            if found is None:
                return Simulator(self._seconds)
            if found.alive:
                return found
            found.close()

    def release(self, simulator: Simulator) -> None:
        """Give one back; one that is dead, or one too many, is ended."""
        with self._lock:
            keep = simulator.alive and not self._closed and len(self._idle) < self._size
            if keep:
                self._idle.append(simulator)
        if not keep:
            simulator.close()

    def close(self) -> None:
        """End those that nobody uses; the others end when they are given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for simulator in idle:
            simulator.close()
