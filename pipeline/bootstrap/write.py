"""Write trajectories in another order than they arrive in, holding one in memory at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from pipeline.errors import StoreError
from pipeline.trajectories.files import write_bytes
from pipeline.trajectories.schema import Trajectory
from pipeline.trajectories.store import trajectory_line


def write_shuffled(path: Path, ranked: Iterable[tuple[int, Trajectory]]) -> None:
    """Write one trajectory a line, in the order of their ranks; the file is whole or not there.

    Args:
        path: the file to write.
        ranked: trajectories in any order, each with its place in the file (0 is first).

    Raises:
        StoreError: the disk is full, or the folder cannot be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent) as spool:
            places = _spool(spool, ranked)
            write_bytes(path, _in_order(spool, places))
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written: {error.strerror or error}; nothing was changed"
        ) from None


def _spool(spool: IO[bytes], ranked: Iterable[tuple[int, Trajectory]]) -> list[tuple[int, int, int]]:
    """Append each line to the spool; the rank, offset and length of each, sorted by rank."""
    places: list[tuple[int, int, int]] = []
    offset = 0
    for rank, trajectory in ranked:
        line = trajectory_line(trajectory)
        spool.write(line)
        places.append((rank, offset, len(line)))
        offset += len(line)
    return sorted(places)


def _in_order(spool: IO[bytes], places: list[tuple[int, int, int]]) -> Iterator[bytes]:
    for _, offset, length in places:
        spool.seek(offset)
        yield spool.read(length)
