"""The tasks of both families, by kind and split, made from the facts and always the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from pipeline.environments.answers import LABELS
from pipeline.environments.atlas.chains import bridges_of_three, bridges_of_two
from pipeline.environments.atlas.claims import claims
from pipeline.environments.atlas.drafts import Draft, as_task, select
from pipeline.environments.atlas.intersections import intersections
from pipeline.environments.atlas.pairs import comparisons, yes_or_no
from pipeline.environments.atlas.world import World, load_world
from pipeline.trajectories.schema import Split, Task

TASKS_VERSION = "1"
"""Rises whenever the same facts give other tasks or pages."""

LIMITS: dict[Split, int] = {"train": 1400, "dev": 200, "test": 400}
"""Tasks of one kind in a split, at most."""

CONSTANT = 0.03
"""How large a share of a kind's limit one answer may have."""

QUESTIONS: dict[str, tuple[Callable[[World], Iterator[Draft]], float]] = {
    "bridge2": (bridges_of_two, CONSTANT),
    "bridge3": (bridges_of_three, CONSTANT),
    "comparison": (comparisons, CONSTANT),
    "intersection": (intersections, CONSTANT),
    "yesno": (yes_or_no, 0.5),
}
"""Each kind of question: what makes it, and the share that one answer may have."""

KINDS: dict[str, tuple[str, ...]] = {"questions": tuple(QUESTIONS), "claims": LABELS}
"""The kinds of each family."""


def _drafts(kind: str) -> Iterator[Draft]:
    world = load_world()
    if kind in QUESTIONS:
        return QUESTIONS[kind][0](world)
    return (draft for draft in _claims() if draft.kind == kind)


@cache
def _claims() -> Sequence[Draft]:
    return tuple(claims(load_world()))


@cache
def tasks_of(family: str, kind: str, split: Split) -> tuple[Task, ...]:
    """All tasks of a kind in a split, in a fixed order."""
    share = QUESTIONS[kind][1] if kind in QUESTIONS else 1.0
    chosen = select(load_world(), _drafts(kind), split, LIMITS[split], share)
    return tuple(as_task(draft, family, split) for draft in chosen)


def tasks(family: str, kinds: Sequence[str], split: Split) -> Iterator[Task]:
    """The tasks of several kinds in a fixed order: that of the hashes in their ids, which mixes them."""
    found = [task for kind in kinds for task in tasks_of(family, kind, split)]
    return iter(sorted(found, key=lambda task: task.id.rsplit("-", 1)[1]))
