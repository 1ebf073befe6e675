"""One thread that works for many coroutines: its inbox, its beginning and its end."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Generic, TypeVar

from pipeline.errors import ModelError

_GATHER = 0.004
"""Seconds without a new message after which a wave is taken to be complete."""

T = TypeVar("T")
M = TypeVar("M")


class Worker(Generic[M]):
    """A thread with an inbox. It starts with the first message and ends when it is closed.

    Args:
        address: the model's, for error texts.
        work: what the thread does: it calls ``receive`` until that gives None.
    """

    def __init__(self, address: str, work: Callable[[], None]) -> None:
        self.closed = False
        self._address = address
        self._work = work
        self._inbox: queue.SimpleQueue[M | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def send(self, message: M) -> None:
        """Put a message into the inbox.

        Raises:
            ModelError: the worker is closed.
        """
        with self._lock:
            if self.closed:
                raise ModelError(f"model {self._address!r} is closed")
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="staract-decode", daemon=True)
                self._thread.start()
            self._inbox.put(message)

    def tell(self, message: M) -> None:
        """Put a message into the inbox of a worker that runs; of another, there is nothing to tell."""
        with self._lock:
            if self._thread is not None:
                self._inbox.put(message)

    def receive(self, *, idle: bool) -> list[M] | None:
        """What has arrived, for the thread; None when it is time to end.

        Args:
            idle: there is nothing else to do: wait for a message, and then for a lull, so that those who
                ask together are answered together.
        """
        arrived: list[M] = []
        try:
            message = self._inbox.get(block=idle)
            while message is not None:
                arrived.append(message)
                message = self._inbox.get(block=idle, timeout=_GATHER)
        except queue.Empty:
            return arrived
        if arrived:
            # What came before the end is answered first; the next call finds the end again.
            self._inbox.put(None)
        return arrived or None

    async def close(self) -> None:
        """Tell the thread to end, and wait for it."""
        with self._lock:
            self.closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._inbox.put(None)
            await asyncio.to_thread(thread.join)


def deliver(future: Future[T], result: T | Exception) -> None:
    """Answer a coroutine from the thread, if it is still waiting."""
    try:
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
    except InvalidStateError:
        # The coroutine was cancelled between the last pass and now; nobody is waiting.
        return
