"""How long each part of a run has taken, over every call that worked on it."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pipeline.trajectories.files import read_json, write_json

SECONDS: Final = "seconds.json"


@contextmanager
def clocked(folder: Path, part: str) -> Generator[None]:
    """Add the seconds that the block takes to what the run folder notes for a part.

    A killed process loses its seconds, an interrupted one does not.
    """
    start = time.monotonic()
    try:
        yield
    finally:
        spent = seconds(folder)
        spent[part] = round(spent.get(part, 0.0) + time.monotonic() - start, 3)
        write_json(folder / SECONDS, spent)


def seconds(folder: Path) -> dict[str, float]:
    """The seconds noted so far, by part.

    Raises:
        StoreError: the note is unreadable.
    """
    path = folder / SECONDS
    return dict(read_json(path)) if path.is_file() else {}
