"""Two methods together: the second is asked where the first's answer does not stand.

Source: Yao et al. 2023 (ReAct), section 3.2. A hybrid drives no episode of its own: it joins
trajectories of its parts, so that a panel that plays the parts as well plays them once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from pipeline.environments.base import Environment
from pipeline.methods.registry import load_method
from pipeline.methods.voting import majority
from pipeline.recipe.models import MethodRecipe
from pipeline.trajectories.schema import ERRORED, Outcome, Step, Trajectory


class Hybrid(ABC):
    """Base of the hybrids. ``first`` and ``second`` are the recipes of the parts."""

    name: ClassVar[str]
    parts: ClassVar[tuple[str, str]]

    def __init__(self, recipe: MethodRecipe) -> None:
        self.first, self.second = (recipe.model_copy(update={"name": part}) for part in self.parts)

    def settings(self, environment: Environment) -> dict[str, Any]:
        """All that changes what the model is shown: the settings of both parts."""
        first, second = load_method(self.first), load_method(self.second)
        return {"first": first.settings(environment), "second": second.settings(environment)}

    def settles(self, first: Trajectory, environment: Environment) -> bool:
        """Whether the first part's trajectory is the end of it; one that failed on its way is, too."""
        return first.outcome in ERRORED or self.stands(first, environment)

    @abstractmethod
    def stands(self, first: Trajectory, environment: Environment) -> bool:
        """Whether the first part's answer is the hybrid's."""

    @abstractmethod
    def steps(self, first: Trajectory, second: Trajectory) -> list[Step]:
        """The steps of a hybrid episode that needed both parts."""


class ReActThenSelfConsistency(Hybrid):
    """ReAct; the vote where ReAct gave no answer within its steps."""

    name = "react_then_cot_sc"
    parts = ("react", "cot_sc")

    def stands(self, first: Trajectory, environment: Environment) -> bool:
        """As ``Hybrid.stands``."""
        return first.outcome is Outcome.FINISHED and bool((first.answer or "").strip())

    def steps(self, first: Trajectory, second: Trajectory) -> list[Step]:
        """What was tried, then the vote."""
        return [*first.steps, *second.steps]


class SelfConsistencyThenReAct(Hybrid):
    """The vote; ReAct where the commonest answer has fewer than half of the samples."""

    name = "cot_sc_then_react"
    parts = ("cot_sc", "react")

    def stands(self, first: Trajectory, environment: Environment) -> bool:
        """As ``Hybrid.stands``."""
        votes = first.steps[-1].votes if first.steps else []
        _, count = majority(votes, environment.normalise)
        return first.outcome is Outcome.FINISHED and 2 * count >= self.first.vote.samples

    def steps(self, first: Trajectory, second: Trajectory) -> list[Step]:
        """ReAct's alone: the vote that did not carry was never acted on."""
        return list(second.steps)
