"""Models behind an OpenAI-compatible server: chat and raw-text completions.

The SDK's own retries (status 408, 409, 429, 5xx, connection errors) are the only ones. What comes
back is read as hostile: servers ignore stop strings, report ``stop`` for text that was cut, send
null content, no choices, or no JSON at all.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import time
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai

from pipeline.errors import ContextLimitError, ModelError, QuotaError
from pipeline.models.addresses import resolve
from pipeline.models.base import Completion, Request
from pipeline.models.replies import Reply, read_reply
from pipeline.models.wire import chat_messages, completion_budget, estimate_tokens, prompt_text
from pipeline.recipe.models import ModelRecipe
from pipeline.rendering.base import ChatPrompt
from pipeline.trajectories.files import clean_text

MAX_STOPS = 4
"""How many stop strings the API takes; all of them are applied again to what comes back."""
_CONTEXT = re.compile(r"context[ _](?:length|window|size)|too many tokens|too long", re.IGNORECASE)
_LIMIT = re.compile(r"context (?:length|window|size)(?: is| of)?(?: only)? (\d+)", re.IGNORECASE)
_PROMPT = re.compile(
    r"(\d+) (?:tokens )?in the (?:messages|prompt)|(\d+) (?:input|prompt) tokens", re.IGNORECASE
)


class OpenAIModel:
    """A model behind ``openai:<model>@<base url>``.

    Args:
        recipe: the address, the API (``chat`` or ``completions``), the name of the environment
            variable with the key, retries, timeout, context window and prices.

    Raises:
        ModelError: the address cannot be read, or the key is missing.
    """

    def __init__(self, recipe: ModelRecipe) -> None:
        self.address = recipe.address
        self._recipe = recipe
        self._name, self._url = _split(recipe.address)
        local = _is_loopback(urlsplit(self._url).hostname or "")
        self._key = _key(recipe.api_key_env, self._url, local=local)
        # A proxy set for the outside world does not reach a server on this machine.
        client = openai.DefaultAsyncHttpxClient(
            trust_env=not local, event_hooks={"response": [_spare_retries]}
        )
        self._client = openai.AsyncOpenAI(
            api_key=self._key,
            base_url=self._url,
            max_retries=recipe.max_retries,
            timeout=recipe.timeout,
            http_client=client,
        )

    def __repr__(self) -> str:
        return f"OpenAIModel({self.address!r})"

    async def generate(self, request: Request) -> Completion:
        """Ask the server. Raises as ``Model.generate`` says."""
        budget = request.sampling.max_tokens
        if self._recipe.context is not None:
            used = estimate_tokens(prompt_text(request.prompt))
            budget = completion_budget(self._recipe.context, used, budget)
        start = time.monotonic()
        try:
            text = await self._post(request, budget)
        except _TooLong as error:
            # Only the server can count exactly: where it says how much room is left, that is used.
            if error.room is None or error.room >= budget:
                raise ContextLimitError(str(error)) from None
            budget = completion_budget(error.room, 0, budget)
            text = await self._post(request, budget)
        reply = self._read(text)
        return reply.completion(request, budget, time.monotonic() - start, self._recipe.price_per_million)

    def forget(self, session: str) -> None:
        """Nothing is kept between calls."""

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _read(self, text: str) -> Reply:
        try:
            return read_reply(text)
        except ValueError as error:
            raise ModelError(f"{self._url} did not answer as an OpenAI-compatible server: {error}") from None

    async def _post(self, request: Request, budget: int) -> str:
        """The body of the answer."""
        body = self._body(request, budget)
        create: Any = (
            self._client.chat.completions.with_raw_response.create
            if self._recipe.api == "chat"
            else self._client.completions.with_raw_response.create
        )
        try:
            return (await create(**body)).text
        except openai.APIStatusError as error:
            raise self._refused(error) from None
        except openai.APITimeoutError:
            raise ModelError(f"{self._url} did not answer within {self._recipe.timeout:g} seconds") from None
        except openai.APIConnectionError as error:
            raise ModelError(
                f"{self._url} cannot be reached ({self._safe(error.__cause__ or error)}):"
                " check the address and that the server runs"
            ) from None
        except (openai.OpenAIError, httpx2.HTTPError, ValueError) as error:
            raise ModelError(f"{self._url} could not be asked: {self._safe(error)}") from None

    def _body(self, request: Request, budget: int) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._name,
            "temperature": request.sampling.temperature,
            "top_p": request.sampling.top_p,
            # Some servers read seeds as 32-bit numbers.
            "seed": request.seed & 0x7FFFFFFF,
        }
        if request.prompt.stop:
            body["stop"] = list(request.prompt.stop[:MAX_STOPS])
        if self._recipe.api == "chat":
            body["messages"] = chat_messages(request.prompt)
            # OpenAI's reasoning models refuse the old name, most other servers know only that.
            official = urlsplit(self._url).hostname == "api.openai.com"
            body["max_completion_tokens" if official else "max_tokens"] = budget
        elif isinstance(request.prompt, ChatPrompt):
            raise ModelError(
                f"{self.address!r} takes raw text (api: completions) but the prompt is a conversation:"
                " use renderer text, or api chat"
            )
        else:
            body["prompt"] = clean_text(request.prompt.text)
            body["max_tokens"] = budget
        return body

    def _refused(self, error: openai.APIStatusError) -> ModelError:
        status, message = error.status_code, self._safe(error)
        if _is_quota(error.body):
            return QuotaError(f"{self._url} has no quota left for this key: {message}")
        if status in {401, 403}:
            return ModelError(
                f"{self._url} refused the key in {self._recipe.api_key_env} (status {status}): set another"
            )
        if status in {400, 413, 422} and _CONTEXT.search(f"{error.code} {message}"):
            return _TooLong(f"{self._url}: {message}", _room(message))
        if status == 404:
            return ModelError(f"{self._url} has no model {self._name!r} or no such API: {message}")
        return ModelError(f"{self._url} answered with status {status}: {message}")

    def _safe(self, error: object) -> str:
        """An error's text on one line, short, without the key."""
        text = " ".join(clean_text(str(error)).split()).replace(self._key, "***")
        return text if len(text) <= 300 else text[:299] + "…"


