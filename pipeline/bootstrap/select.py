"""Choose which trajectories to train on, in memory that does not grow with their texts.

Two passes over the trajectories. The first applies the rules and keeps a short entry of each (ids
and hashes, no texts); the choice is then made among the entries, by hashes alone, so the order in
which trajectories arrive changes nothing. The second copies the chosen ones out, shuffled by the
recipe's seed.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from pipeline.bootstrap.ledger import KEPT, Ledger, Tally
from pipeline.bootstrap.rules import Excluded, Limits, first_failed
from pipeline.bootstrap.write import write_shuffled
from pipeline.errors import StoreError
from pipeline.recipe.models import SelectRecipe
from pipeline.trajectories.files import write_json
from pipeline.trajectories.schema import Task, Trajectory, digest
from pipeline.trajectories.store import trajectory_line

Source = Callable[[], Iterable[Trajectory]]
"""Opens the trajectories from the start; called twice, and must give the same ones both times."""

SELECTED: Final = "selected.jsonl"
LEDGER: Final = "ledger.json"


@dataclass(slots=True)
class Entry:
    """What is remembered of a trajectory: about 400 bytes, whatever its length.

    ``words`` hashes what the model thought and did, ``content`` everything; ``verdict`` is ``KEPT``
    until a rule takes it.
    """

    position: int
    id: str
    task: str
    kind: str
    steps: int
    words: str
    content: str
    verdict: str


@dataclass(frozen=True)
class Selection:
    """What was chosen: ids in the order of the output, and the position of each in the source."""

    ids: list[str]
    positions: list[int]
    ledger: Ledger = field(default_factory=Ledger)


def select(trajectories: Source, recipe: SelectRecipe, exclude: Excluded | None = None) -> Selection:
    """Choose the trajectories that the recipe asks for; nothing is written.

    Args:
        trajectories: opens the stream; called once here.
        recipe: target, trajectories a task, step limit, balance, seed.
        exclude: tasks of evaluation panels and exemplars, never chosen.
    """
    limits = Limits(recipe.max_steps, exclude or Excluded())
    tasks = _Tasks()
    entries = [
        _entry(position, trajectory, limits, tasks) for position, trajectory in enumerate(trajectories())
    ]
    _drop_duplicates(entries)
    _drop_same_words(entries)
    ranks = _cap_tasks(entries, recipe)
    _take(entries, ranks, recipe)
    chosen = sorted(_kept(entries), key=lambda entry: digest([recipe.seed, "order", entry.id]))
    tally = Tally()
    for entry in entries:
        tally.add(entry.task, entry.kind, entry.verdict)
    ledger = tally.close(tasks.conflicts())
    return Selection([entry.id for entry in chosen], [entry.position for entry in chosen], ledger)


def select_into(
    folder: Path, trajectories: Source, recipe: SelectRecipe, exclude: Excluded | None = None
) -> Selection:
    """Choose, then write ``selected.jsonl`` and ``ledger.json`` into the run folder.

    Raises:
        StoreError: the trajectories changed between the two passes, or a file cannot be written.
    """
    selection = select(trajectories, recipe, exclude)
    rank_of = {position: rank for rank, position in enumerate(selection.positions)}
    write_shuffled(folder / SELECTED, _ranked(trajectories, rank_of, selection.ids))
    write_json(folder / LEDGER, selection.ledger.model_dump())
    return selection


def _ranked(
    trajectories: Source, rank_of: dict[int, int], ids: list[str]
) -> Iterator[tuple[int, Trajectory]]:
    """The chosen trajectories in source order, each with its place in the output."""
    found = 0
    for position, trajectory in enumerate(trajectories()):
        rank = rank_of.get(position)
        if rank is None:
            continue
        if trajectory.id != ids[rank]:
            break
        found += 1
        yield rank, trajectory
    if found != len(ids):
        raise StoreError(
            f"the trajectories changed while they were being selected ({found} of {len(ids)} found again): "
            "let generation end, then select again"
        )


class _Tasks:
    """Remembers what each task asks and accepts, to find tasks that contradict each other."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, str]] = {}

    def add(self, task: Task) -> None:
        if task.id not in self._seen:
            asked = digest([task.environment, task.family, task.problem.strip()])
            self._seen[task.id] = (asked, digest(sorted(task.gold)))

    def conflicts(self) -> list[str]:
        golds: dict[str, set[str]] = {}
        for asked, gold in self._seen.values():
            golds.setdefault(asked, set()).add(gold)
        return [task for task, (asked, _) in self._seen.items() if len(golds[asked]) > 1]


