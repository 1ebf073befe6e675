"""A live MediaWiki: pages as they stand today, recorded on the way so that a run can be replayed.

A page found by its title or a redirect costs one request, a title that the wiki does not have two,
and one that it has in another spelling three.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from pipeline.environments.wiki.backend import SIMILAR, Meanings, Page
from pipeline.environments.wiki.cache import FORMAT, AnswerCache, DamagedEntry
from pipeline.environments.wiki.client import ApiError, MediaWikiClient, check_url
from pipeline.environments.wiki.html import clean_html
from pipeline.environments.wiki.titles import MAX_QUERY, clean
from pipeline.errors import EnvironmentFault

WIKIPEDIA = "https://en.wikipedia.org/w/api.php"
AGENT_VARIABLE = "STARACT_USER_AGENT"

_NO_PAGE = frozenset({"missingtitle", "invalidtitle", "pagecannotexist", "nosuchpageid", "missingcontent"})
_BAD_QUERY = ("cirrussearch-parse", "cirrussearch-regex", "cirrussearch-query", "search-error")
"""Errors of a search that the words searched for bring about, not the wiki."""
_AMBIGUOUS = "may refer to:"
_STRIPES = 64


class LiveWiki:
    """A ``WikiBackend`` over the API of a MediaWiki, such as Wikipedia.

    ``version`` tells the wiki and how its pages are read, not their contents: those change every day.
    Runs that must agree share a recorded cache. Requests are serial for each host within one process;
    several processes should play from a cache.

    Args:
        cache: the folder where answers are recorded and looked for first; None records nothing.
        offline: answer from the cache alone.
        user_agent: an address or web page where the wiki's operators reach you; if empty, the
            environment variable STARACT_USER_AGENT. It is sent and never stored.
        url: the address of the wiki's ``api.php``; it decides the language.
        max_retries: further attempts when the wiki is busy or cannot be reached.
        timeout: seconds for one answer.
        sleep: waits that many seconds (replaced in tests).

    Raises:
        RecipeError: the User-Agent names no contact, or the address is no address.
        EnvironmentFault: offline without a recorded cache.
    """

    def __init__(
        self,
        cache: Path | None = None,
        *,
        offline: bool = False,
        user_agent: str = "",
        url: str = WIKIPEDIA,
        max_retries: int = 5,
        timeout: float = 30.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        check_url(url)
        if offline and (cache is None or not cache.is_dir()):
            raise EnvironmentFault(
                f"an offline wiki needs a recorded cache and {str(cache)!r} is none:"
                " set wiki.cache to its folder, or record one with offline: false"
            )
        self._cache = AnswerCache(cache, url) if cache is not None else None
        self._url = url
        self._client = None
        if not offline:
            agent = user_agent or os.environ.get(AGENT_VARIABLE, "")
            self._client = MediaWikiClient(url, agent, max_retries, timeout, sleep)
        # Two searches for one title wait for each other: the second finds what the first recorded.
        self._stripes = [threading.Lock() for _ in range(_STRIPES)]
        self.version = f"live-{hashlib.sha256(f'{FORMAT} {url}'.encode()).hexdigest()[:12]}"

    def find(self, title: str) -> Page | list[str]:
        """The page of a title, the titles that an ambiguous one may mean, or similar ones."""
        # Cut before and after: a composed title is never longer, and nothing unbounded is composed.
        title = unicodedata.normalize("NFC", clean(title[: 4 * MAX_QUERY]))[:MAX_QUERY].strip()
        if not title:
            return []
        with self._stripes[hash(title) % _STRIPES]:
            found = self._recorded(title)
            if found is None:
                found = self._ask(title)
                if self._cache is not None:
                    self._cache.put(title, found)
        return found

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()

    def _recorded(self, title: str) -> Page | list[str] | None:
        try:
            return None if self._cache is None else self._cache.get(title)
        except DamagedEntry:
            if self._client is None:
                raise
            return None

    def _ask(self, title: str) -> Page | list[str]:
        if self._client is None:
            where = self._cache.folder if self._cache else None
            raise EnvironmentFault(
                f"no answer to a search for {title!r} is recorded in {where} and the wiki is offline:"
                " record it with offline: false"
            )
        found = self._page(title)
        if found:
            return found
        near, similar = self._search(title)
        if near and near != title:
            found = self._page(near)
        return found or similar

    def _page(self, title: str) -> Page | list[str] | None:
        """A page, or what an ambiguous one lists; nothing if there is no page or no text in it."""
        shown = {"prop": "text|properties", "disablelimitreport": "1", "disableeditsection": "1"}
        try:
            answer = self._get(action="parse", page=title, redirects="1", **shown)
        except ApiError as error:
            if error.code in _NO_PAGE:
                return None
            raise
        parsed = _object(answer.get("parse"))
        name, text = parsed.get("title"), parsed.get("text")
        # Older wikis wrap the text in an object.
        text = _object(text).get("*") if isinstance(text, dict) else text
        if not isinstance(name, str) or not isinstance(text, str):
            raise EnvironmentFault(f"{self._url} answered without the text of the page {title!r}")
        cleaned = clean_html(text)
        ambiguous = "disambiguation" in _properties(parsed.get("properties"))
        if ambiguous or any(_AMBIGUOUS in line for line in cleaned.paragraphs[:1]):
            return Meanings([link for link in cleaned.links if link != name][:SIMILAR])
        return Page(clean(name), cleaned.text) if cleaned.text else None

    def _search(self, title: str) -> tuple[str, list[str]]:
        """The page that "Go" would open, if any, and the titles of the first results."""
        near = {"generator": "search", "gsrsearch": title, "gsrwhat": "nearmatch", "gsrlimit": "1"}
        listed = {"list": "search", "srsearch": title, "srlimit": str(SIMILAR), "srprop": "", "srinfo": ""}
        try:
            answer = self._get(action="query", **near, **listed, srenablerewrites="1")
        except ApiError as error:
            if error.code.startswith(_BAD_QUERY):
                return "", []
            raise
        query = _object(answer.get("query"))
        pages, results = _titles(query.get("pages")), _titles(query.get("search"))
        return (pages[0] if pages else ""), list(dict.fromkeys(results))[:SIMILAR]

    def _get(self, **parameters: str) -> dict[str, Any]:
        if self._client is None:
            raise EnvironmentFault("the wiki is offline")
        return self._client.get(**parameters)


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _titles(found: Any) -> list[str]:
    """The titles in a list of pages or results (older wikis give pages by their number)."""
    entries = list(_object(found).values()) or (cast("list[Any]", found) if isinstance(found, list) else [])
    titles = (_object(entry).get("title") for entry in entries if not _object(entry).get("missing"))
    return [clean(title) for title in titles if isinstance(title, str) and clean(title)]


def _properties(found: Any) -> set[str]:
    """The names of a page's properties, from an object or from older wikis' list."""
    if isinstance(found, dict):
        return {str(name) for name in cast("dict[str, Any]", found)}
    entries: list[Any] = found if isinstance(found, list) else []
    return {str(_object(entry).get("name")) for entry in entries}
