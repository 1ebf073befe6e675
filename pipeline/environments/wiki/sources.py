"""Where a local wiki's pages come from: files and folders of the known kinds."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from pipeline.environments.wiki.build import Record
from pipeline.environments.wiki.kinds import KINDS, Kind, pages_of, recognise
from pipeline.environments.wiki.readers import SUFFIXES, Row, rows
from pipeline.environments.wiki.titles import plain_title
from pipeline.errors import EnvironmentFault

_LOOKED_AT: Final = 20
"""Rows that may stand before one that tells the kind of a source."""


@dataclass(frozen=True)
class FileSource:
    """A ``PageSource``: one file.

    Attributes:
        kind: what its rows are.
        path: where it lies.
        name: what tells it from the other files of a build, wherever they lie.
        size: its bytes.
    """

    kind: Kind
    path: Path
    name: str
    size: int

    def records(self, skip: int) -> Iterator[Record]:
        """What each row after the first ``skip`` holds.

        Raises:
            EnvironmentFault: the file cannot be read, or a row is broken; names file and line.
        """
        for row in islice(_rows(self.path), skip, None):
            try:
                yield Record(pages_of(self.kind, row.value()), row.read)
            except (ValueError, RecursionError) as error:
                raise EnvironmentFault(
                    f"{self.path}, {row.place} is no row of a {self.kind} source: {_short(error)}; mend or"
                    " remove the line, then give the same command again"
                ) from error


def open_sources(wanted: Sequence[str]) -> list[FileSource]:
    """The files of sources, each given as ``path`` or ``kind:path``.

    A folder stands for all files in it that can be read, in the order of their names; the first tells
    the kind.

    Raises:
        EnvironmentFault: there is no such file, or its kind cannot be told.
    """
    return [source for given in wanted for source in _open(given)]


def read_redirects(path: Path) -> Iterator[tuple[str, str]]:
    """Pairs of other title and title from a file of two columns with a tab between.

    Raises:
        EnvironmentFault: the file cannot be read, or a line has not two columns.
    """
    try:
        with path.open(encoding="utf-8-sig", errors="strict", newline="\n") as file:
            for number, line in enumerate(file, start=1):
                parts = [plain_title(part) for part in line.split("\t")]
                if len(parts) != 2 or not all(parts):
                    raise EnvironmentFault(
                        f"{path}, line {number}: not two titles with a tab between: {line[:80]!r}"
                    )
                yield parts[0], parts[1]
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentFault(f"{path} cannot be read: {_short(error)}") from error


def _open(given: str) -> list[FileSource]:
    before, colon, after = given.partition(":")
    named = before if colon and before in KINDS else None
    path = Path(after if named else given)
    files = _files(path)
    kind = named or _recognised(files)
    root = path if path.is_dir() else path.parent
    return [
        FileSource(kind, file, f"{kind}:{file.relative_to(root).as_posix()}", file.stat().st_size)
        for file in files
    ]


def _files(path: Path) -> list[Path]:
    if path.is_file():
        if not path.name.lower().endswith(SUFFIXES):
            raise EnvironmentFault(f"{path} cannot be read: its name ends with none of {', '.join(SUFFIXES)}")
        return [path]
    if not path.is_dir():
        raise EnvironmentFault(f"{path} does not exist: give a file or a folder, or KIND:PATH")
    files = sorted(
        file
        for file in path.rglob("*")
        if file.name.lower().endswith(SUFFIXES)
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )
    if not files:
        raise EnvironmentFault(f"{path} holds no file whose name ends with one of {', '.join(SUFFIXES)}")
    return files


def _recognised(files: Sequence[Path]) -> Kind:
    for row in islice(_rows(files[0]), _LOOKED_AT):
        try:
            kind = recognise(row.value())
        except (ValueError, RecursionError) as error:
            raise EnvironmentFault(f"{files[0]}, {row.place} is no JSON: {_short(error)}") from error
        if kind:
            return kind
    raise EnvironmentFault(
        f"{files[0]} is of no known kind: it needs a context, lines, or a title and a text in every row;"
        f" or name the kind, as in {KINDS[0]}:{files[0].name} (known are {', '.join(KINDS)})"
    )


def _rows(path: Path) -> Iterator[Row]:
    try:
        yield from rows(path)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise EnvironmentFault(f"{path} cannot be read: {_short(error)}") from error


def _short(error: BaseException) -> str:
    """What went wrong, in one line of bounded length."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]}…"
