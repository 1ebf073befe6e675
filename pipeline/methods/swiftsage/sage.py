"""SAGE as it is asked: for a plan, for the plan's next actions, once more where none can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pipeline.errors import ContextLimitError
from pipeline.methods.base import Seat
from pipeline.methods.prompted import step_seed
from pipeline.methods.swiftsage.grounding import Planned, read_plan
from pipeline.methods.swiftsage.prompts import (
    SageState,
    choice_messages,
    grounding_messages,
    planning_messages,
    read_choice,
    retry_messages,
)
from pipeline.models.base import Completion, Request
from pipeline.rendering.base import ChatPrompt, Message
from pipeline.rendering.parse import without_reasoning
from pipeline.trajectories.schema import StopReason, Usage

LONGEST: Final = 8000
"""Characters of an answer that are shown again: no plan is longer, and a broken server knows no end."""
LITE: Final = 15
"""Past actions that are shown where the whole story does not fit the model."""


@dataclass(frozen=True)
class Answer:
    """What SAGE said: its plan in words, the actions read from its last answer, and that answer."""

    plan: str
    actions: tuple[Planned, ...]
    completion: str
    stop_reason: StopReason = "stop"


class Sage:
    """SAGE during one step. ``usage`` sums all of the step's calls.

    Args:
        seat: whose episode; its model is SAGE's.
        number: of the step, from 1.
    """

    def __init__(self, seat: Seat, number: int) -> None:
        self._seat = seat
        self._number = number
        self._calls = 0
        self.usage = Usage()

    async def answer(self, state: SageState) -> Answer:
        """Plan and ground. A story that does not fit the model is told once more, shortened.

        Raises:
            ContextLimitError: the shortened story does not fit either.
            ModelError: as ``Model.generate``.
        """
        try:
            return await self._answer(state)
        except ContextLimitError:
            return await self._answer(replace(state, past=state.past[-LITE:], looks={}))

    async def choose(
        self, failed: Planned, candidates: Sequence[str], look: str, inventory: str
    ) -> tuple[str | None, str]:
        """Which candidate a failed action meant, or None; and what was answered.

        Raises:
            ModelError: as ``Model.generate``.
        """
        asked = choice_messages(failed.action, candidates, look, inventory, failed.expected)
        said = (await self._ask(asked)).text
        return read_choice(_shown(said), candidates), said

    async def _answer(self, state: SageState) -> Answer:
        plan = _shown((await self._ask(planning_messages(state))).text)
        asked = grounding_messages(state, plan)
        said = await self._ask(asked)
        actions = read_plan(said.text)
        if not actions:
            said = await self._ask(retry_messages(asked, _shown(said.text)))
            actions = read_plan(said.text)
        return Answer(plan, tuple(actions), said.text, said.stop_reason)

    async def _ask(self, messages: tuple[Message, ...]) -> Completion:
        seat = self._seat
        seed = step_seed(seat.seed, self._number, self._calls)
        self._calls += 1
        request = Request(ChatPrompt(messages), seat.sampling, seat.session, seed)
        completion = await seat.model.generate(request)
        self.usage += completion.usage
        return completion


def _shown(text: str) -> str:
    return without_reasoning(text)[0].strip()[:LONGEST]
