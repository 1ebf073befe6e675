"""When a run may stop before its panel is played through: a target, and budgets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from pipeline.errors import RecipeError
from pipeline.recipe.models import GenerateRecipe, ModelRecipe


@dataclass(frozen=True)
class Goal:
    """What a run is after.

    ``until`` is a number of correct trajectories, of which ``per_task`` count a task. ``max_cost``
    and ``max_tokens`` (prompt and completion) are budgets of the whole run: what its store already
    holds has been spent. Without any of them, every episode of the panel is played.
    """

    until: int | None = None
    per_task: int = 1
    max_cost: float | None = None
    max_tokens: int | None = None

    @classmethod
    def of(cls, recipe: GenerateRecipe) -> Self:
        """The goal of a recipe."""
        return cls(recipe.until, recipe.per_task, recipe.max_cost, recipe.max_tokens)

    @property
    def bounded(self) -> bool:
        """Whether anything may stop the run early."""
        return any(limit is not None for limit in (self.until, self.max_cost, self.max_tokens))

    def budgets(self) -> str:
        """The budgets in words, empty where there is none."""
        parts = [
            "" if self.max_cost is None else f"max_cost {self.max_cost:,.2f}",
            "" if self.max_tokens is None else f"max_tokens {self.max_tokens:,}",
        ]
        return " and ".join(filter(None, parts))


def check_prices(recipe: GenerateRecipe, model: ModelRecipe) -> None:
    """Make sure that a budget of cost can ever be reached.

    Raises:
        RecipeError: there is a ``max_cost``, but the model costs nothing.
    """
    if recipe.max_cost is not None and not any(model.price_per_million):
        raise RecipeError(
            f"generate.max_cost is {recipe.max_cost:g}, but model {recipe.model!r} has no price, so nothing"
            " would ever stop the run: set its price_per_million, or use generate.max_tokens"
        )
