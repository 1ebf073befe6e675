"""Methods that act in the environment: act and ReAct.

Source: Yao et al. 2023 (ReAct), section 3.2; the second call for a forgotten action is the
published prompt loop's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from pipeline.methods.base import Proposal, Seat
from pipeline.methods.prompted import (
    Prompted,
    ask,
    expert_steps,
    is_expert,
    next_step,
    proposal,
    written,
)
from pipeline.models.base import Completion
from pipeline.rendering.base import PromptSpec
from pipeline.rendering.opening import shown
from pipeline.rendering.parse import clean_action, clean_thought
from pipeline.trajectories.schema import Step


class Acting(Prompted):
    """One call a step; the model acts until it finishes."""

    single_step = False

    def agent(self, seat: Seat) -> ActingAgent | PlayingAgent:
        """As ``Method.agent``: the expert's own steps where the model is an expert."""
        return PlayingAgent(self, seat) if is_expert(seat) else ActingAgent(self, seat)


class Act(Acting):
    """Actions and observations alone."""

    name = "act"
    style: ClassVar[str] = "act"


class ReAct(Acting):
    """A thought before every action; before some, where actions are free text (sparse thoughts)."""

    name = "react"
    style: ClassVar[str] = "react"


class ReActIM(Acting):
    """A thought before every action, about the goal and the open part of it alone (inner monologue).

    Source: Huang et al. 2022; as the ablation ReAct-IM in Yao et al. 2023 (ReAct), section 4.
    """

    name = "react_im"
    style: ClassVar[str] = "react_im"


class ActingAgent:
    """Asks the model for a turn, and in raw text once more when it forgot to act."""

    def __init__(self, method: Acting, seat: Seat) -> None:
        self._renderer = method.renderer
        self._spec = method.spec(seat.environment)
        self._task = shown(self._spec, seat.task, seat.opening)
        self._seat = seat

    async def propose(self, steps: Sequence[Step]) -> Proposal:
        """As ``Agent.propose``."""
        prompt = self._renderer.prompt(self._spec, self._task, steps)
        completion = await ask(self._seat, prompt, len(steps) + 1)
        first = self._read(self._spec, completion)
        if first.action or self._spec.style != "react" or self._renderer.name != "text":
            return first
        return await self._insist(first, steps)

    async def _insist(self, first: Proposal, steps: Sequence[Step]) -> Proposal:
        """Keep the thought's first line and let the model write its action alone."""
        number = len(steps) + 1
        thought = clean_thought(first.thought.split("\n")[0])
        prompt = self._renderer.prompt(self._spec, self._task, steps, draft=thought)
        completion = await ask(self._seat, prompt, number, call=1)
        second = self._read(replace(self._spec, style="act"), completion)
        kept = [flag for flag in first.flags if flag not in ("no_action", "truncated")]
        return Proposal(
            thought=thought,
            action=second.action,
            completion=f"{first.completion}\nAction {number}:{completion.text}",
            stop_reason=completion.stop_reason,
            flags=tuple(dict.fromkeys([*kept, *second.flags, "second_call"])),
            usage=first.usage + second.usage,
        )

    def _read(self, spec: PromptSpec, completion: Completion) -> Proposal:
        parsed = self._renderer.parse(spec, completion.text)
        return proposal(parsed, completion, free_form=spec.free_form)


class PlayingAgent:
    """Plays the expert's steps, written as the model would have written them."""

    def __init__(self, method: Acting, seat: Seat) -> None:
        self._renderer = method.renderer
        self._spec = replace(method.spec(seat.environment), exemplars=())
        self._task = shown(self._spec, seat.task, seat.opening)
        self._seat = seat
        self._played: Iterator[Step] | None = None

    async def propose(self, steps: Sequence[Step]) -> Proposal:
        """As ``Agent.propose``; an expert that has no more steps proposes no action."""
        if self._played is None:
            self._played = expert_steps(self._seat)
        step = await next_step(self._seat, self._played)
        if step is None:
            return Proposal(flags=("no_action",))
        thought = clean_thought(step.thought) if self._spec.style == "react" else ""
        move = Step(thought=thought, action=clean_action(step.action))
        completion = written(self._renderer.training(self._spec, self._task, [*steps, move]))
        return Proposal(move.thought, move.action, completion)
