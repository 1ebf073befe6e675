"""The database of a local wiki: pages by the key of their title, and other titles that lead to them."""

from __future__ import annotations

import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from pipeline.environments.wiki.backend import Page
from pipeline.environments.wiki.titles import fold

FORMAT: Final = "2"

PAGES: Final = "pages.sqlite"
"""The database within a wiki's folder."""

TITLES: Final = "titles"
"""The title index within a wiki's folder."""

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS pages (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, title TEXT NOT NULL, text NOT NULL, UNIQUE (key, title)
);
CREATE TABLE IF NOT EXISTS redirects (
    key TEXT NOT NULL, page INTEGER NOT NULL, rank INTEGER NOT NULL, PRIMARY KEY (key, page)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value NOT NULL);
"""
# The key is a function of the title, so that (key, title) is unique where titles are; one index
# serves exact titles, folded titles, and the title index, which is filled from it.

_CACHE: Final = 64 * 1024
"""KiB of the database that a build keeps in memory."""

_COMPRESSED: Final = 256
"""Bytes from which on compressing a text pays."""

# Signs that no page shows: control characters other than line feed and tab, and lone surrogates.
_HIDDEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def create(path: Path) -> sqlite3.Connection:
    """The database of a build, new or begun; this process alone may use it until it is closed.

    Raises:
        sqlite3.Error: it is damaged, or another process builds it.
    """
    connection = sqlite3.connect(path, isolation_level=None, timeout=1)
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA cache_size = -{_CACHE}")
    connection.executescript(_TABLES)
    return connection


def create_in_memory() -> sqlite3.Connection:
    """A database without a folder."""
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    connection.executescript(_TABLES)
    return connection


def open_read_only(path: Path) -> sqlite3.Connection:
    """The database of a wiki that is whole; it never changes.

    Raises:
        sqlite3.Error: it cannot be opened.
    """
    address = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    return sqlite3.connect(address, uri=True, check_same_thread=False)


def free_memory(connection: sqlite3.Connection) -> None:
    """Give back what adding pages needed; reading them in order needs little."""
    connection.execute("PRAGMA cache_size = -2048")
    connection.execute("PRAGMA shrink_memory")


def seal(connection: sqlite3.Connection) -> None:
    """End a build: the journal is folded into the one file, which a read-only folder may hold."""
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


def add_pages(connection: sqlite3.Connection, pages: Sequence[Page]) -> int:
    """Add pages; of those of the same title the first stays. Gives how many are new."""
    rows = [(fold(page.title), page.title, pack(page.text)) for page in pages]
    cursor = connection.executemany("INSERT OR IGNORE INTO pages (key, title, text) VALUES (?, ?, ?)", rows)
    return max(cursor.rowcount, 0)


def add_redirects(connection: sqlite3.Connection, pairs: Iterable[tuple[int, tuple[str, str]]]) -> int:
    """Add other titles (rank, (other title, title of the page)). Gives how many are new.

    One that hides a page, or leads to none, is left out.
    """
    added = 0
    for rank, (source, title) in pairs:
        key = fold(source)
        target = page_number(connection, title)
        if not key or target is None or connection.execute(_OWN, (key,)).fetchone():
            continue
        row = (key, target, rank)
        added += connection.execute("INSERT OR IGNORE INTO redirects VALUES (?, ?, ?)", row).rowcount
    return added


_OWN: Final = "SELECT 1 FROM pages WHERE key = ? LIMIT 1"


def page_number(connection: sqlite3.Connection, title: str) -> int | None:
    """The number of the page of exactly this title."""
    query = "SELECT id FROM pages WHERE key = ? AND title = ?"
    found = connection.execute(query, (fold(title), title)).fetchone()
    return int(found[0]) if found else None


def keys(connection: sqlite3.Connection, skip: int = 0) -> Iterator[tuple[str, str, int]]:
    """Key, title and number of every page, in the order of keys; ``skip`` leaves out the first."""
    query = "SELECT key, title, id FROM pages ORDER BY key, title LIMIT -1 OFFSET ?"
    return connection.execute(query, (skip,))


def pack(text: str) -> str | bytes:
    """A text as the database holds it: compressed where that makes it shorter."""
    text = _HIDDEN.sub(" ", text)
    data = text.encode()
    if len(data) < _COMPRESSED:
        return text
    packed = zlib.compress(data, 1)
    return packed if len(packed) < len(data) else text


def unpack(stored: str | bytes) -> str:
    """The text of a page.

    Raises:
        zlib.error: the database is damaged.
    """
    return zlib.decompress(stored).decode() if isinstance(stored, bytes) else stored


def get_meta(connection: sqlite3.Connection, name: str) -> str | None:
    """What ``set_meta`` wrote under a name."""
    found = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return str(found[0]) if found else None


def set_meta(connection: sqlite3.Connection, name: str, value: str) -> None:
    """Write a value under a name."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))


def sign(connection: sqlite3.Connection, version: str) -> None:
    """Write the format and the version: the database is whole."""
    set_meta(connection, "format", FORMAT)
    set_meta(connection, "version", version)
