"""Asking a MediaWiki API politely: with a contact, one request at a time, waiting when told to.

What comes back is read as hostile: it may be late, cut, endless, or no JSON at all.
"""

from __future__ import annotations

import ipaddress
import json
import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import tenacity

from pipeline import __version__
from pipeline.environments.wiki.titles import clean
from pipeline.errors import EnvironmentFault, RecipeError

MAX_BYTES = 32_000_000
"""Bytes of an unpacked answer; a longer one is refused."""
MAX_WAIT = 120.0
"""Seconds that a server may ask to wait. One that asks for more is not waited for."""
MAX_LAG = 5
"""Seconds the wiki's databases may lag before it should rather refuse (API etiquette)."""

_BUSY = frozenset({429, 500, 502, 503, 504})
_BUSY_CODES = ("maxlag", "ratelimited", "readonly", "internal_api_error")
_CONTACT = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+|https?://[^\s/]+\.[^\s/]+")
_locks: dict[str, threading.Lock] = {}
_locks_lock = threading.Lock()


class ApiError(EnvironmentFault):
    """The wiki understood the request and refused it; ``code`` is its word for why."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class _Busy(EnvironmentFault):
    """Asking again may help, after ``wait`` seconds if the server said so."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class MediaWikiClient:
    """The API of one wiki. Safe to use from several threads; they ask one after the other.

    Args:
        url: the address of ``api.php``.
        user_agent: an address or web page where the wiki's operators reach whoever runs this.
        max_retries: further attempts after the first one failed in a way that may pass.
        timeout: seconds for one answer, from the request to its last byte.
        sleep: waits that many seconds (replaced in tests).

    Raises:
        RecipeError: the address is no address, or the User-Agent names no contact.
    """

    def __init__(
        self, url: str, user_agent: str, max_retries: int, timeout: float, sleep: Callable[[float], None]
    ) -> None:
        host = check_url(url)
        self._url = url
        self._timeout = timeout
        self._lock = _host_lock(urlsplit(url).netloc.lower())
        self._client = httpx2.Client(
            headers={"User-Agent": _agent(user_agent), "Accept-Encoding": "gzip"},
            timeout=timeout,
            # A proxy set for the outside world does not reach a server on this machine.
            trust_env=not _is_loopback(host),
        )
        self._retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_Busy),
            stop=tenacity.stop_after_attempt(max_retries + 1),
            wait=_wait,
            sleep=sleep,
            reraise=True,
        )

    def get(self, **parameters: str) -> dict[str, Any]:
        """The API's answer, an object.

        Raises:
            ApiError: the API refused the request.
            EnvironmentFault: the wiki cannot be reached, stays busy, or does not answer as MediaWiki.
        """
        asked = {**parameters, "format": "json", "formatversion": "2", "maxlag": str(MAX_LAG)}
        # Waiting keeps the lock: whoever comes next would only be told to wait as well.
        with self._lock:
            return self._retrying(self._once, asked)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _once(self, parameters: dict[str, str]) -> dict[str, Any]:
        try:
            with self._client.stream("GET", self._url, params=parameters) as response:
                self._check(response)
                body = self._body(response)
        except httpx2.TimeoutException:
            raise self._late() from None
        except httpx2.HTTPError as error:
            raise _Busy(f"{self._url} cannot be reached ({_short(error)}): check the network") from None
        except RuntimeError as error:
            raise EnvironmentFault(f"{self._url} cannot be asked: {_short(error)}") from None
        return self._read(body, _retry_after(response.headers.get("Retry-After")))

    def _check(self, response: httpx2.Response) -> None:
        status = response.status_code
        if status in _BUSY:
            wait = _retry_after(response.headers.get("Retry-After"))
            if wait is not None and wait > MAX_WAIT:
                raise EnvironmentFault(
                    f"{self._url} asks to wait {wait:.0f} seconds (status {status}): run this again later"
                )
            raise _Busy(f"{self._url} is busy (status {status}): run this again later", wait)
        if status == 403:
            raise EnvironmentFault(
                f"{self._url} refused the request (status 403): wikis do so when the User-Agent names no real"
                " contact; set wiki.user_agent or STARACT_USER_AGENT to your address or web page"
            )
        if status != 200:
            raise EnvironmentFault(
                f"{self._url} answered with status {status}:"
                " set wiki.url to the address of a MediaWiki api.php"
            )

    def _body(self, response: httpx2.Response) -> bytes:
        # The client's own time-outs start afresh with every byte.
        end = time.monotonic() + self._timeout
        body = bytearray()
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > MAX_BYTES:
                raise EnvironmentFault(f"{self._url} answered with more than {MAX_BYTES} bytes")
            if time.monotonic() > end:
                raise self._late()
        return bytes(body)

    def _read(self, body: bytes, wait: float | None) -> dict[str, Any]:
        try:
            answer: object = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise _Busy(
                f"{self._url} did not answer in JSON: set wiki.url to the address of a MediaWiki api.php"
            )
        found = cast("dict[str, Any]", answer)
        if "error" not in found:
            return found
        error: Any = found["error"]
        code, info = (error.get("code"), error.get("info")) if isinstance(error, dict) else (None, error)
        message = f"{self._url} answered with the error {_short(code)!r}: {_short(info)}"
        if str(code).startswith(_BUSY_CODES) or str(code).endswith("too-busy-error"):
            raise _Busy(message, None if wait is None else min(wait, MAX_WAIT))
        raise ApiError(message, str(code))

    def _late(self) -> _Busy:
        return _Busy(f"{self._url} did not answer within {self._timeout:g} seconds")


def check_url(url: str) -> str:
    """The host of a wiki's address.

    Raises:
        RecipeError: it is not the plain web address of an ``api.php``.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
        host = parts.hostname
        httpx2.URL(url)
    except (ValueError, httpx2.InvalidURL):
        host, parts = None, urlsplit("")
    if (
        not host
        or parts.scheme not in {"http", "https"}
        or parts.query
        or parts.fragment
        or "@" in parts.netloc
    ):
        raise RecipeError(
            "wiki.url must be the plain address of a MediaWiki api.php,"
            " such as https://en.wikipedia.org/w/api.php, without name, password or query"
        )
    return host


def _agent(contact: str) -> str:
    contact = contact.strip()
    if not _CONTACT.search(contact) or not (contact.isascii() and contact.isprintable()):
        raise RecipeError(
            "a live wiki must know whom to contact, or it answers 403: set wiki.user_agent, or the"
            " environment variable STARACT_USER_AGENT, to your mail address or web page (plain ASCII)"
        )
    return f"staract/{__version__} ({contact})"


def _host_lock(host: str) -> threading.Lock:
    with _locks_lock:
        return _locks.setdefault(host, threading.Lock())


def _wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, _Busy) and error.wait is not None:
        return error.wait
    return min(2.0 ** (state.attempt_number - 1), 60.0)


def _retry_after(value: str | None) -> float | None:
    """Seconds from a header that holds a number of them or a date; None if it holds neither."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9]) if len(text) < 10 else float("1e9")
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _short(value: object) -> str:
    """Text from outside on one short line."""
    text = clean(str(value)[:1000])
    return text if len(text) <= 200 else f"{text[:199]}…"
