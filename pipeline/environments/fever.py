"""FEVER: claims to check against Wikipedia (Thorne et al. 2018), played as in the ReAct paper."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from pipeline.environments.answers import LABELS, claim_label, normalise
from pipeline.environments.wiki.claims import claim_tasks
from pipeline.environments.wiki.environment import WikiEnvironment
from pipeline.environments.wiki.grading import grade_claim
from pipeline.environments.wiki.oracle import Clue, Oracle
from pipeline.recipe.models import PanelRecipe
from pipeline.trajectories.schema import Grade, Task

OPEN = "NOT ENOUGH INFO"
"""The label of a claim that Wikipedia leaves open."""

SETS, SPANS = 8, 4
"""How many sets of evidence, and how many names in a claim, the oracle looks for at most."""

_NAME = re.compile(r"[A-Z0-9][\w'’.-]*(?:\s+(?:(?:of|the|and|in|on|for|de|la|&)\s+){0,2}[A-Z0-9][\w'’.-]*)*")
_LEADING = re.compile(r"(?:The|A|An|There|In|On|At|It|He|She|They)\s+")


class FeverEnvironment(WikiEnvironment):
    """FEVER: claims that Wikipedia supports, refutes or leaves open, graded by label."""

    name = "fever"
    label = "Claim"
    max_steps = 5
    known_kinds = LABELS
    resigned = OPEN
    panels: ClassVar[dict[str, PanelRecipe]] = {
        "react500": PanelRecipe(split="dev", size=500, seed=233, draw="shuffled", among=7405),
        "fever500": PanelRecipe(split="dev", size=500, seed=233, draw="shuffled", among=9999),
    }

    @staticmethod
    def read(path: Path, split: str) -> Iterator[tuple[str, Task]]:
        """The claims of a file."""
        return claim_tasks(path, split)

    @staticmethod
    def grade(task: Task, answer: str | None) -> Grade:
        """Accuracy by label."""
        return grade_claim(task, answer)

    def normalise(self, answer: str) -> str:
        """The form in which two answers are compared."""
        return claim_label(answer) or normalise(answer)

    def has_evidence(self, task: Task) -> bool:
        """Whether it has a set of evidence that can be read within the steps, or is open."""
        return task.gold == [OPEN] or bool(self._sets(task))

    def clues(self, task: Task, oracle: Oracle) -> list[Clue]:
        """The smallest set of evidence whose pages are there; for an open claim, a page that it names."""
        if task.gold == [OPEN]:
            return [Clue(_named(task.instruction, oracle))]
        sets = self._sets(task)[:SETS]
        there = (clues for clues in sets if all(oracle.sentences(clue.title) for clue in clues))
        return next(there, sets[0])

    def _sets(self, task: Task) -> list[list[Clue]]:
        """The sets of evidence that fit into the steps, those on few pages and near their top first."""
        sets = [_as_clues(evidence) for evidence in task.meta.get("evidence", [])]
        fitting = [clues for clues in sets if len(clues) < self.max_steps]
        return sorted(fitting, key=lambda clues: (len(clues), max(clue.sentences[-1] for clue in clues)))


def _as_clues(evidence: list[list[object]]) -> list[Clue]:
    numbers: dict[str, list[int]] = {}
    for title, number in evidence:
        numbers.setdefault(str(title), []).append(int(str(number)))
    return [Clue(title, tuple(sorted(set(found)))) for title, found in numbers.items()]


def _named(claim: str, oracle: Oracle) -> str:
    """A name in the claim that has a page, or its first name, or its first words."""
    spans = [_LEADING.sub("", span, count=1).strip(" .") for span in _NAME.findall(claim)]
    names = [span for span in dict.fromkeys(spans) if len(span) > 2][:SPANS]
    there = (name for name in names if oracle.sentences(name))
    return next(there, names[0] if names else " ".join(claim.split()[:4]))
