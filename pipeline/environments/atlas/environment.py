"""The embedded environment: an encyclopedia of real facts, its tasks, grader and expert."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import ClassVar

from pipeline.environments.answers import claim_label, normalise
from pipeline.environments.atlas.expert import Expert
from pipeline.environments.atlas.pages import pages, redirects
from pipeline.environments.atlas.tasks import KINDS, TASKS_VERSION, tasks
from pipeline.environments.atlas.world import load_world
from pipeline.environments.wiki.episode import WIKI_TOOLS, WikiEpisode
from pipeline.environments.wiki.grading import grade_claim, grade_question
from pipeline.environments.wiki.local import LocalWiki
from pipeline.errors import RecipeError
from pipeline.recipe.models import PanelRecipe
from pipeline.trajectories.schema import Grade, Split, Step, Task

LABEL = {"questions": "Question", "claims": "Claim"}
MAX_STEPS = {"questions": 7, "claims": 5}


@cache
def load_wiki() -> LocalWiki:
    """The pages of the atlas in memory, built once a process."""
    world = load_world()
    version = f"{TASKS_VERSION}-{world.facts.hash}"
    return LocalWiki.build(pages(world), redirects(world), version=version)


class AtlasEnvironment:
    """The atlas: family ``questions`` (EM and F1) or ``claims`` (accuracy).

    Args:
        family: ``questions`` (also when empty) or ``claims``.
        kinds: only tasks of these kinds; empty means all of the family.

    Raises:
        RecipeError: there is no such family or kind.
    """

    name = "atlas"
    tools = WIKI_TOOLS

    panels: ClassVar[dict[str, PanelRecipe]] = {
        "dev100": PanelRecipe(split="dev", size=100),
        "test100": PanelRecipe(split="test", size=100),
        "test500": PanelRecipe(split="test", size=500),
    }

    def __init__(self, family: str = "", kinds: Sequence[str] = ()) -> None:
        self.family = family or "questions"
        if self.family not in KINDS:
            known = ", ".join(KINDS)
            raise RecipeError(f"environment.family: {family!r} is not a family of atlas; known are: {known}")
        for kind in kinds:
            if kind not in KINDS[self.family]:
                known = ", ".join(KINDS[self.family])
                raise RecipeError(
                    f"environment.kinds: {kind!r} is not a kind of atlas {self.family}; known are: {known}"
                )
        self._kinds = tuple(kinds) or KINDS[self.family]
        self.label = LABEL[self.family]
        self.max_steps = MAX_STEPS[self.family]

    @property
    def version(self) -> str:
        """The version of pages and tasks, and a hash of the facts."""
        return load_wiki().version

    def tasks(self, split: Split) -> Iterator[Task]:
        """Every task of a split and of the chosen kinds, in a fixed order that mixes kinds."""
        return tasks(self.family, self._kinds, split)

    def episode(self, task: Task) -> WikiEpisode:
        """A fresh episode; the task's own family decides how it is graded."""
        return WikiEpisode(load_wiki(), lambda answer: grade(task, answer))

    def expert(self, task: Task, seed: int) -> Iterator[Step]:
        """The scripted expert's thoughts and actions."""
        return Expert(load_world(), load_wiki(), MAX_STEPS[task.family]).steps(task, seed)

    def normalise(self, answer: str) -> str:
        """The form in which two answers are compared."""
        if self.family == "claims":
            return claim_label(answer) or normalise(answer)
        return normalise(answer)


def grade(task: Task, answer: str | None) -> Grade:
    """The verdict on an answer; None is an episode without one."""
    return grade_claim(task, answer) if task.family == "claims" else grade_question(task, answer)
