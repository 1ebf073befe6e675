"""A wiki on this machine: SQLite finds a page by its title, tantivy ranks similar titles.

Without a folder everything is kept in memory and the ranked index is built at the first search that
misses; with a folder both are built once and opened afterwards.
"""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tantivy

from pipeline.environments.wiki.backend import SIMILAR, Page
from pipeline.environments.wiki.titles import MAX_QUERY, clean, fold, trigrams, words
from pipeline.errors import EnvironmentFault

FORMAT = "1"
_TABLES = """
CREATE TABLE pages (title TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE keys (key TEXT NOT NULL, title TEXT NOT NULL, rank INTEGER NOT NULL);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
_CANDIDATES = 4 * SIMILAR
_TERMS = 64
_WORD_WEIGHT = 2.0


class LocalWiki:
    """A ``WikiBackend`` over a local store. Make one with ``build`` or ``open``."""

    def __init__(self, connection: sqlite3.Connection, index: Path | None = None) -> None:
        self._connection = connection
        self._index_path = index
        self._lock = threading.Lock()
        self._ranked: tuple[Any, Any] | None = None
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

        Another title that leads to several pages is ambiguous. With a folder, the wiki is written
        beside it first and appears there only when it is whole.

        Raises:
            EnvironmentFault: the folder exists already, or cannot be written.
        """
        if folder is None:
            connection = sqlite3.connect(":memory:", check_same_thread=False)
            _fill(connection, pages, redirects, version)
            return cls(connection)
        if folder.exists():
            raise EnvironmentFault(f"{folder} exists already: delete it to build the wiki again")
        partial = folder.with_name(f"{folder.name}.partial")
        try:
            shutil.rmtree(partial, ignore_errors=True)
            (partial / "titles").mkdir(parents=True)
            connection = sqlite3.connect(partial / "pages.sqlite")
            _fill(connection, pages, redirects, version)
            _title_index(_titles(connection), partial / "titles")
            connection.close()
            partial.rename(folder)
        except (OSError, sqlite3.Error) as error:
            raise EnvironmentFault(f"the wiki {folder} cannot be written: {error}") from error
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> LocalWiki:
        """Open a wiki that ``build`` wrote.

        Raises:
            EnvironmentFault: there is none, or it is damaged or of another format.
        """
        path = folder / "pages.sqlite"
        if not path.is_file():
            raise EnvironmentFault(f"{folder} holds no wiki (no pages.sqlite): build it first")
        try:
            connection = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False
            )
            found = connection.execute("SELECT value FROM meta WHERE name = 'format'").fetchone()
            if found != (FORMAT,):
                raise EnvironmentFault(f"{folder} has another wiki format than {FORMAT!r}: build it again")
            return cls(connection, folder / "titles")
        except sqlite3.Error as error:
            raise EnvironmentFault(f"the wiki {folder} cannot be read ({error}): build it again") from error

    def find(self, title: str) -> Page | list[str]:
        """The page of a title, the titles that an ambiguous one may mean, or similar ones."""
        title = clean(title[: MAX_QUERY * 4])
        exact = self._rows("SELECT title, text FROM pages WHERE title = ?", title)
        if exact:
            return Page(*exact[0])
        meant = [
            row[0] for row in self._rows("SELECT title FROM keys WHERE key = ? ORDER BY rank", fold(title))
        ]
        if len(meant) == 1:
            return Page(*self._rows("SELECT title, text FROM pages WHERE title = ?", meant[0])[0])
        return meant[:SIMILAR] or self._similar(title)

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def _rows(self, query: str, *values: str) -> list[tuple[str, ...]]:
        try:
            with self._lock:
                return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise EnvironmentFault(f"the wiki cannot be read: {error}") from error

    def _similar(self, title: str) -> list[str]:
        key = fold(title)[:MAX_QUERY]
        if not words(key):
            return []
        with self._lock:
            if self._ranked is None:
                index = _open_index(self._index_path, self._connection)
                self._ranked = index.searcher(), index.schema
        searcher, schema = self._ranked
        hits = searcher.search(_query(schema, key), _CANDIDATES).hits
        scored = [(-round(score, 3), str(searcher.doc(address)["title"][0])) for score, address in hits]
        return [name for _, name in sorted(scored)[:SIMILAR]]


def _fill(
    connection: sqlite3.Connection,
    pages: Iterable[Page],
    redirects: Iterable[tuple[str, str]],
    version: str,
) -> None:
    connection.executescript(_TABLES)
    connection.executemany(
        "INSERT OR IGNORE INTO pages VALUES (?, ?)", ((page.title, page.text) for page in pages)
    )
    own = [(fold(title), title, 0) for title in _titles(connection)]
    titles, taken = {title for _, title, _ in own}, {key for key, _, _ in own}
    other = {
        (fold(source), target): rank
        for rank, (source, target) in enumerate(redirects, start=1)
        if target in titles and fold(source) not in taken
    }
    rows = [*own, *((key, target, rank) for (key, target), rank in other.items())]
    connection.executemany("INSERT INTO keys VALUES (?, ?, ?)", rows)
    connection.execute("CREATE INDEX keys_by_key ON keys (key)")
    connection.executemany("INSERT INTO meta VALUES (?, ?)", [("format", FORMAT), ("version", version)])
    connection.commit()


def _titles(connection: sqlite3.Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT title FROM pages ORDER BY title")]


def _title_index(titles: Iterable[str], folder: Path | None) -> Any:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("title", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("words", tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field("grams", tokenizer_name="whitespace", index_option="freq")
    index = tantivy.Index(builder.build(), path=str(folder) if folder else None)
    # One writer thread: with several, scores would depend on which of them took which title.
    writer = index.writer(heap_size=64_000_000, num_threads=1)
    for title in titles:
        key = fold(title)
        document = {"title": title, "words": " ".join(words(key)), "grams": " ".join(trigrams(key))}
        writer.add_document(tantivy.Document(**document))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index


def _open_index(folder: Path | None, connection: sqlite3.Connection) -> Any:
    try:
        return tantivy.Index.open(str(folder)) if folder else _title_index(_titles(connection), None)
    except ValueError as error:
        raise EnvironmentFault(
            f"the title index {folder} cannot be read ({error}): build the wiki again"
        ) from error


def _query(schema: Any, key: str) -> Any:
    """Any of the words (they weigh double) or of their trigrams, so that a misspelling still finds."""
    terms = [("words", term, _WORD_WEIGHT) for term in dict.fromkeys(words(key))]
    terms += [("grams", term, 1.0) for term in dict.fromkeys(trigrams(key))]
    clauses = [
        (
            tantivy.Occur.Should,
            tantivy.Query.boost_query(tantivy.Query.term_query(schema, field, term, "freq"), weight),
        )
        for field, term, weight in terms[:_TERMS]
    ]
    return tantivy.Query.boolean_query(clauses)
