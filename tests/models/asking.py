"""Asking a loopback server through the client, as the rollout engine would."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pipeline.models.base import Completion, Request, Sampling, sample
from pipeline.models.openai import OpenAIModel
from pipeline.recipe.models import ModelRecipe
from pipeline.rendering.base import Prompt, Segment, TextPrompt
from pipeline.trajectories.schema import Usage
from tests.models.server import Server

T = TypeVar("T")


def recipe(server: Server, **fields: Any) -> ModelRecipe:
    return ModelRecipe(address=f"openai:teacher/large@{server.url}", **{"max_retries": 0, **fields})


def text_prompt(text: str = "Question: q\nThought 1:", stop: tuple[str, ...] = ()) -> TextPrompt:
    return TextPrompt((Segment(text),), stop)


def using(model: OpenAIModel, work: Callable[[], Awaitable[T]]) -> T:
    """Run some calls on one event loop, and close the model."""

    async def run() -> T:
        try:
            return await work()
        finally:
            model.forget("episode")
            await model.close()

    return asyncio.run(run())


def ask(
    model: OpenAIModel,
    prompt: Prompt | None = None,
    *,
    max_tokens: int = 100,
    seed: int = 0,
    temperature: float = 0.7,
) -> Completion:
    request = Request(prompt or text_prompt(), Sampling(temperature, 0.9, max_tokens), "episode", seed)
    return using(model, lambda: model.generate(request))


def ask_for(
    model: OpenAIModel,
    count: int,
    prompt: Prompt | None = None,
    *,
    times: int = 1,
    max_tokens: int = 100,
    temperature: float = 0.7,
) -> list[Completion]:
    """Several samples; ``times`` asks one request after another and gives them all."""

    async def work() -> list[Completion]:
        found: list[Completion] = []
        for time in range(times):
            settings = Sampling(temperature, 0.9, max_tokens)
            request = Request(prompt or text_prompt(), settings, "episode", 7 + time)
            found += await sample(model, request, count)
        return found

    return using(model, work)


def total(found: list[Completion]) -> Usage:
    return sum((one.usage for one in found), Usage())
