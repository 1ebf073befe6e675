"""Building a local wiki: pages are read, then titles indexed; a build that was killed goes on.

Everything is written to a folder ``NAME.partial`` beside the wiki's, in transactions that hold the
pages and the place in the sources together. A later build from the same sources goes on from the last
of them and ends with the same wiki. The folder takes its name when it is whole.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from pipeline.environments.wiki import store
from pipeline.environments.wiki.backend import Page
from pipeline.environments.wiki.index import TitleIndex
from pipeline.environments.wiki.titles import clean
from pipeline.errors import EnvironmentFault

BATCH: Final = 5_000
"""Pages between two places from which a killed build goes on."""

_REDIRECTS: Final = 50_000
"""Redirects between two reports."""


@dataclass(frozen=True)
class Record:
    """What one record of a source holds.

    Attributes:
        pages: the pages of it, none or several.
        read: bytes of the source read so far, for the estimate of time left.
    """

    pages: Sequence[Page]
    read: int = 0


class PageSource(Protocol):
    """One file of pages. ``name`` and ``size`` (bytes) tell a resumed build that it is the same."""

    @property
    def name(self) -> str:
        """What tells the file from others."""
        ...

    @property
    def size(self) -> int:
        """Its bytes."""
        ...

    def records(self, skip: int) -> Iterator[Record]:
        """The records after the first ``skip``, always in the same order.

        Raises:
            EnvironmentFault: the file cannot be read, or a record is broken.
        """
        ...


@dataclass(frozen=True)
class BuildState:
    """How far a build is.

    Attributes:
        phase: what is done now.
        source: which source is read, counted from 0.
        record: how many of its records were read.
        read: bytes read of all sources.
        pages: pages kept.
        repeated: pages left out for their title was there already.
        empty: pages left out for they have no title or no text.
        redirects: other titles kept.
        dropped: other titles left out: they hide a page or lead to none.
        indexed: titles in the index.
        digest: of all pages and redirects so far.
    """

    phase: Literal["pages", "redirects", "titles"] = "pages"
    source: int = 0
    record: int = 0
    read: int = 0
    pages: int = 0
    repeated: int = 0
    empty: int = 0
    redirects: int = 0
    dropped: int = 0
    indexed: int = 0
    digest: str = ""


Report = Callable[[BuildState], None]


def _silent(_: BuildState) -> None:
    pass


def partial_folder(folder: Path) -> Path:
    """Where a wiki stands while it is built."""
    return folder.with_name(f"{folder.name}.partial")


def build_from_sources(
    folder: Path,
    sources: Sequence[PageSource],
    redirects: Iterable[tuple[str, str]] = (),
    *,
    limit: int | None = None,
    plan: str = "",
    report: Report = _silent,
) -> BuildState:
    """Build a wiki's folder, or go on with a build of the same sources.

    The wiki's version is a hash of its pages and redirects.

    Args:
        folder: the wiki's folder; it may not exist yet.
        sources: where pages come from; of pages of the same title the first counts.
        redirects: pairs of other title and title.
        limit: read at most so many pages.
        plan: what else decides the outcome, such as the file of redirects.
        report: told every few seconds how far the build is.

    Raises:
        EnvironmentFault: the folder exists, cannot be written, or was begun from other sources; a
            source is broken or holds no page. What was done stays for the next build.
    """
    wanted = json.dumps([store.FORMAT, limit, plan, *([source.name, source.size] for source in sources)])
    with _writing(folder) as partial:
        connection = store.create(partial / store.PAGES)
        try:
            _agree(connection, wanted, folder)
            state = _State(connection, report)
            if state.now.phase == "pages":
                _read_pages(connection, sources, state, limit)
            if not state.now.pages:
                raise EnvironmentFault(f"the sources hold no page: there is nothing to build {folder} from")
            if state.now.phase == "redirects":
                _read_redirects(connection, redirects, state)
            _index_titles(connection, partial / store.TITLES, state)
            _finish(connection, f"{store.FORMAT}-{state.now.digest[:16]}")
        finally:
            connection.close()
        partial.rename(folder)
    return state.now


def build_folder(
    folder: Path, pages: Iterable[Page], redirects: Iterable[tuple[str, str]], version: str
) -> None:
    """Build a wiki's folder from pages that cannot be read twice: anew, whatever was begun.

    Raises:
        EnvironmentFault: the folder exists already, or cannot be written.
    """
    shutil.rmtree(partial_folder(folder), ignore_errors=True)
    with _writing(folder) as partial:
        connection = store.create(partial / store.PAGES)
        try:
            fill(connection, pages, redirects, version)
            TitleIndex.create(partial / store.TITLES).add(store.keys(connection))
            store.seal(connection)
        finally:
            connection.close()
        partial.rename(folder)


def fill(
    connection: sqlite3.Connection,
    pages: Iterable[Page],
    redirects: Iterable[tuple[str, str]],
    version: str,
) -> None:
    """Fill an empty database with pages and redirects."""
    connection.execute("BEGIN")
    waiting = (replace(page, title=clean(page.title)) for page in pages)
    while batch := list(islice(waiting, BATCH)):
        store.add_pages(connection, batch)
    store.add_redirects(connection, enumerate(redirects))
    store.sign(connection, version)
    connection.execute("COMMIT")


class _State:
    """The state of a build, kept in its database; one transaction is always open."""

    def __init__(self, connection: sqlite3.Connection, report: Report) -> None:
        self._connection = connection
        self._report = report
        kept = store.get_meta(connection, "state")
        self.now = BuildState(**json.loads(kept)) if kept else BuildState()
        connection.execute("BEGIN IMMEDIATE")
        report(self.now)

    def save(self, **changes: Any) -> None:
        """Note what changed, end the transaction and begin the next."""
        self.now = replace(self.now, **changes)
        store.set_meta(self._connection, "state", json.dumps(asdict(self.now)))
        self._connection.execute("COMMIT")
        self._connection.execute("BEGIN IMMEDIATE")
        self._report(self.now)

    def tell(self, **changes: Any) -> None:
        """Report what the database need not know."""
        self._report(replace(self.now, **changes))


@contextmanager
def _writing(folder: Path) -> Generator[Path]:
    """The partial folder, made if it is not there; says in a sentence why it cannot be written."""
    if folder.exists():
        raise EnvironmentFault(f"{folder} exists already: delete it to build the wiki again")
    partial = partial_folder(folder)
    try:
        (partial / store.TITLES).mkdir(parents=True, exist_ok=True)
        yield partial
    except (OSError, sqlite3.Error, ValueError) as error:
        reason = str(error)
        if "is locked" in reason:
            reason = "another process is building it"
        raise EnvironmentFault(
            f"the wiki {folder} cannot be written ({reason}): what is done is kept in {partial.name};"
            " make room or mend what is wrong, then give the same command again"
        ) from error


def _agree(connection: sqlite3.Connection, plan: str, folder: Path) -> None:
    """A build that goes on has the sources that it began with."""
    begun = store.get_meta(connection, "plan")
    if begun is None:
        store.set_meta(connection, "plan", plan)
    elif begun != plan:
        raise EnvironmentFault(
            f"{partial_folder(folder)} was begun from other sources, redirects or limit: give the same, or"
            " delete it to begin anew"
        )


def _read_pages(
    connection: sqlite3.Connection, sources: Sequence[PageSource], state: _State, limit: int | None
) -> None:
    for batch, place in _batches(sources, state.now, limit):
        whole = [page for page in batch if page.title and page.text]
        new = store.add_pages(connection, whole)
        state.save(
            pages=state.now.pages + new,
            repeated=state.now.repeated + len(whole) - new,
            empty=state.now.empty + len(batch) - len(whole),
            digest=_digest(state.now.digest, (f"{page.title}\0{page.text}\0" for page in whole)),
            **place,
        )
    state.save(phase="redirects", source=len(sources), record=0)


def _batches(
    sources: Sequence[PageSource], start: BuildState, limit: int | None
) -> Iterator[tuple[list[Page], dict[str, int]]]:
    """Pages by the batch, each with the place after it, from the place where a build begins.

    A resumed build cuts the same batches as one that was never interrupted.
    """
    left = (limit or sys.maxsize) - start.pages - start.repeated - start.empty
    batch: list[Page] = []
    before = sum(source.size for source in sources[: start.source])
    record = start.record
    for number in range(start.source, len(sources)):
        for found in sources[number].records(record):
            record += 1
            batch.extend(found.pages[: left - len(batch)])
            if len(batch) >= min(BATCH, left):
                yield batch, {"source": number, "record": record, "read": before + found.read}
                left -= len(batch)
                batch = []
                if not left:
                    return
        before += sources[number].size
        record = 0
    if batch:
        yield batch, {"source": len(sources), "record": 0, "read": before}


def _read_redirects(
    connection: sqlite3.Connection, redirects: Iterable[tuple[str, str]], state: _State
) -> None:
    # One transaction: a build killed here reads the redirects again.
    waiting, kept, seen, digest = iter(redirects), 0, 0, state.now.digest
    while batch := list(islice(waiting, _REDIRECTS)):
        kept += store.add_redirects(connection, enumerate(batch, seen))
        seen += len(batch)
        digest = _digest(digest, (f"{source}\0{title}\0" for source, title in batch))
        state.tell(redirects=kept, dropped=seen - kept)
    state.save(phase="titles", redirects=kept, dropped=seen - kept, digest=digest)


def _index_titles(connection: sqlite3.Connection, folder: Path, state: _State) -> None:
    store.free_memory(connection)
    index = TitleIndex.create(folder)
    state.tell(indexed=index.size)
    index.add(store.keys(connection, skip=index.size), lambda size: state.tell(indexed=size))
    state.save(indexed=index.size)


def _finish(connection: sqlite3.Connection, version: str) -> None:
    store.sign(connection, version)
    connection.execute("COMMIT")
    store.seal(connection)


def _digest(before: str, texts: Iterable[str]) -> str:
    """A chain of hashes, one link a batch: a hash itself could not be taken up again."""
    found = hashlib.sha256(before.encode())
    for text in texts:
        found.update(text.encode("utf-8", "surrogatepass"))
    return found.hexdigest()
