"""Data files and the splits they make: one file a split, or one file of which some tasks are held out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from pipeline.environments.wiki.records import files, fingerprint
from pipeline.errors import FormatError, RecipeError
from pipeline.trajectories.schema import Split, Task, digest

Reader = Callable[[Path, str], Iterator[tuple[str, Task]]]
"""Reads a file as tasks of a split, each with the place where it stands."""

_WHOLE = "all"
"""What the one file is called whose tasks are divided."""


class TaskFiles:
    """The tasks of an environment's data.

    Args:
        read: reads one file.
        data: one path (split ``dev`` unless tasks are held out), or a path for each split.
        hold_out: of one path, so many tasks are split ``test``, chosen by a hash of their id whatever
            their order; the rest is ``train``.

    Raises:
        RecipeError: the options do not fit together.
        EnvironmentFault: a file is missing.
    """

    def __init__(self, read: Reader, data: str | Mapping[str, str], hold_out: int = 0) -> None:
        self._read = read
        self._hold_out = _checked_number(hold_out)
        self._paths = _paths(data, self._hold_out)
        for path in self._paths.values():
            files(path)

    @property
    def paths(self) -> list[Path]:
        """The files, in the order of their splits."""
        return list(self._paths.values())

    @cached_property
    def identity(self) -> str:
        """A hash of everything that decides the tasks."""
        return digest([{name: fingerprint(path) for name, path in self._paths.items()}, self._hold_out])

    def tasks(self, split: Split) -> Iterator[Task]:
        """The tasks of a split, in the order of the file, one at a time.

        Raises:
            RecipeError: the data has no such split.
            FormatError: a row is broken, or an id stands there twice.
        """
        known = ("train", "test") if self._hold_out else tuple(self._paths)
        if split not in known:
            raise RecipeError(
                f"environment.options.data has no split {split!r}, only {', '.join(known)}:"
                f" name its file as data.{split}, or hold tasks out of one file with hold_out"
            )
        return self._divided(split) if self._hold_out else self._distinct(self._paths[split], split)

    def _divided(self, split: Split) -> Iterator[Task]:
        for task in self._distinct(self._paths[_WHOLE], _WHOLE):
            task.split = "test" if task.id in self._held_out else "train"
            if task.split == split:
                yield task

    @cached_property
    def _held_out(self) -> frozenset[str]:
        names = [task.id for task in self._distinct(self._paths[_WHOLE], _WHOLE)]
        if self._hold_out >= len(names):
            raise RecipeError(
                f"environment.options.hold_out: {self._hold_out} of {len(names)} tasks leave none to train on"
            )
        return frozenset(sorted(names, key=lambda name: (digest(name), name))[: self._hold_out])

    def _distinct(self, path: Path, split: str) -> Iterator[Task]:
        seen: set[str] = set()
        for where, task in self._read(path, split):
            if task.id in seen:
                raise FormatError(f"{where}: the id of task {task.id!r} stands in the data twice")
            seen.add(task.id)
            yield task


def _checked_number(hold_out: Any) -> int:
    if isinstance(hold_out, bool) or not isinstance(hold_out, int) or hold_out < 0:
        raise RecipeError(
            f"environment.options.hold_out: {hold_out!r} is not a number of tasks (0 holds none out)"
        )
    return hold_out


def _paths(data: Any, hold_out: int) -> dict[str, Path]:
    if isinstance(data, str | Path) and str(data).strip():
        return {_WHOLE if hold_out else "dev": Path(data)}
    if not isinstance(data, Mapping) or not data:
        raise RecipeError(
            f"environment.options.data: {data!r} names no data: give the path of a file (data=<path>),"
            " or a path for each of train, dev and test"
        )
    if hold_out:
        raise RecipeError("environment.options.hold_out divides one file: give data as one path")
    for name, path in data.items():
        if name not in get_args(Split):
            raise RecipeError(f"environment.options.data: {name!r} is no split: they are train, dev and test")
        if not isinstance(path, str | Path) or not str(path).strip():
            raise RecipeError(f"environment.options.data.{name}: {path!r} is not a path")
    return {name: Path(data[name]) for name in get_args(Split) if name in data}
