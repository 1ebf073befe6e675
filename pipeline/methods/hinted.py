"""A method that shows the answer as a hint: how failed tasks are tried again.

The hint stands in the prompt alone. The trajectory holds the task as it is, so that what is trained is
rendered without it; only the settings say ``hinted``.
Source: rationalisation in STaR (Zelikman et al. 2022), section 3.2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from pipeline.environments.base import Environment
from pipeline.errors import RecipeError
from pipeline.methods.acting import Acting
from pipeline.methods.base import Agent, Seat
from pipeline.methods.prompted import is_expert
from pipeline.methods.registry import load_method
from pipeline.recipe.models import MethodRecipe
from pipeline.rendering.base import PromptSpec
from pipeline.rendering.opening import shown
from pipeline.trajectories.schema import Task

HINTED: Final = "hinted"
"""The key of a trajectory's settings that says that its agent was shown the answer."""
VERSION: Final = "1"
"""Rises with every change of the hint's words."""


class Hinted:
    """An acting method whose agent is shown the task's best gold answer.

    Raises:
        RecipeError: on construction, for a method that does not act by itself.
    """

    single_step = False

    def __init__(self, recipe: MethodRecipe) -> None:
        inner = load_method(recipe)
        if not isinstance(inner, Acting):
            raise RecipeError(
                f"rationalize.method: {recipe.name!r} cannot be given a hint; take act, react or react_im"
            )
        self._inner = inner
        self.name: str = inner.name

    def settings(self, environment: Environment) -> dict[str, Any]:
        """As ``Method.settings``: those of the method, and that there was a hint."""
        return {**self._inner.settings(environment), HINTED: True, "hint": VERSION}

    def spec(self, environment: Environment) -> PromptSpec:
        """As ``Method.spec``: without the hint, which belongs to no prompt that is trained."""
        return self._inner.spec(environment)

    def agent(self, seat: Seat) -> Agent:
        """As ``Method.agent``; an expert needs no hint and is given none."""
        if is_expert(seat):
            return self._inner.agent(seat)
        task = shown(self.spec(seat.environment), seat.task, seat.opening)
        # What the reset showed is in the task by now.
        return self._inner.agent(replace(seat, task=hinted(task), opening=""))


def hinted(task: Task) -> Task:
    """The task with its best gold answer on a line behind the instruction.

    Raises:
        RecipeError: the task has no gold answer.
    """
    answer = " ".join(task.gold[0].split()) if task.gold else ""
    if not answer:
        raise RecipeError(f"task {task.id!r} has no answer to hint at; leave it out")
    instruction = f"{task.instruction.rstrip()}\n(Hint: the answer is {answer}. Act until you have seen why.)"
    return task.model_copy(update={"instruction": instruction})
