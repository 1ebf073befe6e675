"""What a model is: something that continues a prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from pipeline.rendering.base import Prompt
from pipeline.trajectories.schema import StopReason, Usage, digest

T = TypeVar("T")


@dataclass(frozen=True)
class Sampling:
    """How to choose the next token. Temperature 0 is greedy and ignores the seed."""

    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 100


@dataclass(frozen=True)
class Request:
    """One question to a model.

    ``session`` names the episode: a local model may keep keys and values under it between steps.
    ``seed`` alone decides sampling, whatever else is in flight.
    """

    prompt: Prompt
    sampling: Sampling = field(default_factory=Sampling)
    session: str = ""
    seed: int = 0


@dataclass(frozen=True)
class Completion:
    """What a model wrote: text up to, not including, the stop.

    ``stop_reason`` is ``length`` when the budget cut the text. ``flags`` carry what a parser
    cannot see (``truncated_in_reasoning``, …).
    """

    text: str
    stop_reason: StopReason = "stop"
    usage: Usage = field(default_factory=Usage)
    flags: tuple[str, ...] = ()


class Model(Protocol):
    """A model behind an address. Safe to call from many coroutines of one event loop.

    An optional method ``sample(request, count)`` answers like the function ``sample`` below, for
    models that can draw several completions of one prompt more cheaply than by asking again. An
    optional method ``beams(request, count)`` answers like the function ``beams``, for models that can
    search.
    """

    address: str

    async def generate(self, request: Request) -> Completion:
        """Continue the prompt.

        Raises:
            ContextLimitError: the prompt leaves no room for a completion.
            QuotaError: no later call can succeed; the run should stop and keep what it has.
            ModelError: the model could not be asked, after the client's own retries.
        """
        ...

    def forget(self, session: str) -> None:
        """The episode is over: drop whatever was kept under its name."""
        ...

    async def close(self) -> None:
        """Free memory, connections and threads."""
        ...


async def sample(model: Model, request: Request, count: int) -> list[Completion]:
    """Several completions of one prompt, in a fixed order, each with a seed of its own.

    Args:
        model: whom to ask.
        request: the prompt; its seed decides the seeds of all.
        count: how many.

    Raises:
        ModelError: as ``Model.generate``; none is kept then.
    """
    own: Callable[[Request, int], Awaitable[list[Completion]]] | None = getattr(model, "sample", None)
    if own is not None:
        return await own(request, count)
    seeds = [int(digest([request.seed, number]), 16) >> 1 for number in range(count)]
    return await together(model.generate(replace(request, seed=seed)) for seed in seeds)


async def beams(model: Model, request: Request, count: int) -> list[Completion]:
    """The likeliest completions of one prompt, best first; a model that cannot search has one.

    The first bears the usage of the whole search.

    Raises:
        ModelError: as ``Model.generate``.
    """
    own: Callable[[Request, int], Awaitable[list[Completion]]] | None = getattr(model, "beams", None)
    return [await model.generate(request)] if own is None else await own(request, count)


async def together(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All results, in order; when one call fails the others are given up."""
    tasks = [asyncio.create_task(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
