"""Files that are whole or not there: atomic writing, and JSON lines split on the line feed only.

Text from outside may hold lone surrogates (not encodable) and U+2028 or NEL (which
``str.splitlines`` would cut at). The first are replaced by U+FFFD on the way to disk, the second
are ordinary characters here.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pipeline.errors import StoreError


def clean_text(text: str) -> str:
    """``text`` as UTF-8 can hold it: surrogate pairs joined, each lone surrogate made U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def to_json(value: Any, *, indent: int | None = None) -> str:
    """JSON text with non-ASCII characters kept and lone surrogates replaced.

    Raises:
        StoreError: the value holds something that JSON has no word for (NaN, an object).
    """
    try:
        return clean_text(json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent))
    except (ValueError, TypeError) as error:
        raise StoreError(f"a value cannot be written as JSON: {error}") from None


def write_bytes(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file so that a reader sees the old content or the new, never a part of it.

    The chunks go to a temporary file beside ``path``, which is synced and then renamed.

    Raises:
        StoreError: the disk is full, or the folder cannot be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise _unwritable(path, error) from None
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            # mkstemp makes files private; a run folder is as readable as its umask says.
            os.fchmod(file.fileno(), 0o666 & ~_umask())
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, atomically. Raises ``StoreError`` as ``write_bytes`` does."""
    write_bytes(path, [clean_text(text).encode("utf-8")])


def write_json(path: Path, value: Any) -> None:
    """Write one JSON value, indented, atomically. Raises ``StoreError`` as ``write_bytes`` does."""
    write_text(path, to_json(value, indent=2) + "\n")


def write_jsonl(path: Path, rows: Iterable[Any]) -> int:
    """Write one JSON value a line, atomically and one row at a time; returns the number of rows.

    Raises:
        StoreError: as ``write_bytes``.
    """
    count = 0

    def lines() -> Iterator[bytes]:
        nonlocal count
        for row in rows:
            count += 1
            yield to_json(row).encode("utf-8") + b"\n"

    write_bytes(path, lines())
    return count


def read_json(path: Path) -> Any:
    """Read one JSON value.

    Raises:
        StoreError: the file is missing, unreadable or not JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise _unreadable(path, error) from None
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} is not JSON: {error}") from None


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Line numbers (from 1) and lines without their line feed; blank lines are left out.

    Raises:
        StoreError: the file is missing or unreadable.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line.removesuffix(b"\n")
    except OSError as error:
        raise _unreadable(path, error) from None


def read_jsonl(path: Path) -> Iterator[Any]:
    """Read one JSON value a line, holding one line in memory at a time.

    Raises:
        StoreError: the file is missing, or a line is broken (file and line number are named).
    """
    for number, line in read_lines(path):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError) as error:
            raise StoreError(f"{path}, line {number} is not JSON: {error}") from None


def sync_folder(folder: Path) -> None:
    """Make a new or renamed file's name last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cache_folder() -> Path:
    """Where things that can be made again are kept: ``$STARACT_CACHE``, else ``~/.cache/staract``."""
    chosen = os.environ.get("STARACT_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "staract"


def _umask() -> int:
    # The mask can only be read by setting it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _unwritable(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path} cannot be written: {error.strerror or error}; nothing was changed")


def _unreadable(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path} cannot be read: {error.strerror or error}")
