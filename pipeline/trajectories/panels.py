"""Panels: frozen lists of tasks, drawn once by a seed and the same for ever.

A panel remembers of each task its id, the hash of its content and the hash of its problem's
normalised words, so that a changed data set or an overlap with another panel is noticed without the
tasks at hand.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipeline.errors import RecipeError, StoreError
from pipeline.recipe.models import PanelRecipe
from pipeline.trajectories.files import read_json, write_json
from pipeline.trajectories.schema import Record, Split, Task, digest


def normal_text(text: str) -> str:
    """The form in which instructions are compared: case, punctuation and spacing do not count."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.sub(r"[\W_]+", " ", folded).split())


class PanelEntry(Record):
    """One task of a panel: its id, its content hash and the hash of its problem's normalised words."""

    id: str
    content: str
    text: str

    @classmethod
    def of(cls, task: Task) -> PanelEntry:
        """What a panel remembers of a task."""
        return cls(id=task.id, content=task.content_hash, text=digest(normal_text(task.problem)))


class _PanelFile(Record):
    split: Split
    seed: int
    digest: str
    tasks: list[PanelEntry]


@dataclass(frozen=True)
class Panel:
    """Tasks of one split in a fixed order.

    A panel read from a file knows its entries only; ``attach`` gives it its tasks.
    """

    split: Split
    seed: int
    entries: tuple[PanelEntry, ...]
    attached: tuple[Task, ...] | None = field(default=None, compare=False, repr=False)

    @property
    def ids(self) -> list[str]:
        """The tasks' ids, in the panel's order."""
        return [entry.id for entry in self.entries]

    @property
    def digest(self) -> str:
        """A hash of the ids and contents, in order: equal panels play the same problems."""
        return digest([[entry.id, entry.content] for entry in self.entries])

    @property
    def tasks(self) -> list[Task]:
        """The tasks, in the panel's order.

        Raises:
            StoreError: the panel was read from a file and has not been given its tasks.
        """
        if self.attached is None:
            raise StoreError(f"the panel {self.digest} was read from a file: attach its tasks first")
        return list(self.attached)

    def attach(self, tasks: Iterable[Task]) -> Panel:
        """The same panel with its tasks, found among ``tasks``.

        Raises:
            StoreError: a task is missing or no longer the same problem (its id is named).
        """
        wanted = {entry.id: entry for entry in self.entries}
        found = {task.id: task for task in tasks if task.id in wanted}
        for name, entry in wanted.items():
            if name not in found:
                raise StoreError(f"the panel's task {name!r} is not among the tasks of split {self.split!r}")
            if found[name].content_hash != entry.content:
                raise StoreError(f"the panel's task {name!r} is no longer the same problem: draw a new panel")
        return Panel(self.split, self.seed, self.entries, tuple(found[name] for name in wanted))

    def __len__(self) -> int:
        return len(self.entries)


def draw_panel(tasks: Iterable[Task], recipe: PanelRecipe, exclude: Iterable[str] = ()) -> Panel:
    """Draw a panel, in the way that the recipe says.

    ``hashed``: kinds of task in turn, each kind in an order decided by the seed alone. The order in
    which ``tasks`` come does not matter. ``shuffled``: in the order of a published sample. In both, a
    smaller panel is the beginning of a larger one with the same seed.

    Args:
        tasks: candidates; those of other splits are passed over.
        recipe: split, size, seed and way.
        exclude: ids or instructions of tasks that may not be drawn (exemplars).

    Raises:
        RecipeError: there are fewer tasks than asked for, or no split is named.
    """
    if recipe.split is None:
        raise RecipeError("a panel that is drawn needs a split: train, dev or test")
    banned = set(exclude)
    banned |= {normal_text(value) for value in banned}
    known = list({task.id: task for task in tasks if task.split == recipe.split}.values())
    order = _shuffled(known, recipe) if recipe.draw == "shuffled" else _hashed(known, recipe)
    drawn = [task for task in order if not _is_banned(task, banned)]
    if recipe.size is not None and len(drawn) < recipe.size:
        raise RecipeError(
            f"the panel asks for {recipe.size} tasks of split {recipe.split!r}, but there are only"
            f" {len(drawn)}: ask for fewer, or for more kinds of task"
        )
    drawn = drawn[: recipe.size]
    return Panel(recipe.split, recipe.seed, tuple(PanelEntry.of(task) for task in drawn), tuple(drawn))


