"""Which variations a panel holds: the published evaluation sets and training data, as lists of task ids."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, zip_longest
from typing import Final

from pipeline.environments.scienceworld.names import TaskType
from pipeline.rendering.swift import downsampled
from pipeline.trajectories.schema import Split

Listed = dict[str, tuple[Split, tuple[str, ...]]]
"""Split and ids, by the panel's name."""

FIRST_TEST: Final = {
    "test_first10": slice(0, 10),
    "test_mini": slice(0, 3),
    "test_mini_2": slice(3, 10),
}
"""The published evaluation sets: these test variations of every task (the first is 271 episodes)."""
SAMPLED: Final[dict[str, Split]] = {"train_sampled": "train", "dev_sampled": "dev"}
"""The variations from which SWIFT's published data was made: kinds in turn, so that any beginning of the
list is balanced."""


def listed_panels(types: Iterable[TaskType], variations: int | None = None) -> Listed:
    """The published panels of these task types.

    Args:
        types: the tasks.
        variations: only the first so many variations of each task in each split.
    """
    types = tuple(types)
    listed: Listed = {
        name: ("test", tuple(chain.from_iterable(_ids(kind, "test", variations, part) for kind in types)))
        for name, part in FIRST_TEST.items()
    }
    for name, split in SAMPLED.items():
        listed[name] = (split, tuple(_in_turn(_sampled(kind, split, variations) for kind in types)))
    return listed


def _ids(kind: TaskType, split: Split, variations: int | None, part: slice) -> list[str]:
    return [kind.task_id(variation) for variation in kind.fold(split)[:variations][part]]


def _sampled(kind: TaskType, split: Split, variations: int | None) -> list[str]:
    """Those of the fold that the public data kept, in the order in which it drew them."""
    fold = kind.fold(split)[:variations]
    drawn = downsampled(kind.id, range(kind.variations))
    return [kind.task_id(variation) for variation in drawn if variation in fold]


def _in_turn(lists: Iterable[list[str]]) -> list[str]:
    return [name for name in chain.from_iterable(zip_longest(*lists)) if name is not None]
