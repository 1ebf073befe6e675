"""Rows of data files, one at a time: JSON lines, one JSON array, parquet; packed or in an archive.

Nothing is held but the row that is read and a buffer of a mebibyte.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, Any, Final, cast

SUFFIXES: Final = (".jsonl", ".json", ".ndjson", ".parquet", ".zip", ".tar", ".tgz", ".bz2", ".gz")
"""What the name of a file that can be read ends with."""

LONGEST: Final = 64 * 2**20
"""Bytes of the longest row; a longer one is a broken file."""

COLUMNS: Final = ("id", "title", "text", "lines", "context")
"""Columns of a parquet file that any kind of source needs."""

_CHUNK: Final = 2**20
_PARQUET_ROWS: Final = 256


@dataclass(frozen=True)
class Row:
    """One row, not decoded yet, so that a resumed build skips it at little cost.

    Attributes:
        place: where it stands in the file: ``line 3``, ``AA/wiki_00.bz2, line 3``, ``entry 3``, ``row 3``.
        content: a line of JSON, or the object itself.
        read: bytes of the file read so far.
    """

    place: str
    content: bytes | dict[str, Any]
    read: int

    def value(self) -> Any:
        """The object.

        Raises:
            ValueError: the line is no JSON.
        """
        return json.loads(self.content) if isinstance(self.content, bytes) else self.content


def rows(path: Path) -> Iterator[Row]:
    """The rows of a file; its kind is told by its name.

    Raises:
        ValueError, OSError, EOFError, zlib.error: the file is broken.
    """
    name = path.name.lower()
    if name.endswith(".parquet"):
        yield from _parquet(path)
        return
    with path.open("rb") as raw:
        if name.endswith(".zip"):
            yield from _zip(raw)
        elif name.endswith((".tar", ".tgz", ".tar.gz", ".tar.bz2")):
            yield from _tar(raw)
        else:
            yield from _rows(_unpacked(raw, name), "", raw.tell)


def _unpacked(file: IO[bytes], name: str) -> IO[bytes]:
    if name.endswith(".bz2"):
        return cast("IO[bytes]", bz2.open(file))
    return cast("IO[bytes]", gzip.open(file)) if name.endswith(".gz") else file


def _zip(raw: IO[bytes]) -> Iterator[Row]:
    try:
        with zipfile.ZipFile(raw) as archive:
            before = 0
            for member in sorted(archive.infolist(), key=lambda member: member.filename):
                if _wanted(member.filename):
                    with archive.open(member) as file:
                        # The archive itself is read ahead and out of order: its members tell the way.
                        done = before
                        inner = _unpacked(file, member.filename.lower())
                        yield from _rows(inner, f"{member.filename}, ", lambda done=done: done)
                before += member.compress_size
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise ValueError(error) from error


def _tar(raw: IO[bytes]) -> Iterator[Row]:
    try:
        with tarfile.open(fileobj=raw, mode="r|*") as archive:
            for member in archive:
                file = archive.extractfile(member) if _wanted(member.name) else None
                if file:
                    inner = _unpacked(file, member.name.lower())
                    yield from _rows(inner, f"{member.name}, ", raw.tell)
    except tarfile.TarError as error:
        raise ValueError(error) from error


def _wanted(name: str) -> bool:
    path = PurePath(name)
    hidden = any(part.startswith((".", "__MACOSX")) for part in path.parts if part not in (".", ".."))
    return path.name.lower().endswith((".jsonl", ".json", ".ndjson", ".bz2", ".gz")) and not hidden


def _rows(file: IO[bytes], member: str, read: Callable[[], int]) -> Iterator[Row]:
    """JSON lines, or the entries of a file that is one array."""
    first = file.readline(LONGEST).removeprefix(codecs.BOM_UTF8)
    if first.lstrip().startswith(b"["):
        yield from _entries(first, file, member, read)
        return
    number = 1
    line = first
    while line:
        if len(line) == LONGEST:
            raise ValueError(f"{member}line {number} is longer than {LONGEST // 2**20} MiB")
        if not line.isspace():
            yield Row(f"{member}line {number}", line, read())
        number += 1
        line = file.readline(LONGEST)


def _entries(first: bytes, file: IO[bytes], member: str, read: Callable[[], int]) -> Iterator[Row]:
    decode = codecs.getincrementaldecoder("utf-8")().decode
    parse = json.JSONDecoder().raw_decode
    buffer = decode(first).lstrip()[1:]
    number, ended = 1, False
    while True:
        buffer = buffer.lstrip().removeprefix("," if number > 1 else "").lstrip()
        if buffer.startswith("]"):
            return
        try:
            value, end = parse(buffer)
        except ValueError as error:
            if ended or len(buffer) > LONGEST:
                raise ValueError(f"{member}entry {number} is no JSON ({error})") from None
            chunk = file.read(max(_CHUNK, len(buffer)))
            ended = not chunk
            buffer += decode(chunk, final=ended)
            continue
        yield Row(f"{member}entry {number}", cast("dict[str, Any]", value), read())
        buffer = buffer[end:]
        number += 1


def _parquet(path: Path) -> Iterator[Row]:
    from pyarrow import parquet

    with parquet.ParquetFile(path, pre_buffer=False) as file:
        columns = [name for name in COLUMNS if name in file.schema_arrow.names]
        total, size, number = max(file.metadata.num_rows, 1), path.stat().st_size, 0
        for batch in file.iter_batches(_PARQUET_ROWS, columns=columns, use_threads=False):
            for record in batch.to_pylist():
                number += 1
                yield Row(f"row {number}", record, size * number // total)
