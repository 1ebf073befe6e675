"""An OpenAI-compatible server: its address, its key, and its failures in our words."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

import openai

from pipeline.errors import ContextLimitError, ModelError, QuotaError
from pipeline.models.addresses import resolve
from pipeline.models.refusals import is_context, is_quota, room_left
from pipeline.recipe.models import ModelRecipe
from pipeline.trajectories.files import clean_text

_LOGIN = re.compile(r"https?://[^/?#]*@", re.IGNORECASE)


class TooLongError(ContextLimitError):
    """The server says that prompt and completion do not fit; ``room`` is what the prompt leaves."""

    def __init__(self, message: str, room: int | None) -> None:
        super().__init__(message)
        self.room = room


@dataclass(frozen=True)
class Endpoint:
    """A model on a server. ``local`` is one on this machine, which needs no key and no proxy."""

    name: str
    url: str
    key_env: str
    key: str = field(repr=False)
    timeout: float
    local: bool

    @classmethod
    def of(cls, recipe: ModelRecipe) -> Self:
        """The endpoint that a recipe names.

        Raises:
            ModelError: the address cannot be read or holds secrets, or the key is missing.
        """
        name, url = _split(recipe.address)
        local = _is_loopback(urlsplit(url).hostname or "")
        key = _key(recipe.api_key_env, url, local=local)
        return cls(name, url, recipe.api_key_env, key, recipe.timeout, local)

    def failure(self, error: Exception) -> ModelError:
        """What the SDK raised, as one sentence."""
        if isinstance(error, openai.APIStatusError):
            return self._refusal(error)
        if isinstance(error, openai.APITimeoutError):
            return ModelError(f"{self.url} did not answer within {self.timeout:g} seconds")
        if isinstance(error, openai.APIConnectionError):
            return ModelError(
                f"{self.url} cannot be reached ({self.safe(error.__cause__ or error)}):"
                " check the address and that the server runs"
            )
        return ModelError(f"{self.url} could not be asked: {self.safe(error)}")

    def known_reason(self, error: openai.APIError) -> ModelError | None:
        """The reasons that callers tell apart, whether they come as a status or within a stream."""
        status = error.status_code if isinstance(error, openai.APIStatusError) else None
        message = self.safe(error)
        if is_quota(status, error.body):
            return QuotaError(f"{self.url} has no quota left for this key: {message}")
        if status in {None, 400, 413, 422} and is_context(error.code, message):
            return TooLongError(f"{self.url}: {message}", room_left(message))
        return None

    @contextmanager
    def reading(self) -> Generator[None]:
        """Turns a ``ValueError`` about what the server answered into a ``ModelError``."""
        try:
            yield
        except ValueError as error:
            raise ModelError(
                f"{self.url} did not answer as an OpenAI-compatible server: {self.safe(error)}"
            ) from None

    def safe(self, error: object) -> str:
        """An error's text on one line, short, without the key."""
        text = " ".join(clean_text(str(error)).split()).replace(self.key, "***")
        return text if len(text) <= 300 else text[:299] + "…"

    def _refusal(self, error: openai.APIStatusError) -> ModelError:
        status, message = error.status_code, self.safe(error)
        reason = self.known_reason(error)
        if reason is not None:
            return reason
        if status in {401, 403}:
            return ModelError(f"{self.url} refused the key in {self.key_env} (status {status}): set another")
        if status == 404:
            return ModelError(f"{self.url} has no model {self.name!r} or no such API: {message}")
        return ModelError(f"{self.url} answered with status {status}: {message}")


def _split(address: str) -> tuple[str, str]:
    """The model's name and the base url."""
    if _LOGIN.search(address):
        raise ModelError(
            "the base url of an openai: address holds a login (user:password@), which would be written down:"
            " put the key in an environment variable and name that in api_key_env"
        )
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
