"""Which variations a panel holds: the published evaluation sets, as lists of task ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pipeline.environments.scienceworld.names import TaskType
from pipeline.trajectories.schema import Split

FIRST_TEST: Final = {
    "test_first10": slice(0, 10),
    "test_mini": slice(0, 3),
    "test_mini_2": slice(3, 10),
}
"""The published evaluation sets: these test variations of every task (the first is 271 episodes)."""


def listed_panels(types: Iterable[TaskType]) -> dict[str, tuple[Split, tuple[str, ...]]]:
    """The published evaluation sets of these task types: split and ids, by name."""
    types = tuple(types)
    return {
        name: (
            "test",
            tuple(kind.task_id(variation) for kind in types for variation in kind.fold("test")[part]),
        )
        for name, part in FIRST_TEST.items()
    }