def _entry(position: int, trajectory: Trajectory, limits: Limits, tasks: _Tasks) -> Entry:
    tasks.add(trajectory.task)
    return Entry(
        position=position,
        id=trajectory.id,
        task=trajectory.task.id,
        kind=trajectory.task.kind,
        steps=len(trajectory.steps),
        words=digest([[step.thought, step.action] for step in trajectory.steps]),
        content=hashlib.sha256(trajectory_line(trajectory)).hexdigest()[:16],
        verdict=first_failed(trajectory, limits) or KEPT,
    )


def _kept(entries: list[Entry]) -> Iterator[Entry]:
    return (entry for entry in entries if entry.verdict == KEPT)


def _drop_duplicates(entries: list[Entry]) -> None:
    """One trajectory an id: one that passed the rules, if any did."""
    _keep_first(
        entries, lambda entry: entry.id, lambda entry: (entry.verdict != KEPT, entry.content), "duplicate"
    )


def _drop_same_words(entries: list[Entry]) -> None:
    """One trajectory of those that think and do the same in the same task."""
    _keep_first(
        list(_kept(entries)), lambda entry: (entry.task, entry.words), lambda entry: entry.id, "distinct"
    )


def _keep_first(
    entries: list[Entry], group: Callable[[Entry], Any], order: Callable[[Entry], Any], rule: str
) -> None:
    """Of each group only the first stays; the others fall to the rule."""
    ordered = sorted(entries, key=lambda entry: (group(entry), order(entry)))
    for _, members in groupby(ordered, key=group):
        for entry in list(members)[1:]:
            entry.verdict = rule


def _cap_tasks(entries: list[Entry], recipe: SelectRecipe) -> dict[str, int]:
    """Keep the shortest ``per_task`` of each task, ties by seed; each one's rank within its task."""
    ordered = sorted(
        _kept(entries), key=lambda entry: (entry.task, entry.steps, digest([recipe.seed, entry.id]))
    )
    ranks: dict[str, int] = {}
    for _, members in groupby(ordered, key=lambda entry: entry.task):
        for rank, entry in enumerate(members):
            ranks[entry.id] = rank
            if rank >= recipe.per_task:
                entry.verdict = "per_task"
    return ranks


def _take(entries: list[Entry], ranks: dict[str, int], recipe: SelectRecipe) -> None:
    """Keep ``target`` trajectories, kinds in turn when balanced; new tasks before second samples."""
    ordered = sorted(_kept(entries), key=lambda entry: (ranks[entry.id], digest([recipe.seed, entry.id])))
    if recipe.balance:
        ordered = _in_turn(ordered, recipe.seed)
    for entry in ordered[recipe.target :]:
        entry.verdict = "target"


def _in_turn(ordered: list[Entry], seed: int) -> list[Entry]:
    """The first of every kind, then the second of every kind, and so on."""
    turns: Counter[str] = Counter()
    keys: dict[str, tuple[int, str]] = {}
    for entry in ordered:
        turns[entry.kind] += 1
        keys[entry.id] = (turns[entry.kind], digest([seed, "kind", entry.kind]))
    return sorted(ordered, key=lambda entry: keys[entry.id])
