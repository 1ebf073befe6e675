"""A model that says what it is told to: for tests and demonstrations."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence

from pipeline.models.base import Completion, Request
from pipeline.models.wire import cut_at_stop, prompt_text
from pipeline.trajectories.schema import Usage

Replies = Callable[[Request], str | Completion] | Sequence[str]


class ScriptedModel:
    """Answers from a function of the request, or from a list that each episode reads from its start.

    Stop strings cut the reply as they would cut a real model's. Usage counts words as tokens.

    Args:
        replies: a function, or the replies in order; past its end a list repeats its last reply.
        delay: seconds to wait before answering, or a function of the request that says so.
        address: what trajectories are to call the model.
    """

    def __init__(
        self,
        replies: Replies,
        delay: float | Callable[[Request], float] = 0.0,
        address: str = "scripted",
    ) -> None:
        if not callable(replies) and not replies:
            raise ValueError("a scripted model needs at least one reply")
        self.address = address
        self._replies = replies
        self._delay = delay
        self._asked: Counter[str] = Counter()

    async def generate(self, request: Request) -> Completion:
        """The next reply. Raises whatever the reply function raises."""
        start = time.monotonic()
        reply = self._reply(request)
        await asyncio.sleep(self._delay(request) if callable(self._delay) else self._delay)
        if isinstance(reply, Completion):
            return reply
        text, _ = cut_at_stop(reply, request.prompt.stop)
        usage = Usage(
            prompt_tokens=len(prompt_text(request.prompt).split()),
            completion_tokens=len(text.split()),
            calls=1,
            seconds=time.monotonic() - start,
        )
        return Completion(text, usage=usage)

    def forget(self, session: str) -> None:
        """Start the episode's list again."""
        self._asked.pop(session, None)

    async def close(self) -> None:
        """Nothing is held."""

    def _reply(self, request: Request) -> str | Completion:
        if callable(self._replies):
            return self._replies(request)
        turn = self._asked[request.session]
        self._asked[request.session] += 1
        return self._replies[min(turn, len(self._replies) - 1)]
