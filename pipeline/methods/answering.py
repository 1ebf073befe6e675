"""Methods that answer at once: standard prompting and chain of thought."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pipeline.methods.base import Proposal, Seat
from pipeline.methods.prompted import Prompted, ask, expert_steps, is_expert, proposal, written
from pipeline.trajectories.schema import Step


class Answering(Prompted):
    """One call, one step, which finishes."""

    single_step = True

    def agent(self, seat: Seat) -> AnsweringAgent:
        """As ``Method.agent``."""
        return AnsweringAgent(self, seat)


class Standard(Answering):
    """The question, then the answer."""

    name = "standard"
    style: ClassVar[str] = "standard"


class ChainOfThought(Answering):
    """The question, reasoning in one go, then the answer. Source: Wei et al. 2022."""

    name = "cot"
    style: ClassVar[str] = "cot"


class AnsweringAgent:
    """Asks once and finishes with what was answered."""

    def __init__(self, method: Answering, seat: Seat) -> None:
        self._renderer = method.renderer
        self._spec = method.spec(seat.environment)
        self._seat = seat

    async def propose(self, steps: Sequence[Step]) -> Proposal:
        """As ``Agent.propose``."""
        if is_expert(self._seat):
            return self._play(list(expert_steps(self._seat)))
        prompt = self._renderer.prompt(self._spec, self._seat.task, steps)
        completion = await ask(self._seat, prompt, len(steps) + 1)
        return proposal(self._renderer.parse(self._spec, completion.text), completion)

    def _play(self, played: list[Step]) -> Proposal:
        """The expert's episode told as one turn."""
        completion = written(self._renderer.training(self._spec, self._seat.task, played))
        parsed = self._renderer.parse(self._spec, completion)
        return Proposal(parsed.thought, parsed.action, completion, flags=parsed.flags)
