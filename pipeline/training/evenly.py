"""Rows over ranks: every row counts exactly once, in training and in evaluation.

Ranks take equally many batches, since they compute together. Accelerate makes them equal by repeating rows
of the epoch's beginning at its end; here the places that are left over stay empty.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import Dataset, Sampler

from pipeline.rendering.tokens import IGNORE

STEPS_AT_ONCE = 50
"""Optimiser steps among whose rows those of like length are brought together."""


class Shuffled(Sampler[int]):
    """An order that depends on the seed and the epoch alone, not on the layout or on a resumption.

    Args:
        rows: how many.
        seed: decides the order.
        epoch: tells the current one.
    """

    def __init__(self, rows: int, seed: int, epoch: Callable[[], int]) -> None:
        self._rows = rows
        self._seed = seed
        self._epoch = epoch

    def __len__(self) -> int:
        return self._rows

    def __iter__(self) -> Iterator[int]:
        order = list(range(self._rows))
        random.Random(f"{self._seed} {self._epoch()}").shuffle(order)
        return iter(order)


class LengthSampler(Sampler[int]):
    """An order in which the rows of one optimiser step, and of one micro-batch, are of like length.

    It depends on the seed, the epoch and the rows a step alone: not on the layout, nor on where a run
    was taken up again.

    Args:
        lengths: of each row.
        step: rows of an optimiser step, over accumulation and ranks.
        seed: decides the order.
        epoch: tells the current one.
    """

    def __init__(self, lengths: Sequence[int], step: int, seed: int, epoch: Callable[[], int]) -> None:
        self._lengths = lengths
        self._step = step
        self._seed = seed
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[int]:
        chance = random.Random(f"{self._seed} {self._epoch()}")
        order = list(range(len(self._lengths)))
        chance.shuffle(order)
        chunk = self._step * STEPS_AT_ONCE
        steps: list[list[int]] = []
        for start in range(0, len(order), chunk):
            alike = sorted(order[start : start + chunk], key=lambda row: -self._lengths[row])
            steps += [alike[at : at + self._step] for at in range(0, len(alike), self._step)]
        # A last step that is not full stays the last, or every step after it would be shifted.
        full = [step for step in steps if len(step) == self._step]
        chance.shuffle(full)
        rest = [step for step in steps if len(step) < self._step]
        return (row for step in full + rest for row in step)


class Filled(Dataset[Any]):
    """Rows, and beyond the last one empty places (None)."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Any:
        return self._rows[index] if index < len(self) else None


class FilledSampler(Sampler[int]):
    """An order of rows, with empty places at its end up to a multiple of a number.

    Args:
        order: the rows' order.
        multiple: rows that all ranks take together in a pass.
    """

    def __init__(self, order: Any, multiple: int) -> None:
        self._order = order
        self._rows = len(order)
        self._multiple = multiple

    def __len__(self) -> int:
        return -(-self._rows // self._multiple) * self._multiple

    def __iter__(self) -> Iterator[int]:
        yield from self._order
        yield from range(self._rows, len(self))


class FilledCollator:
    """Leaves empty places out of a batch; a batch of nothing else is one row that trains nothing.

    Args:
        collate: makes a batch of rows.
        row: any row, to compute on where a rank has none.
    """

    def __init__(self, collate: Callable[[list[Any]], dict[str, Any]], row: Any) -> None:
        self._collate = collate
        self._row = row

    def __call__(self, places: Sequence[Any]) -> dict[str, Any]:
        """A batch of the rows among the places."""
        rows = [place for place in places if place is not None]
        batch = self._collate(rows or [self._row])
        if not rows:
            batch["labels"] = torch.full_like(batch["labels"], IGNORE)
        return batch


def shares(rows: Any, size: int, rank: int, ranks: int, length: Callable[[Any], int]) -> Iterator[list[Any]]:
    """This rank's batches, of equal number on all; where there is no row left, of an empty place.

    Args:
        rows: all rows.
        size: rows a batch.
        rank: this process.
        ranks: how many there are.
        length: of a row, by which like comes to like.
    """
    ordered = sorted(rows, key=length, reverse=True)
    batches = [ordered[at : at + size] for at in range(0, len(ordered), size)]
    for start in range(0, len(batches), ranks):
        yield batches[start + rank] if start + rank < len(batches) else [None]