def check_disjoint(first: Panel, second: Panel) -> None:
    """Make sure that no task of one panel is in the other, under its own id or another.

    Raises:
        StoreError: they overlap; one offending id is named.
    """
    ids = {entry.id for entry in first.entries}
    texts = {entry.text: entry.id for entry in first.entries}
    for entry in second.entries:
        if entry.id in ids:
            raise StoreError(f"task {entry.id!r} is in both panels: draw them from different splits")
        if entry.text in texts:
            raise StoreError(
                f"task {entry.id!r} asks the same as task {texts[entry.text]!r} of the other panel:"
                " leave one of them out"
            )


def save_panel(path: Path, panel: Panel) -> None:
    """Write a panel's entries as JSON. Raises ``StoreError`` where it cannot be written."""
    content = _PanelFile(split=panel.split, seed=panel.seed, digest=panel.digest, tasks=list(panel.entries))
    write_json(path, content.model_dump(mode="json"))


def load_panel(path: Path) -> Panel:
    """Read a panel's entries.

    Raises:
        StoreError: the file is missing, is no panel, or was changed since it was written.
    """
    raw: Any = read_json(path)
    try:
        content = _PanelFile.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StoreError(f"{path} is not a panel: {where or 'the file'}: {first['msg']}") from None
    panel = Panel(content.split, content.seed, tuple(content.tasks))
    if panel.digest != content.digest:
        raise StoreError(f"{path} was changed by hand: its tasks do not give its digest {content.digest!r}")
    return panel


def _hashed(tasks: list[Task], recipe: PanelRecipe) -> Iterator[Task]:
    ranked = sorted(tasks, key=lambda task: (digest([recipe.seed, task.id, task.content_hash]), task.id))
    return _in_turn(ranked)


def _shuffled(tasks: list[Task], recipe: PanelRecipe) -> Iterator[Task]:
    """Positions shuffled by the standard generator, as published samples were drawn."""
    positions = list(range(recipe.among or len(tasks)))
    if len(tasks) < len(positions):
        raise RecipeError(
            f"the panel shuffles the first {len(positions)} tasks of split {recipe.split!r}, but the data"
            f" has only {len(tasks)}: it needs the complete file, in its published order"
        )
    random.Random(recipe.seed).shuffle(positions)
    return (tasks[position] for position in positions)


def named_panel(split: Split, tasks: Iterable[Task], ids: Sequence[str], where: str) -> Panel:
    """The panel of a list of ids, in its order.

    Args:
        split: whose tasks they are.
        tasks: all tasks of the split.
        ids: which ones.
        where: what to call the list in an error.

    Raises:
        RecipeError: an id is not a task of the split, or stands there twice.
    """
    known = {task.id: task for task in tasks}
    missing = next((name for name in ids if name not in known), None)
    if missing is not None:
        raise RecipeError(f"{where}: {missing!r} is not the id of a task of split {split!r}")
    twice = next((name for name, count in Counter(ids).items() if count > 1), None)
    if twice is not None:
        raise RecipeError(f"{where}: task {twice!r} is listed more than once")
    chosen = tuple(known[name] for name in ids)
    return Panel(split, 0, tuple(PanelEntry.of(task) for task in chosen), chosen)


def _is_banned(task: Task, banned: set[str]) -> bool:
    return bool(banned) and (task.id in banned or normal_text(task.problem) in banned)


def _in_turn(tasks: Iterable[Task]) -> Iterator[Task]:
    """One task of each kind after another, until the kinds run out."""
    kinds: defaultdict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        kinds[task.kind].append(task)
    rounds = zip_longest(*(kinds[kind] for kind in sorted(kinds)))
    return (task for task in chain.from_iterable(rounds) if task is not None)
