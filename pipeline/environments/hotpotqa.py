"""HotpotQA: questions that need two pages of Wikipedia (Yang et al. 2018), played as in the ReAct paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pipeline.environments.answers import CLOSED, normalise
from pipeline.environments.wiki.backend import Page
from pipeline.environments.wiki.environment import WikiEnvironment
from pipeline.environments.wiki.grading import grade_question
from pipeline.environments.wiki.oracle import Clue, Oracle
from pipeline.environments.wiki.questions import KINDS, context_pages, question_tasks
from pipeline.environments.wiki.titles import fold
from pipeline.recipe.models import PanelRecipe
from pipeline.trajectories.schema import Grade, Task


class HotpotQAEnvironment(WikiEnvironment):
    """HotpotQA: multi-hop questions over Wikipedia, graded by exact match and F1."""

    name = "hotpotqa"
    label = "Question"
    max_steps = 7
    known_kinds = KINDS
    default_wiki: ClassVar[Mapping[str, Any] | None] = {"backend": "contexts"}
    resigned = "unknown"
    panels: ClassVar[dict[str, PanelRecipe]] = {
        "react500": PanelRecipe(split="dev", size=500, seed=233, draw="shuffled", among=7405),
    }

    @staticmethod
    def read(path: Path, split: str) -> Iterator[tuple[str, Task]]:
        """The questions of a file."""
        return question_tasks(path, split)

    @staticmethod
    def contexts(path: Path) -> Iterable[Page]:
        """The context paragraphs of a file."""
        return context_pages(path)

    @staticmethod
    def grade(task: Task, answer: str | None) -> Grade:
        """Exact match and F1, strict and official; strict exact match decides."""
        return grade_question(task, answer)

    def normalise(self, answer: str) -> str:
        """The form in which two answers are compared."""
        return normalise(answer)

    def has_evidence(self, task: Task) -> bool:
        """Whether it has supporting facts."""
        return bool(task.meta.get("supporting_facts"))

    def proof(self, task: Task) -> str:
        """The answer itself, unless it is yes or no."""
        return "" if normalise(task.gold[0]) in CLOSED else task.gold[0]

    def clues(self, task: Task, oracle: Oracle) -> list[Clue]:
        """The supporting facts by page: as the question names them, the page with the answer last."""
        numbers: dict[str, list[int]] = {}
        for title, number in task.meta.get("supporting_facts", []):
            numbers.setdefault(str(title), []).append(int(number))
        clues = [Clue(title, tuple(sorted(set(found)))) for title, found in numbers.items()]
        question, answer = fold(task.instruction), fold(self.proof(task))

        def place(clue: Clue) -> tuple[bool, bool, int]:
            at = question.find(fold(clue.title))
            bears = task.kind == "bridge" and _bears(clue, answer, oracle)
            return bears, at < 0, at

        ordered = sorted(clues, key=place)
        return _completed(ordered, answer, oracle) if answer else ordered


def _bears(clue: Clue, answer: str, oracle: Oracle) -> bool:
    """Whether the answer stands in the supporting sentences of a page."""
    page = oracle.sentences(clue.title) or []
    return any(answer in fold(page[number]) for number in clue.sentences if number < len(page))


def _completed(clues: list[Clue], answer: str, oracle: Oracle) -> list[Clue]:
    """The clues, with the sentence that has the answer where none of theirs does.

    The data set counts sentences as its own splitter cut them; ours differs in about one of a hundred.
    """
    if any(_bears(clue, answer, oracle) for clue in clues):
        return clues
    for place, clue in reversed(list(enumerate(clues))):
        page = oracle.sentences(clue.title) or []
        number = next((number for number, text in enumerate(page) if answer in fold(text)), None)
        if number is not None:
            clues[place] = Clue(clue.title, tuple(sorted({*clue.sentences, number})))
            break
    return clues
