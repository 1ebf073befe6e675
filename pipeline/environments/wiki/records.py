"""Rows of a data file, one at a time, whatever its form: JSON lines, one JSON array, or parquet.

The form is recognised from the content, not from the name. A folder stands for its files, in the
order of their names.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO, cast

from pipeline.errors import EnvironmentFault, FormatError
from pipeline.trajectories.files import clean_text

Row = dict[str, Any]

_CHUNK = 1 << 20
_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_PARQUET = b"PAR1"
_BATCH = 256
_BLANK = re.compile(r"[ \t\r\n]*")
_LONGEST_MARK = 12
"""Signs of the longest mark that a cut may fall into (a pair of escapes)."""


def rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Each row and where it stands ("file, line 3").

    Raises:
        EnvironmentFault: the file is missing or unreadable.
        FormatError: a row is broken, or the file is of no known form.
    """
    for file in files(path):
        yield from _rows(file)


def files(path: Path) -> list[Path]:
    """The file itself, or the files of a folder by name.

    Raises:
        EnvironmentFault: there is none.
    """
    found = [path]
    if path.is_dir():
        found = sorted(
            entry for entry in path.iterdir() if entry.is_file() and not entry.name.startswith(".")
        )
    if not found or not found[0].is_file():
        raise EnvironmentFault(f"there is no data file at {str(path)!r}: set environment.options.data")
    return found


def fingerprint(path: Path) -> str:
    """A hash of the contents, whatever the file is called.

    Raises:
        EnvironmentFault: the file is missing or unreadable.
    """
    total = hashlib.sha256()
    for file in files(path):
        try:
            with file.open("rb") as stream:
                total.update(hashlib.file_digest(stream, "sha256").digest())
        except OSError as error:
            raise _unreadable(file, error) from error
    return total.hexdigest()[:16]


def text_of(row: Row, key: str, where: str) -> str:
    """A text of a row, on one line.

    Raises:
        FormatError: it is missing, blank or no text.
    """
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise FormatError(f"{where}: {key!r} is {_short(value)}, not a text")
    return " ".join(part.strip() for part in clean_text(value).splitlines()).strip()


def number_of(value: Any, what: str, where: str) -> int:
    """A whole number of a row.

    Raises:
        FormatError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise FormatError(f"{where}: {what} is {_short(value)}, not a whole number")
    return value


def list_of(value: Any, what: str, where: str) -> list[Any]:
    """A list of a row; None counts as empty.

    Raises:
        FormatError: it is none.
    """
    if not isinstance(value, list) and value is not None:
        raise FormatError(f"{where}: {what} is {_short(value)}, not a list")
    return cast("list[Any]", value or [])


def _short(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _rows(file: Path) -> Iterator[tuple[str, Row]]:
    try:
        with file.open("rb") as stream:
            start = stream.read(_CHUNK).removeprefix(_BOM).lstrip(_SPACE)
        if start.startswith(_PARQUET):
            found = _parquet(file)
        elif start.startswith(b"["):
            found = _array(file)
        elif start.startswith(b"{"):
            found = _lines(file)
        else:
            raise FormatError(f"{file} is neither JSON lines, nor a JSON array, nor parquet")
        for where, row in found:
            if not isinstance(row, dict):
                raise FormatError(f"{where}: {_short(row)} is not a JSON object")
            yield where, cast("Row", row)
    except OSError as error:
        raise _unreadable(file, error) from error


def _lines(file: Path) -> Iterator[tuple[str, Any]]:
    with file.open("rb") as stream:
        for number, read in enumerate(stream, start=1):
            line = read.removeprefix(_BOM) if number == 1 else read
            if not line.strip():
                continue
            where = f"{file}, line {number}"
            try:
                yield where, json.loads(line)
            except (ValueError, RecursionError) as error:
                raise FormatError(f"{where} is not JSON: {_reason(error)}") from None


def _array(file: Path) -> Iterator[tuple[str, Any]]:
    """The items of one array, read piece by piece: the largest file has half a gigabyte."""
    with file.open(encoding="utf-8-sig") as stream:
        text = _Unread(file, stream)
        text.skip("[")
        if text.ahead() == "]":
            return
        while True:
            item = text.value()
            yield text.where, item
            if text.ahead() == "]":
                return
            text.skip(",")


class _Unread:
    """The part of a JSON text that has not been read yet, with the line that it begins on."""

    def __init__(self, file: Path, stream: TextIO) -> None:
        self._file = file
        self._stream = stream
        self._text, self._at, self._line = "", 0, 1
        self._decoder = json.JSONDecoder()

    @property
    def where(self) -> str:
        return f"{self._file}, line {self._line}"

    def ahead(self) -> str:
        """The next sign that is no space, not yet taken; empty at the end."""
        while True:
            match = _BLANK.match(self._text, self._at)
            self._take(match.end() if match else self._at)
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def skip(self, sign: str) -> None:
        found = self.ahead()
        if found != sign:
            raise FormatError(f"{self.where}: the JSON array has {found or 'its end'!r} instead of {sign!r}")
        self._take(self._at + 1)

    def value(self) -> Any:
        while True:
            self.ahead()
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                if not (self._is_cut(error) and self._more()):
                    raise FormatError(f"{self.where} is not JSON: {_reason(error)}") from None
            else:
                self._take(end)
                return value

    def _is_cut(self, error: Exception) -> bool:
        """Whether reading on may mend the error."""
        return isinstance(error, json.JSONDecodeError) and (
            error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _LONGEST_MARK
        )

    def _more(self) -> bool:
        try:
            piece = self._stream.read(max(_CHUNK, len(self._text)))
        except UnicodeDecodeError as error:
            raise FormatError(f"{self._file} is not UTF-8: {error}") from None
        self._text, self._at = self._text[self._at :] + piece, 0
        return bool(piece)

    def _take(self, end: int) -> None:
        self._line += self._text.count("\n", self._at, end)
        self._at = end


def _parquet(file: Path) -> Iterator[tuple[str, Any]]:
    import pyarrow  # half a second, needed for this form only
    import pyarrow.parquet

    number = 0
    try:
        with pyarrow.parquet.ParquetFile(file) as table:
            for batch in table.iter_batches(batch_size=_BATCH):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{file}, row {number}", row
    except pyarrow.ArrowException as error:
        reason = " ".join(str(error).split())
        raise FormatError(f"{file}, after row {number}, cannot be read as parquet: {reason}") from error


def _reason(error: Exception) -> str:
    """What is wrong, without the decoder's own count of lines."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno}"
    return str(error)


def _unreadable(file: Path, error: OSError) -> EnvironmentFault:
    return EnvironmentFault(f"{file} cannot be read: {error.strerror or error}")
