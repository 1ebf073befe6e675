"""A wiki on this machine: SQLite finds a page by its title, tantivy finds similar titles.

Without a folder everything is kept in memory and the title index is built at the first search that
misses; with a folder both are built once and opened afterwards. ``staract wiki build`` makes a folder
from a data set: see ``build.py``.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pipeline.environments.wiki import store
from pipeline.environments.wiki.backend import SIMILAR, Meanings, Page
from pipeline.environments.wiki.build import build_folder, fill
from pipeline.environments.wiki.index import TitleIndex
from pipeline.environments.wiki.titles import MAX_QUERY, clean, fold
from pipeline.errors import EnvironmentFault

_BY_KEY: Final = "SELECT title, text FROM pages WHERE key = ? ORDER BY title = ? DESC, title"
_BY_OTHER: Final = (
    "SELECT title, text FROM redirects JOIN pages ON pages.id = redirects.page"
    " WHERE redirects.key = ? ORDER BY rank"
)
_AMBIGUOUS: Final = re.compile(r"\b(?:may|can) (?:also )?refer to:|\bcommonly refers to:")
_LISTED: Final = 200
"""Lines of a disambiguation page that are read."""

_CUT: Final = re.compile(r",|:| [–—-] |\(\d{4}|\)\s")


class LocalWiki:
    """A ``WikiBackend`` over a local store. Make one with ``build`` or ``open``."""

    def __init__(self, connection: sqlite3.Connection, index: Path | None = None) -> None:
        self._connection = connection
        self._index_folder = index
        self._lock = threading.Lock()
        self._index_lock = threading.Lock()
        self._index: TitleIndex | None = None
        self.version = str(self._rows("SELECT value FROM meta WHERE name = 'version'")[0][0])

    @classmethod
    def build(
        cls,
        pages: Iterable[Page],
        redirects: Iterable[tuple[str, str]] = (),
        *,
        version: str = "",
        folder: Path | None = None,
    ) -> LocalWiki:
        """Build a wiki from pages and redirects (other title, title).

        Of pages of the same title the first counts. Another title that leads to several pages is
        ambiguous. With a folder, the wiki is written beside it first and appears there only when it
        is whole.

        Raises:
            EnvironmentFault: the folder exists already, or cannot be written.
        """
        if folder is None:
            connection = store.create_in_memory()
            fill(connection, pages, redirects, version)
            return cls(connection)
        build_folder(folder, pages, redirects, version)
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> LocalWiki:
        """Open a wiki that ``build`` wrote.

        Raises:
            EnvironmentFault: there is none, or it is damaged or of another format.
        """
        path = folder / store.PAGES
        if not path.is_file():
            raise EnvironmentFault(
                f"{folder} holds no wiki (no {store.PAGES}): build it with staract wiki build"
            )
        try:
            connection = store.open_read_only(path)
            if store.get_meta(connection, "format") != store.FORMAT:
                raise EnvironmentFault(
                    f"{folder} has another wiki format than {store.FORMAT!r}: build it again"
                )
            return cls(connection, folder / store.TITLES)
        except sqlite3.Error as error:
            raise EnvironmentFault(f"the wiki {folder} cannot be read ({error}): build it again") from error

    def find(self, title: str) -> Page | list[str]:
        """The page of a title, the titles that an ambiguous one may mean, or similar ones."""
        title = unicodedata.normalize("NFC", clean(title[: MAX_QUERY * 4]))
        key = fold(title)
        found = self._rows(_BY_KEY, key, title) or self._rows(_BY_OTHER, key)
        if not found:
            return self._similar(key)
        if len(found) > 1 and found[0][0] != title:
            return Meanings(str(row[0]) for row in found[:SIMILAR])
        page = Page(str(found[0][0]), _unpacked(found[0][1]))
        return self._meant(page) if _AMBIGUOUS.search(page.text.lstrip().partition("\n")[0]) else page

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def _rows(self, query: str, *values: str | int) -> list[tuple[str | bytes, ...]]:
        try:
            with self._lock:
                return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise EnvironmentFault(f"the wiki cannot be read: {error}") from error

    def _meant(self, page: Page) -> Meanings:
        """The titles that a disambiguation page lists and that exist, else those like its own."""
        found: dict[str, None] = {}
        for line in page.text.split("\n")[1 : _LISTED + 1]:
            listed = next((name for text in _beginnings(line) if (name := self._known(text))), None)
            if listed and listed != page.title:
                found[listed] = None
            if len(found) == SIMILAR:
                break
        similar = () if found else self._similar(fold(page.title))
        return Meanings(found or (name for name in similar if name != page.title))

    def _known(self, text: str) -> str | None:
        rows = self._rows(
            "SELECT title FROM pages WHERE key = ? ORDER BY title = ? DESC, title", fold(text), text
        )
        return str(rows[0][0]) if rows else None

    def _similar(self, key: str) -> list[str]:
        with self._index_lock:
            if self._index is None:
                self._index = self._open_index()
        return self._index.similar(key[:MAX_QUERY])

    def _open_index(self) -> TitleIndex:
        if self._index_folder:
            return TitleIndex.open(self._index_folder)
        index = TitleIndex.create()
        with self._lock:
            index.add(store.keys(self._connection))
        return index


def _unpacked(stored: str | bytes) -> str:
    try:
        return store.unpack(stored)
    except (zlib.error, UnicodeDecodeError) as error:
        raise EnvironmentFault(f"the text of a page is damaged ({error}): build the wiki again") from error


def _beginnings(line: str) -> Iterator[str]:
    """What of a line may be a title: all of it, or up to a comma, a dash or what follows brackets."""
    line = line.strip(" \t*•-–")[: MAX_QUERY * 4]
    if not line:
        return
    yield line
    ends = [match.end() if match[0][0] == ")" else match.start() for match in _CUT.finditer(line)]
    yield from (line[:end].strip() for end in reversed(ends) if end)
