"""SWIFT by itself: a small encoder-decoder writes beams, the first that is valid is done.

Source: Lin et al. 2023 (SwiftSage), section 3.2; the filters and the mapping are specification 4.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pipeline.environments.base import Environment
from pipeline.methods.base import Proposal, Seat
from pipeline.methods.prompts import spec_for
from pipeline.methods.swiftsage import fast
from pipeline.methods.swiftsage.fast import Fast
from pipeline.methods.swiftsage.loops import in_loop
from pipeline.methods.swiftsage.matching import swift_valid
from pipeline.methods.swiftsage.world import FIRST_MEANING, is_ambiguous, seen_after
from pipeline.models.base import Sampling
from pipeline.recipe.models import MethodRecipe
from pipeline.rendering.base import PromptSpec
from pipeline.trajectories.schema import Step

HARMLESS: Final = "look around"
"""What is done where SWIFT wrote nothing and nothing is valid: it takes no time."""


class Swift:
    """A small imitation-trained model alone: beams, mapped to valid actions."""

    name = "swift"
    single_step = False

    def __init__(self, recipe: MethodRecipe) -> None:
        self.recipe = recipe.swift
        self.sampling = Sampling(max_tokens=fast.MAX_TOKENS)

    def settings(self, environment: Environment) -> dict[str, Any]:
        """As ``Method.settings``."""
        loops = {"stops_in_loops": self.recipe.stops_in_loops}
        return {"method": self.name, **fast.settings(self.recipe), **loops, "max_tokens": fast.MAX_TOKENS}

    def spec(self, environment: Environment) -> PromptSpec:
        """As ``Method.spec``; no word of it is shown to the model."""
        return spec_for(environment, fast.STYLE, 0)

    def trained_as(self, environment: Environment) -> dict[str, Any]:
        """Renderer, style, spec_digest and history of the rows that train the model."""
        return fast.trained_as(environment, self.recipe.history)

    def agent(self, seat: Seat) -> SwiftAgent:
        """As ``Method.agent``.

        Raises:
            RecipeError: the environment lists no valid actions.
        """
        return SwiftAgent(self, seat)


class SwiftAgent:
    """Asks SWIFT once a step."""

    def __init__(self, method: Swift, seat: Seat) -> None:
        fast.needs_valid_actions(seat, method.name)
        self._recipe = method.recipe
        self._seat = seat
        self._fast = Fast(seat, seat.model, method.recipe)

    async def propose(self, steps: Sequence[Step]) -> Proposal:
        """As ``Agent.propose``. Flags say how the action was found where no beam was valid."""
        if steps and is_ambiguous(steps[-1].observation):
            return Proposal(action=FIRST_MEANING, flags=("ambiguous",))
        actions = [step.action for step in steps]
        if self._recipe.stops_in_loops and in_loop(actions):
            return Proposal(gives_up=True, flags=("loop",))
        written = await self._fast.write(steps)
        found = await self._fast.match(written.clean, await self._valid(steps))
        return Proposal(
            action=found.action or HARMLESS,
            completion=written.raw[0],
            stop_reason=written.stop_reason,
            flags=() if found.how == "exact" else (f"matched_{found.how}",),
            usage=written.usage,
            candidates=written.raw,
        )

    async def _valid(self, steps: Sequence[Step]) -> list[str]:
        listing = self._seat.valid_actions
        valid = await listing() if listing else []
        look, inventory = seen_after(self._seat.opening, steps)
        return swift_valid(valid, look, inventory, [step.action for step in steps[-3:]])
