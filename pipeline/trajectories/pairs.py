"""Pairs to prefer one of: a success and a failure of the same task, and where the two part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from pipeline.errors import StoreError
from pipeline.trajectories.files import read_lines, write_jsonl
from pipeline.trajectories.schema import Record, Trajectory

PAIRS: Final = "pairs.jsonl"
"""Their file in a run's folder."""


class Pair(Record):
    """Two episodes of one task. ``shared`` is how many steps they have in common, observations included."""

    chosen: Trajectory
    rejected: Trajectory
    shared: int

    @property
    def id(self) -> str:
        """Which two episodes they are."""
        return f"{self.chosen.id}-{self.rejected.id}"


def write_pairs(path: Path, pairs: Iterable[Pair]) -> int:
    """Write one pair a line, atomically and one at a time; returns the number of pairs.

    Raises:
        StoreError: as ``write_jsonl``.
    """
    return write_jsonl(path, (pair.model_dump(mode="json") for pair in pairs))


def read_pairs(path: Path) -> Iterator[Pair]:
    """Read the pairs of a file, one at a time.

    Raises:
        StoreError: the file is missing, or a line is no pair (file and line number are named).
    """
    for number, line in read_lines(path):
        try:
            yield Pair.model_validate_json(line)
        except ValidationError as error:
            detail = error.errors(include_url=False, include_input=False)[0]["msg"]
            raise StoreError(f"{path}, line {number} is no pair of trajectories: {detail}") from None
