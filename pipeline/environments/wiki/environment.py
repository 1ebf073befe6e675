"""What HotpotQA and FEVER have in common: data files, a wiki that is opened when needed, a wording."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pipeline.environments.wiki.backend import Page, WikiBackend
from pipeline.environments.wiki.episode import SHOWN, WIKI_TOOLS, WikiEpisode
from pipeline.environments.wiki.oracle import Clue, Oracle
from pipeline.environments.wiki.settings import CHOICES, WikiSettings
from pipeline.environments.wiki.splits import TaskFiles
from pipeline.environments.wiki.wording import wording_named
from pipeline.errors import RecipeError
from pipeline.recipe.models import PanelRecipe
from pipeline.rendering.base import ToolSpec
from pipeline.trajectories.schema import Grade, Split, Step, Task, digest

VERSION = "1"
"""Rises whenever the same data and wiki give other tasks, observations or grades."""


class WikiEnvironment:
    """Base of the environments that read a data file and search a wiki.

    Args:
        family: none; these environments have one.
        kinds: only tasks of these kinds; empty means all.
        data: one path (split ``dev``, or ``train`` and ``test`` with ``hold_out``), or a path for each
            of ``train``, ``dev`` and ``test``.
        hold_out: of one path, so many tasks are split ``test``, the rest ``train``.
        wiki: which wiki is searched, as in ``WikiSettings``.
        wording: ``default``, or ``react2022`` as the published environment.
        shown: sentences of a page that a search shows.

    Raises:
        RecipeError: an option is wrong.
        EnvironmentFault: a data file is missing.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    max_steps: ClassVar[int]
    panels: ClassVar[dict[str, PanelRecipe]]
    known_kinds: ClassVar[tuple[str, ...]]
    default_wiki: ClassVar[Mapping[str, Any] | None] = None
    resigned: ClassVar[str] = ""
    """The oracle's answer where the evidence cannot be seen."""
    tools: ClassVar[tuple[ToolSpec, ...]] = WIKI_TOOLS

    def __init__(
        self,
        family: str = "",
        kinds: Sequence[str] = (),
        *,
        data: str | Mapping[str, str],
        hold_out: int = 0,
        wiki: Mapping[str, Any] | None = None,
        wording: str = "default",
        shown: int = SHOWN,
    ) -> None:
        if family:
            raise RecipeError(f"environment.family: {self.name} has no families, so {family!r} is none of it")
        unknown = [kind for kind in kinds if kind not in self.known_kinds]
        if unknown:
            known = ", ".join(self.known_kinds)
            raise RecipeError(
                f"environment.kinds: {unknown[0]!r} is not a kind of {self.name}; known are: {known}"
            )
        if isinstance(shown, bool) or shown < 1:
            raise RecipeError(f"environment.options.shown: {shown!r} is not a number of sentences")
        self.family = ""
        self._kinds = frozenset(kinds)
        self._shown = shown
        self._wording = wording_named(wording)
        chosen = self.default_wiki if wiki is None else wiki
        self._settings = None if chosen is None else WikiSettings.of(chosen)
        self._files = TaskFiles(self.read, data, hold_out)
        self._lock = threading.Lock()
        self._wiki: WikiBackend | None = None
        self.blocking = self._settings is not None and self._settings.blocking

    @staticmethod
    def read(path: Path, split: str) -> Iterator[tuple[str, Task]]:
        """The tasks of a file, each with the place where it stands."""
        raise NotImplementedError

    @staticmethod
    def contexts(path: Path) -> Iterable[Page]:
        """The paragraphs that come with the tasks of a file, as pages."""
        return ()

    @property
    def wiki(self) -> WikiBackend:
        """The wiki, opened at its first use and shared by all episodes.

        Raises:
            RecipeError: the recipe names none and the data brings none.
            EnvironmentFault: it cannot be opened.
        """
        with self._lock:
            if self._wiki is None:
                if self._settings is None:
                    raise RecipeError(
                        f"environment.options.wiki is missing, and the data of {self.name} has no pages:"
                        f" set it to {CHOICES}"
                    )
                self._wiki = self._settings.open(self._pages, f"contexts-{self._files.identity}")
            return self._wiki

    def _pages(self) -> Iterator[Page]:
        return (page for path in self._files.paths for page in self.contexts(path))

    @cached_property
    def version(self) -> str:
        """A hash of data, wiki and wording."""
        parts = [self._files.identity, self.wiki.version, self._wording.name, self._shown]
        return f"{VERSION}-{digest(parts, 12)}"

    def tasks(self, split: Split) -> Iterator[Task]:
        """Every task of a split and of the chosen kinds, in the order of the data.

        Raises:
            RecipeError: the data has no such split.
            FormatError: a row of the data is broken.
        """
        found = self._files.tasks(split)
        return (task for task in found if not self._kinds or task.kind in self._kinds)

    def episode(self, task: Task) -> WikiEpisode:
        """A fresh episode."""
        opening = self._wording.opening(self.label, task.instruction)
        return WikiEpisode(
            self.wiki, lambda answer: self.grade(task, answer), opening, self._shown, self._wording
        )

    @staticmethod
    def grade(task: Task, answer: str | None) -> Grade:
        """The verdict on an answer; None is an episode without one."""
        raise NotImplementedError

    def expert(self, task: Task, seed: int) -> Iterator[Step] | None:
        """The scripted oracle's thoughts and actions; None where the data has no evidence or answer."""
        if not task.gold or not self.has_evidence(task):
            return None
        oracle = Oracle(self.wiki, self._wording, self.max_steps, self._shown, self.resigned)
        rng = random.Random(f"{task.id} {seed}")
        return oracle.steps(task, self.clues(task, oracle), self.label, rng, self.proof(task))

    def has_evidence(self, task: Task) -> bool:
        """Whether the data says where the answer stands."""
        raise NotImplementedError

    def proof(self, task: Task) -> str:
        """What the oracle must have seen before it answers; empty where the evidence is enough."""
        return ""

    def clues(self, task: Task, oracle: Oracle) -> list[Clue]:
        """What the oracle reads, in its order."""
        raise NotImplementedError
