"""Self-consistency: many chains of thought are sampled, and the commonest answer is given.

Source: Wang et al. 2022; as used in Yao et al. 2023 (ReAct), section 3.2, with 21 samples at
temperature 0.7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from pipeline.environments.base import Environment
from pipeline.methods.base import Proposal, Seat
from pipeline.methods.prompted import Prompted, proposal, step_seed
from pipeline.models.base import Request, Sampling, sample
from pipeline.recipe.models import MethodRecipe
from pipeline.rendering.parse import finish, split_action
from pipeline.trajectories.schema import Step, Usage


def majority(votes: Sequence[str], normalise: Callable[[str], str]) -> tuple[str, int]:
    """The commonest answer, as it was first written, and how many votes it has.

    Answers are counted after normalisation; of equally common ones the first seen wins. Empty votes
    do not count; without any other the result is ``("", 0)``.
    """
    keys = [normalise(vote) for vote in votes if vote.strip()]
    # A counter keeps the order in which keys were first seen, and the maximum is the first of equals.
    counts = Counter(keys)
    if not counts:
        return "", 0
    winner = max(counts, key=lambda key: counts[key])
    first = next(vote for vote in votes if vote.strip() and normalise(vote) == winner)
    return first, counts[winner]


class SelfConsistency(Prompted):
    """CoT-SC: one step, which finishes with the majority of ``vote.samples`` answers."""

    name = "cot_sc"
    style: ClassVar[str] = "cot"
    single_step = True

    def __init__(self, recipe: MethodRecipe) -> None:
        super().__init__(recipe)
        vote = recipe.vote
        self.sampling = Sampling(vote.temperature, vote.top_p, vote.max_tokens)

    def settings(self, environment: Environment) -> dict[str, Any]:
        """As ``Method.settings``; sampling is the vote's."""
        vote = self.recipe.vote
        return {
            **super().settings(environment),
            "max_tokens": vote.max_tokens,
            "temperature": vote.temperature,
            "top_p": vote.top_p,
            "samples": vote.samples,
        }

    def agent(self, seat: Seat) -> VotingAgent:
        """As ``Method.agent``."""
        return VotingAgent(self, seat)


class VotingAgent:
    """Asks many times and finishes with the majority."""

    def __init__(self, method: SelfConsistency, seat: Seat) -> None:
        self._renderer = method.renderer
        self._spec = method.spec(seat.environment)
        self._samples = method.recipe.vote.samples
        self._seat = seat

    async def propose(self, steps: Sequence[Step]) -> Proposal:
        """As ``Agent.propose``; the thought and text are those of the first sample that voted so."""
        seat = self._seat
        prompt = self._renderer.prompt(self._spec, seat.task, steps)
        # No session: nothing of a sample is of use to a later step.
        request = Request(prompt, seat.sampling, seed=step_seed(seat.seed, len(steps) + 1))
        completions = await sample(seat.model, request, self._samples)
        read = [proposal(self._renderer.parse(self._spec, one.text), one) for one in completions]
        votes = [split_action(one.action)[1] for one in read]
        answer, _ = majority(votes, seat.environment.normalise)
        chosen = read[votes.index(answer)] if answer else Proposal(flags=("no_action",))
        return Proposal(
            thought=chosen.thought,
            action=finish(answer) if answer else "",
            completion=chosen.completion,
            stop_reason=chosen.stop_reason,
            flags=chosen.flags,
            usage=sum((one.usage for one in read), Usage()),
            votes=tuple(votes),
            candidates=tuple(one.completion for one in read),
        )