class _TooLong(ContextLimitError):
    """The server says that prompt and completion do not fit; ``room`` is what the prompt leaves."""

    def __init__(self, message: str, room: int | None) -> None:
        super().__init__(message)
        self.room = room


async def _spare_retries(response: httpx2.Response) -> None:
    """Tell the SDK not to retry a 429 that waiting cannot mend."""
    if response.status_code != 429:
        return
    await response.aread()
    try:
        body: Any = json.loads(response.content)
    except (ValueError, RecursionError):
        return
    if _is_quota(body):
        response.headers["x-should-retry"] = "false"


def _is_quota(body: Any) -> bool:
    error = body.get("error", body) if isinstance(body, dict) else None
    return isinstance(error, dict) and "insufficient_quota" in (error.get("code"), error.get("type"))


def _room(message: str) -> int | None:
    limit, prompt = _LIMIT.search(message), _PROMPT.search(message)
    if limit is None or prompt is None:
        return None
    return int(limit[1]) - int(prompt[1] or prompt[2])


def _split(address: str) -> tuple[str, str]:
    """The model's name and the base url."""
    found = resolve(address)
    if found.kind != "openai":
        raise ModelError(f"{address!r} is not of the form openai:<model>@<base url>")
    try:
        parts = urlsplit(found.base_url)
        _ = parts.port
    except ValueError as error:
        raise ModelError(f"the base url of model {found.name!r} cannot be read: {error}") from None
    if parts.query or parts.fragment:
        raise ModelError(
            f"the address of model {found.name!r} holds more than a plain base url:"
            " put the key in an environment variable and name that in api_key_env"
        )
    return found.name, found.base_url


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _key(variable: str, url: str, *, local: bool) -> str:
    key = os.environ.get(variable, "").strip()
    if not key:
        if local:
            return "EMPTY"
        raise ModelError(f"{url} needs a key: set the environment variable {variable}")
    if not (key.isascii() and key.isprintable()):
        raise ModelError(f"the key in {variable} holds characters that no key has: set it again")
    return key
