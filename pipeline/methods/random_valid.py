"""Any valid action, drawn by a seed: the baseline below which nothing was learnt.

The seat's model is never asked, whichever it is.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from pipeline.environments.base import Environment
from pipeline.methods.base import Proposal, Seat
from pipeline.methods.prompted import step_seed
from pipeline.methods.prompts import spec_for
from pipeline.methods.swiftsage.fast import STYLE, needs_valid_actions
from pipeline.models.base import Sampling
from pipeline.recipe.models import MethodRecipe
from pipeline.rendering.base import PromptSpec
from pipeline.trajectories.schema import Step


class RandomValid:
    """A valid action at random: the baseline below which nothing was learnt."""

    name = "random_valid"
    single_step = False

    def __init__(self, recipe: MethodRecipe) -> None:
        self.sampling = Sampling()
        """No part of the recipe changes what is drawn."""

    def settings(self, environment: Environment) -> dict[str, Any]:
        """As ``Method.settings``."""
        return {"method": self.name}

    def spec(self, environment: Environment) -> PromptSpec:
        """As ``Method.spec``; it is shown to nobody."""
        return spec_for(environment, STYLE, 0)

    def agent(self, seat: Seat) -> RandomAgent:
        """As ``Method.agent``.

        Raises:
            RecipeError: the environment lists no valid actions.
        """
        return RandomAgent(self, seat)


class RandomAgent:
    """Draws each step by the episode's seed and the step's number."""

    def __init__(self, method: RandomValid, seat: Seat) -> None:
        needs_valid_actions(seat, method.name)
        self._seat = seat

    async def propose(self, steps: Sequence[Step]) -> Proposal:
        """As ``Agent.propose``; gives up where nothing may be done."""
        listing = self._seat.valid_actions
        valid = [action for action in await listing() if action.strip()] if listing else []
        if not valid:
            return Proposal(gives_up=True, flags=("no_valid_action",))
        draw = random.Random(step_seed(self._seat.seed, len(steps) + 1))
        return Proposal(action=draw.choice(valid))
