"""The thirty tasks of ScienceWorld: ids, names, variations and folds (specs, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.errors import RecipeError
from pipeline.trajectories.schema import Split

_TABLE = """
1-1 boil 30
1-2 melt 30
1-3 freeze 30
1-4 change-the-state-of-matter-of 30
2-1 use-thermometer 540
2-2 measure-melting-point-known-substance 436
2-3 measure-melting-point-unknown-substance 300
3-1 power-component 20
3-2 power-component-renewable-vs-nonrenewable-energy 20
3-3 test-conductivity 900
3-4 test-conductivity-of-unknown-substances 600
4-1 find-living-thing 300
4-2 find-non-living-thing 300
4-3 find-plant 300
4-4 find-animal 300
5-1 grow-plant 126
5-2 grow-fruit 126
6-1 chemistry-mix 32
6-2 chemistry-mix-paint-secondary-color 36
6-3 chemistry-mix-paint-tertiary-color 36
7-1 lifespan-longest-lived 125
7-2 lifespan-shortest-lived 125
7-3 lifespan-longest-lived-then-shortest-lived 125
8-1 identify-life-stages-1 14
8-2 identify-life-stages-2 10
9-1 inclined-plane-determine-angle 168
9-2 inclined-plane-friction-named-surfaces 1386
9-3 inclined-plane-friction-unnamed-surfaces 162
10-1 mendelian-genetics-known-plant 120
10-2 mendelian-genetics-unknown-plant 480
"""


@dataclass(frozen=True)
class TaskType:
    """One of the thirty: its id as in the paper, its name, its place among the sorted names."""

    id: str
    name: str
    variations: int
    index: int

    @property
    def electrical(self) -> bool:
        """Whether wires must be connected: ``noElectricalAction`` would make it impossible."""
        return "power-component" in self.name or "conductivity" in self.name

    def fold(self, split: Split) -> range:
        """The variations of a split: two quarters train, one dev, the rest test, in this order."""
        quarter = self.variations // 4
        return {
            "train": range(2 * quarter),
            "dev": range(2 * quarter, 3 * quarter),
            "test": range(3 * quarter, self.variations),
        }[split]

    def task_id(self, variation: int) -> str:
        """The id of a variation as a task: ``scienceworld-1-1-0012``."""
        return f"scienceworld-{self.id}-{variation:04d}"


def _types() -> tuple[TaskType, ...]:
    rows = [line.split() for line in _TABLE.strip().split("\n")]
    rows.sort(key=lambda row: row[1])
    return tuple(TaskType(row[0], row[1], int(row[2]), index) for index, row in enumerate(rows))


TYPES: Final = _types()
"""All task types, in the order of their names: SwiftSage's numbers."""

BY_ID: Final = {kind.id: kind for kind in TYPES}
BY_NAME: Final = {kind.name: kind for kind in TYPES}

GOLD_STEPS: Final = 1000
"""Moves that are enough for any gold path. ``wait`` takes eleven, so many paths need more than the
customary 100, and some more than 300."""


def chosen_types(kinds: Sequence[str]) -> tuple[TaskType, ...]:
    """The task types that a recipe names by id or name, in the order of their names; none means all.

    Raises:
        RecipeError: there is no such task.
    """
    chosen: set[TaskType] = set()
    for kind in kinds:
        found = BY_ID.get(kind) or BY_NAME.get(kind)
        if found is None:
            known = ", ".join(f"{each.id} {each.name}" for each in TYPES)
            raise RecipeError(
                f"environment.kinds: {kind!r} is not a task of ScienceWorld; known are: {known}"
            )
        chosen.add(found)
    return tuple(kind for kind in TYPES if kind in chosen) if chosen else TYPES
