"""SwiftSage: SWIFT acts, and where it cannot be trusted SAGE plans some actions ahead.

Source: Lin et al. 2023, sections 3.3 and 3.4; the order of things is the public code's (specification
4.6 and 4.7). Every step's flags say who acted and why, as ``trace`` reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pipeline.environments.base import Environment
from pipeline.errors import RecipeError
from pipeline.methods.base import Proposal, Seat
from pipeline.methods.prompts import spec_for
from pipeline.methods.swiftsage import fast, prompts
from pipeline.methods.swiftsage.buffer import ActionBuffer, Pick, View
from pipeline.methods.swiftsage.fast import Beams, Fast
from pipeline.methods.swiftsage.loops import leads_nowhere
from pipeline.methods.swiftsage.matching import swiftsage_valid
from pipeline.methods.swiftsage.memory import Memory
from pipeline.methods.swiftsage.repair import repair
from pipeline.methods.swiftsage.rules import (
    WAIT,
    Decision,
    decide,
    fallback_action,
    is_focus_blocked,
    must_wait_again,
    without_second_wait,
)
from pipeline.methods.swiftsage.sage import Answer, Sage
from pipeline.methods.swiftsage.trace import in_vain
from pipeline.methods.swiftsage.world import FIRST_MEANING, is_ambiguous, is_focus, seen_after
from pipeline.models.base import Model, Sampling
from pipeline.recipe.models import MethodRecipe
from pipeline.rendering.base import PromptSpec
from pipeline.trajectories.schema import Step

ANSWERS: Final = 4
"""SAGE's answers in one step after which SWIFT must act. The released rule needs no more; the paper's
says nothing of answers that lead to no action."""


class SwiftSage:
    """A small model acts, a large one plans where the small one cannot be trusted."""

    name = "swiftsage"
    single_step = False

    def __init__(self, recipe: MethodRecipe) -> None:
        self.recipe = recipe
        self.sampling = Sampling(max_tokens=recipe.max_tokens)
        """SAGE's: greedy, and a plan needs some 500 tokens, more than the recipe's default."""

    def settings(self, environment: Environment) -> dict[str, Any]:
        """As ``Method.settings``."""
        return {
            "method": self.name,
            **fast.settings(self.recipe.swift),
            "prompts": prompts.VERSION,
            "switch": self.recipe.switch.model_dump(),
        }

    def spec(self, environment: Environment) -> PromptSpec:
        """As ``Method.spec``; no word of it is shown to either model."""
        return spec_for(environment, fast.STYLE, 0)

    def trained_as(self, environment: Environment) -> dict[str, Any]:
        """Renderer, style, spec_digest and history of the rows that train SWIFT, the second model."""
        return fast.trained_as(environment, self.recipe.swift.history)

    def agent(self, seat: Seat) -> SwiftSageAgent:
        """As ``Method.agent``.

        Raises:
            RecipeError: there is no SWIFT, or the environment lists no valid actions.
        """
        fast.needs_valid_actions(seat, self.name)
        if seat.swift is None:
            raise RecipeError(
                "method.swift.model: swiftsage has two models, and SWIFT is missing: name a key of models,"
                " or student"
            )
        return SwiftSageAgent(self.recipe, seat, seat.swift)


@dataclass
class _Turn:
    """One step while it is decided. ``notes`` tell of what led to no action, ``answers`` are SAGE's.

    ``spoken`` is SAGE's newest answer with the reasons for asking, until an action comes of it.
    """

    steps: Sequence[Step]
    sage: Sage
    view: View
    valid: frozenset[str]
    notes: list[str] = field(default_factory=list[str])
    answers: int = 0
    spoken: tuple[Answer, tuple[str, ...]] | None = None
    written: Beams | None = None

    def told(self, proposal: Proposal) -> Proposal:
        """A proposal with what all of the step's calls took, what SWIFT wrote, and the notes."""
        told = replace(proposal, flags=(*proposal.flags, *self.notes), usage=self.sage.usage)
        beams = self.written
        if beams is None:
            return told
        told = replace(told, usage=told.usage + beams.usage, candidates=beams.raw)
        if proposal.flags[0] != "swift":
            return told
        return replace(told, completion=beams.raw[0], stop_reason=beams.stop_reason)


