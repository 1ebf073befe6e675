"""Models behind an OpenAI-compatible server: chat and raw-text completions.

The SDK's own retries (status 408, 409, 429, 5xx, connection errors) are the only ones, but for a stream
that breaks off in the middle, which the SDK leaves to its caller. What comes back is read as hostile:
servers ignore stop strings, report ``stop`` for text that was cut, send null content, no choices, or no
JSON at all.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import Any

import httpx2
import openai

from pipeline.errors import ContextLimitError, ModelError
from pipeline.models.base import Completion, Request, together
from pipeline.models.dialect import Dialect
from pipeline.models.endpoint import Endpoint, TooLongError
from pipeline.models.refusals import is_quota
from pipeline.models.replies import Reply, read_reply
from pipeline.models.stream import BrokenStream, StreamedAnswer, read_stream
from pipeline.models.wire import (
    chat_messages,
    completion_budget,
    estimate_tokens,
    prompt_text,
    tool_schemas,
)
from pipeline.recipe.models import ModelRecipe
from pipeline.rendering.base import ChatPrompt
from pipeline.trajectories.files import clean_text
from pipeline.trajectories.schema import digest

_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before asking again for a stream that broke off; the last one is repeated."""


class OpenAIModel:
    """A model behind ``openai:<model>@<base url>``.

    Args:
        recipe: the address, the API (``chat`` or ``completions``), streaming, the name of the
            environment variable with the key, retries, timeout, context window and prices.

    Raises:
        ModelError: the address cannot be read, or the key is missing.
    """

    def __init__(self, recipe: ModelRecipe) -> None:
        self.address = recipe.address
        self._recipe = recipe
        self._endpoint = Endpoint.of(recipe)
        self._dialect = Dialect(self._endpoint.url, recipe.api)
        # A proxy set for the outside world does not reach a server on this machine.
        client = openai.DefaultAsyncHttpxClient(
            trust_env=not self._endpoint.local, event_hooks={"response": [_spare_retries]}
        )
        self._client = openai.AsyncOpenAI(
            api_key=self._endpoint.key,
            base_url=self._endpoint.url,
            max_retries=recipe.max_retries,
            timeout=recipe.timeout,
            http_client=client,
        )

    def __repr__(self) -> str:
        return f"OpenAIModel({self.address!r})"

    async def generate(self, request: Request) -> Completion:
        """Ask the server. Raises as ``Model.generate`` says."""
        return (await self._call(request, 1))[0]

    async def sample(self, request: Request, count: int) -> list[Completion]:
        """Several completions of one prompt, which is paid once where the server can give several choices.

        A server that gives fewer is asked for the rest, all calls at once, each with a seed of its own;
        how many it gives at most is remembered. Raises as ``Model.generate`` says; none is kept then.
        """
        found: list[Completion] = []
        calls = 0
        while len(found) < count:
            missing = count - len(found)
            size = self._dialect.choices(missing, request.sampling)
            sizes = [min(size, missing - start) for start in range(0, missing, size)]
            # The same seeds whether the limit was known before or not, and for one choice a call
            # those of any other model.
            parts = await together(
                [self._call(_seeded(request, calls + place), size) for place, size in enumerate(sizes)]
            )
            calls += len(sizes)
            found += [completion for part in parts for completion in part]
        return found

    def forget(self, session: str) -> None:
        """Nothing is kept between calls."""

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _call(self, request: Request, count: int) -> list[Completion]:
        """One call for up to ``count`` choices: at least one, and perhaps fewer than asked for."""
        budget = request.sampling.max_tokens
        if self._recipe.context is not None:
            used = estimate_tokens(prompt_text(request.prompt))
            budget = completion_budget(self._recipe.context, used, budget)
        start = time.monotonic()
        try:
            reply = await self._answer(request, budget, count)
        except TooLongError as error:
            # Only the server can count exactly: where it says how much room is left, that is used.
            if error.room is None or error.room >= budget:
                raise ContextLimitError(str(error)) from None
            budget = completion_budget(error.room, 0, budget)
            reply = await self._answer(request, budget, count)
        if len(reply.choices) < count:
            self._dialect.most = len(reply.choices)
        seconds = time.monotonic() - start
        found = reply.completions(request, count, budget, seconds, self._recipe.price_per_million)
        flags = self._dialect.flags
        return [replace(one, flags=(*one.flags, *flags)) for one in found] if flags else found

    async def _answer(self, request: Request, budget: int, count: int) -> Reply:
        """Ask, and again without a parameter that the server turns out not to take."""
        while True:
            body = self._body(request, budget, self._dialect.choices(count, request.sampling))
            try:
                return await (self._streamed(body, request) if "stream" in body else self._whole(body))
            except (openai.OpenAIError, httpx2.HTTPError, ValueError) as error:
                if not self._learns(error, body):
                    raise self._endpoint.failure(error) from None

    async def _whole(self, body: dict[str, Any]) -> Reply:
        """An answer that comes in one piece."""
        raw = await self._create(self._client, body)
        with self._endpoint.reading():
            return read_reply(raw.text)

    async def _streamed(self, body: dict[str, Any], request: Request) -> Reply:
        """An answer that comes in pieces; one that breaks off is dropped and asked for again."""
        # Text past a stop may be followed by a tool call.
        stops = () if "tools" in body else request.prompt.stop
        left, pauses = self._recipe.max_retries, iter(_PAUSES)
        while True:
            fresh = left == self._recipe.max_retries
            client = self._client if fresh else self._client.with_options(max_retries=left)
            raw = await self._create(client, body)
            try:
                return await self._pieces(raw, StreamedAnswer(body.get("n", 1), stops))
            except BrokenStream as error:
                left -= raw.retries_taken + 1
                if left < 0:
                    reason = self._endpoint.safe(error)
                    raise ModelError(f"{self._endpoint.url} broke off its answer: {reason}") from None
            await asyncio.sleep(next(pauses, _PAUSES[-1]))

    async def _pieces(self, raw: Any, answer: StreamedAnswer) -> Reply:
        """Read one stream, or the one piece that a server sends which knows no streams."""
        with self._endpoint.reading():
            if "json" in raw.headers.get("Content-Type", ""):
                return read_reply(await _rest(raw.http_response))
            events: Any = raw.parse(to=openai.AsyncStream[object])
            try:
                return await read_stream(events, answer)
            except openai.APIError as error:
                refusal = self._endpoint.known_reason(error)
                if refusal is None:
                    raise BrokenStream(f"{error.message} {error.body!r}") from None
                raise refusal from None
            finally:
                await events.close()

    async def _create(self, client: openai.AsyncOpenAI, body: dict[str, Any]) -> Any:
        api: Any = client.chat.completions if self._recipe.api == "chat" else client.completions
        # The SDK walks through every message of its own arguments, which takes longer than all the rest
        # of a call together; an extra body it sends as it is.
        own: dict[str, Any] = {name: body[name] for name in ("model", "stream") if name in body}
        own["messages" if self._recipe.api == "chat" else "prompt"] = []
        return await api.with_raw_response.create(**own, extra_body=body)

    def _body(self, request: Request, budget: int, count: int) -> dict[str, Any]:
        prompt = request.prompt
        body: dict[str, Any] = {"model": self._endpoint.name}
        body |= self._dialect.settings(
            request.sampling, request.seed, prompt.stop, budget, count, stream=self._recipe.stream
        )
        if self._recipe.api == "chat":
            body["messages"] = chat_messages(prompt)
            if isinstance(prompt, ChatPrompt) and prompt.tools:
                body |= self._dialect.tools(tool_schemas(prompt))
        elif isinstance(prompt, ChatPrompt):
            raise ModelError(
                f"{self.address!r} takes raw text (api: completions) but the prompt is a conversation:"
                " use renderer text, or api chat"
            )
        else:
            body["prompt"] = clean_text(prompt.text)
        return body

    def _learns(self, error: Exception, body: dict[str, Any]) -> bool:
        """Whether the error is a refusal of one parameter, which is then not sent again."""
        if not isinstance(error, openai.APIStatusError) or error.status_code not in {400, 422}:
            return False
        if self._endpoint.known_reason(error) is not None:
            return False
        return self._dialect.learn(error.body, str(error), body)


def _seeded(request: Request, call: int) -> Request:
    return replace(request, seed=int(digest([request.seed, call]), 16) >> 1)


async def _rest(response: httpx2.Response) -> str:
    try:
        await response.aread()
    except httpx2.HTTPError as error:
        raise BrokenStream(str(error)) from None
    return response.text


async def _spare_retries(response: httpx2.Response) -> None:
    """Tell the SDK not to retry a 429 that waiting cannot mend."""
    if response.status_code != 429:
        return
    await response.aread()
    try:
        body: Any = json.loads(response.content)
    except (ValueError, RecursionError):
        return
    if is_quota(response.status_code, body):
        response.headers["x-should-retry"] = "false"
