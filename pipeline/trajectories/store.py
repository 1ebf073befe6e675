"""The trajectory store: one append-only file, one JSON line a trajectory.

A line is written by a single ``write``, so a killed process leaves whole lines and at most one torn
end, which the next writer cuts away. Where an id comes again (an episode was repeated after an
error), its latest line counts.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from pydantic import BaseModel, ValidationError

from pipeline.errors import StoreError
from pipeline.trajectories.files import read_lines, sync_folder, to_json, write_bytes
from pipeline.trajectories.schema import SCHEMA_VERSION, Outcome, Trajectory


class _Head(BaseModel):
    """What the index needs of a line; the rest is parsed when it is asked for."""

    version: int
    id: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class _Place:
    offset: int
    length: int
    line: int
    outcome: Outcome


@dataclass
class _Index:
    """Where each id's latest line is.

    ``end`` is the end of the last whole value, ``line`` the number of line feeds before it.
    """

    places: dict[str, _Place] = field(default_factory=dict)
    end: int = 0
    line: int = 0

    def add(self, identity: str, outcome: Outcome, line: bytes) -> None:
        # Taking the old place out keeps the dictionary in the order of the latest lines.
        self.places.pop(identity, None)
        self.places[identity] = _Place(self.end, len(line), self.line + 1, outcome)
        self.skip(line)

    def skip(self, line: bytes) -> None:
        self.end += len(line)
        self.line += line.count(b"\n")


class TrajectoryStore:
    """Trajectories of one file, read by anybody and written by one process at a time.

    Reading needs no lock and sees every line that was whole at that moment. The first ``append``
    (or ``lock``) takes the lock until ``close``.

    Args:
        path: the JSONL file; it need not exist yet.
        sync_seconds: the longest time between two syncs while lines keep coming. A killed process
            loses nothing whatever this is; it only bounds what a power cut can take.
    """

    def __init__(self, path: Path, sync_seconds: float = 0.5) -> None:
        self.path = Path(path)
        self._sync_seconds = sync_seconds
        self._synced = 0.0
        self._descriptor: int | None = None
        self._index = _Index()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        self._refresh()
        return len(self._index.places)

    def outcomes(self) -> dict[str, Outcome]:
        """The outcome of every id's latest trajectory, in the order of the file.

        Raises:
            StoreError: a line is broken or of a newer schema (file and line number are named).
        """
        self._refresh()
        return {identity: place.outcome for identity, place in self._index.places.items()}

    def ids(self) -> set[str]:
        """The ids that are here. Raises ``StoreError`` as ``outcomes`` does."""
        return set(self.outcomes())

    def read(self, ids: Iterable[str] | None = None) -> Iterator[Trajectory]:
        """Trajectories one after another, the latest of each id, never many in memory.

        Args:
            ids: which ones and in which order (those not here are passed over); by default all,
                in the order of the file, which depends on how long each episode took.

        Raises:
            StoreError: a line is broken, of a newer schema, or not a trajectory.
        """
        self._refresh()
        places = self._index.places
        wanted = list(places.values()) if ids is None else [places[name] for name in ids if name in places]
        if not wanted:
            return
        with self._open() as file:
            for place in wanted:
                file.seek(place.offset)
                yield parse_trajectory(file.read(place.length), f"{self.path}, line {place.line}")

    def lock(self) -> None:
        """Become the one writer, and cut away the torn end that a killed writer left.

        Raises:
            StoreError: another writer has the file, or it cannot be written.
        """
        self._writer()

    def append(self, trajectory: Trajectory) -> None:
        """Add a trajectory: when this returns, killing the process does not lose it.

        Raises:
            StoreError: another writer has the file, or the disk is full (the file is as before).
        """
        descriptor = self._writer()
        line = trajectory_line(trajectory)
        try:
            _write_whole(descriptor, line)
            if time.monotonic() - self._synced >= self._sync_seconds:
                os.fsync(descriptor)
                self._synced = time.monotonic()
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(descriptor, self._index.end)
            raise self._unwritable(error) from None
        self._index.add(trajectory.id, trajectory.outcome, line)

    def close(self) -> None:
        """Sync and let go of the lock. The store can still be read, and locked again."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _writer(self) -> int:
        """The descriptor that holds the lock."""
        if self._descriptor is None:
            try:
                self._descriptor = self._acquire()
            except OSError as error:
                raise self._unwritable(error) from None
        return self._descriptor

    def _acquire(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._refresh()
            self._mend(descriptor)
            sync_folder(self.path.parent)
        except BlockingIOError:
            os.close(descriptor)
            raise StoreError(
                f"{self.path} is being written by another process: wait for it, or name another run"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _mend(self, descriptor: int) -> None:
        """Cut an unfinished last line, or finish one that only lacks its line feed."""
        if os.fstat(descriptor).st_size > self._index.end:
            os.ftruncate(descriptor, self._index.end)
        if self._index.end and os.pread(descriptor, 1, self._index.end - 1) != b"\n":
            _write_whole(descriptor, b"\n")
            self._index.skip(b"\n")

    def _unwritable(self, error: OSError) -> StoreError:
        reason = error.strerror or str(error)
        return StoreError(
            f"{self.path} cannot be written: {reason}; what was there is kept: mend it, then resume"
        )

    def _open(self) -> IO[bytes]:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error.strerror}") from None

    def _refresh(self) -> None:
        """Index the lines that have come since the last look."""
        if not self.path.exists() or self.path.stat().st_size == self._index.end:
            return
        with self._open() as file:
            file.seek(self._index.end)
            for line in file:
                self._take(line)

    def _take(self, line: bytes) -> None:
        if not line.strip():
            self._index.skip(line)
            return
        try:
            head = _parse_head(line, f"{self.path}, line {self._index.line + 1}")
        except StoreError:
            # Without a line feed, a writer is in the middle of this line, or died there.
            if line.endswith(b"\n"):
                raise
        else:
            self._index.add(head.id, head.outcome, line)


def trajectory_line(trajectory: Trajectory) -> bytes:
    """The line that stands for a trajectory, line feed included.

    Raises:
        StoreError: it holds a number that JSON has no word for (NaN, infinity).
    """
    return to_json(trajectory.model_dump(mode="json")).encode("utf-8") + b"\n"


def parse_trajectory(line: bytes, where: str) -> Trajectory:
    """Read one line.

    Raises:
        StoreError: it is broken, of a newer schema, or lacks something (task id, split, …).
    """
    _parse_head(line, where)
    try:
        return Trajectory.model_validate_json(line)
    except ValidationError as error:
        raise StoreError(f"{where} is not a trajectory: {_first(error)}") from None


def read_trajectories(path: Path) -> Iterator[Trajectory]:
    """Every line of a file of trajectories that was written whole (a selection), one at a time.

    Raises:
        StoreError: the file is missing, or a line is not a trajectory (its number is named).
    """
    for number, line in read_lines(path):
        yield parse_trajectory(line, f"{path}, line {number}")


def write_trajectories(path: Path, trajectories: Iterable[Trajectory]) -> int:
    """Write a file of trajectories atomically, one at a time; returns how many there were.

    Raises:
        StoreError: the disk is full, or the folder cannot be written to.
    """
    count = 0

    def lines() -> Iterator[bytes]:
        nonlocal count
        for trajectory in trajectories:
            count += 1
            yield trajectory_line(trajectory)

    write_bytes(path, lines())
    return count


def _parse_head(line: bytes, where: str) -> _Head:
    try:
        head = _Head.model_validate_json(line)
    except ValidationError as error:
        raise StoreError(f"{where} is broken: {_first(error)}") from None
    if head.version > SCHEMA_VERSION:
        raise StoreError(
            f"{where} has schema version {head.version}, newer than {SCHEMA_VERSION}: update staract"
        )
    return head


def _first(error: ValidationError) -> str:
    first: Any = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])


def _write_whole(descriptor: int, data: bytes) -> None:
    written = os.write(descriptor, data)
    if written < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