class SwiftSageAgent:
    """Plays one episode."""

    def __init__(self, recipe: MethodRecipe, seat: Seat, swift: Model) -> None:
        self._switch = recipe.switch
        self._seat = seat
        self._fast = Fast(seat, swift, recipe.swift)
        self._buffer = ActionBuffer()
        self._memory = Memory(seat.task, seat.opening, whole_words=recipe.switch.whole_words)
        self._planned = False
        """Whether the newest action was SAGE's."""
        self._trial: Pick | None = None
        """The newest action, where it was tried without being known to be valid."""

    async def propose(self, steps: Sequence[Step]) -> Proposal:
        """As ``Agent.propose``."""
        if steps and is_ambiguous(steps[-1].observation):
            return Proposal(action=FIRST_MEANING, flags=("ambiguous",))
        trial, failed = self._trial, False
        if steps:
            failed = self._memory.learn(steps, planned=self._planned, tried=trial is not None)
        if self._is_over(steps):
            return Proposal(gives_up=True, flags=("leads_nowhere",))
        self._trial, self._planned = None, False
        turn = await self._turn(steps)
        proposal = await self._settled(turn, trial, failed) if trial else None
        while proposal is None:
            proposal = await self._passed(turn)
        return turn.told(proposal)

    async def _turn(self, steps: Sequence[Step]) -> _Turn:
        listing, task = self._seat.valid_actions, self._seat.task
        valid = swiftsage_valid(await listing() if listing else [], task.kind, task.instruction)
        look, inventory = seen_after(self._seat.opening, steps)
        view = View(valid, look, inventory, self._memory.focus_done)
        return _Turn(steps, Sage(self._seat, len(steps) + 1), view, frozenset(valid))

    def _is_over(self, steps: Sequence[Step]) -> bool:
        score = steps[-1].score if steps else None
        return leads_nowhere(score or 0.0, [each.reward for each in self._memory.done])

    async def _passed(self, turn: _Turn) -> Proposal | None:
        """One pass of the loop: the plan, else the switch. None where no action comes of it."""
        memory = self._memory
        if must_wait_again([each.action for each in memory.done], memory.looks):
            return Proposal(action=WAIT, flags=("wait",))
        pick = self._buffer.next(turn.view)
        if pick is not None:
            return self._carry_out(turn, pick)
        if turn.spoken:
            turn.notes.append(in_vain("sage", turn.spoken[1]))
            turn.spoken = None
        proposal = await self._switched(turn)
        if proposal is None:
            memory.idle += 1
        return proposal

    def _carry_out(self, turn: _Turn, pick: Pick) -> Proposal:
        """The plan's next action; the first after an answer of SAGE's bears that answer."""
        self._planned = True
        if pick.how == "tried":
            self._trial = pick
        if turn.spoken is None:
            return Proposal(action=pick.action, flags=("buffer", pick.how))
        (answer, reasons), turn.spoken = turn.spoken, None
        how = () if pick.how == "valid" else (pick.how,)
        return Proposal(
            thought=answer.plan,
            action=pick.action,
            completion=answer.completion,
            stop_reason=answer.stop_reason,
            flags=("sage", *reasons, *how),
        )

    async def _settled(self, turn: _Turn, trial: Pick, failed: bool) -> Proposal | None:
        """What a tried action came to; where it failed, the valid action that may have been meant."""
        options = self._buffer.settle(turn.view, worked=not failed)
        said = ""
        chosen = options[0] if len(options) == 1 else None
        if len(options) > 1:
            view = turn.view
            chosen, said = await turn.sage.choose(trial.planned, options, view.look, view.inventory)
        if chosen is None:
            return None
        self._buffer.chose()
        self._planned = True
        return Proposal(action=chosen, completion=said, flags=("buffer", "chosen" if said else "replaced"))

    async def _switched(self, turn: _Turn) -> Proposal | None:
        """SWIFT writes, the rule decides, and SWIFT acts or SAGE is asked."""
        memory = self._memory
        turn.written = turn.written or await self._fast.write(memory.kept(turn.steps))
        left = without_second_wait(turn.written.clean, [each.action for each in memory.done])
        beams = [repair(beam, turn.valid, turn.view.look, turn.view.inventory) for beam in left]
        observation = turn.steps[-1].observation if turn.steps else ""
        decision = decide(memory.switch_state(beams[0], turn.valid, observation), self._switch)
        if decision.who == "sage" and turn.answers < ANSWERS:
            return await self._asked(turn, decision, beams)
        if decision.who == "sage":
            decision = Decision("swift", ("exhausted",), fallback=True)
        return self._swift_acts(turn, decision, beams)

    def _swift_acts(self, turn: _Turn, decision: Decision, beams: Sequence[str]) -> Proposal | None:
        self._memory.sage_runs = 0
        action = fallback_action(beams, turn.valid) if decision.fallback else beams[0]
        if self._may(turn, action):
            return Proposal(action=action, flags=("swift", *decision.reasons))
        turn.notes.append(in_vain("swift", ("focus",)))
        return None

    def _may(self, turn: _Turn, action: str) -> bool:
        """Whether SWIFT may do this now: by the released rule a focus may have to wait for SAGE."""
        memory = self._memory
        if is_focus(action) and not memory.sage_focused:
            memory.focus_tries += 1
        if self._switch.rule == "paper":
            return True
        state = memory.switch_state(action, turn.valid, "")
        return not is_focus_blocked(action, self._seat.task.instruction, state, self._switch)

    async def _asked(self, turn: _Turn, decision: Decision, beams: Sequence[str]) -> Proposal | None:
        """Ask SAGE. Its plan is for the next pass; without a readable one SWIFT acts."""
        look, inventory = turn.view.look, turn.view.inventory
        answer = await turn.sage.answer(self._memory.sage_state(look, inventory, beams[0]))
        turn.answers += 1
        self._memory.answered()
        self._buffer.replace(answer.actions)
        if answer.actions:
            turn.spoken = (answer, decision.reasons)
            return None
        turn.notes.append(in_vain("sage", decision.reasons))
        return await self._mapped(turn, beams)

    async def _mapped(self, turn: _Turn, beams: Sequence[str]) -> Proposal:
        """SWIFT's first beam, as the valid action that it means; SAGE could not be read."""
        memory = self._memory
        memory.sage_runs = 0
        valid = [action for action in turn.view.valid if not (is_focus(action) and memory.focus_done)]
        action = (await self._fast.match(beams[:1], valid)).action
        if action not in turn.valid or not self._may(turn, action):
            action = fallback_action(beams, turn.valid)
        return Proposal(action=action, flags=("swift", "unreadable"))
