"""What SwiftSage remembers of an episode: what was carried out, and how its two halves went.

Actions of SAGE's plan that were tried and failed stand in the trajectory, but are no part of what is
remembered as done: the switch and SWIFT are shown the episode without them (specification 4.7). An
answer to ``Ambiguous request`` is joined to the action that it completes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from pipeline.methods.swiftsage.prompts import Past, SageState
from pipeline.methods.swiftsage.rules import SwitchState
from pipeline.methods.swiftsage.world import (
    failed,
    focus_limit,
    is_ambiguous,
    is_focus,
    room_of,
    seen_after,
)
from pipeline.trajectories.schema import Step, Task


@dataclass(frozen=True)
class Done:
    """An action that was carried out: in which room, what it brought, the look after it."""

    room: str
    action: str
    observation: str
    reward: float
    look: str


def carried_out(opening: str, steps: Sequence[Step], vain: Collection[int] = ()) -> tuple[Done, ...]:
    """The actions of an episode, without those in vain (by place, from 0)."""
    done: list[Done] = []
    look = seen_after(opening, ())[0]
    for place, step in enumerate(steps):
        before, look = look, step.info.get("look", look)
        if place in vain:
            continue
        if done and is_ambiguous(done[-1].observation) and step.action.isdigit():
            last, gained = done[-1], done[-1].reward + step.reward
            done[-1] = replace(last, observation=step.observation, reward=gained, look=look)
        else:
            done.append(Done(room_of(before), step.action, step.observation, step.reward, look))
    return tuple(done)


class Memory:
    """One episode's.

    Attributes:
        done: what was carried out.
        vain: places of tried actions that failed.
        errors: what failed since SAGE's last answer.
        focused: focuses that brought something.
        idle: passes since the last action, the present one included.
        sage_at: the step of SAGE's last answer, -1 where there is none.
        sage_runs: SAGE's answers in a row.
        sage_focused: whether an action of SAGE's focused.
        focus_tries: how often SWIFT wanted to focus while SAGE had not.
    """

    def __init__(self, task: Task, opening: str, *, whole_words: bool) -> None:
        self._task = task
        self._opening = opening
        self._whole_words = whole_words
        self.done: tuple[Done, ...] = ()
        self.vain: set[int] = set()
        self.errors: list[str] = []
        self.focused: list[str] = []
        self.idle = 1
        self.sage_at = -1
        self.sage_runs = 0
        self.sage_focused = False
        self.focus_tries = 0

    def learn(self, steps: Sequence[Step], *, planned: bool, tried: bool) -> bool:
        """Take in the newest step.

        Args:
            steps: all of the episode.
            planned: whether it was an action of SAGE's plan.
            tried: whether it was tried without being known to be valid.

        Returns:
            Whether it was tried in vain.
        """
        newest = steps[-1]
        bad = failed(newest.observation, whole_words=self._whole_words)
        answered = len(steps) > 1 and is_ambiguous(steps[-2].observation)
        # What could mean several things was understood, whatever came of it.
        in_vain = bad and tried and not answered
        if in_vain:
            self.vain.add(len(steps) - 1)
        self.done = carried_out(self._opening, steps, self.vain)
        if bad:
            room = room_of(seen_after(self._opening, steps[:-1])[0])
            where = f"in {room}: " if room else ""
            self.errors.append(f"{where}{newest.action} --> {newest.observation}")
        if not in_vain:
            self.idle = 1
            self._note_focus(self.done[-1], planned=planned)
        return in_vain

    def answered(self) -> None:
        """SAGE has answered."""
        self.sage_at = len(self.done)
        self.sage_runs += 1
        self.errors.clear()

    def kept(self, steps: Sequence[Step]) -> list[Step]:
        """The episode as SWIFT is shown it."""
        return [step for place, step in enumerate(steps) if place not in self.vain]

    @property
    def focus_done(self) -> bool:
        """Whether the task has no more use for focus."""
        return len(self.focused) >= focus_limit(self._task.kind, self._task.instruction)

    @property
    def looks(self) -> list[str]:
        """The room's look at the start and after each action."""
        return [seen_after(self._opening, ())[0], *(each.look for each in self.done)]

    def switch_state(self, proposal: str, valid: frozenset[str], observation: str) -> SwitchState:
        """What the switch looks at, for SWIFT's proposal and the newest observation."""
        return SwitchState(
            proposal=proposal,
            valid=valid,
            actions=tuple(each.action for each in self.done),
            rewards=tuple(each.reward for each in self.done),
            observation=observation,
            idle=self.idle,
            failures=len(self.errors),
            sage_at=self.sage_at,
            sage_runs=self.sage_runs,
            sage_focused=self.sage_focused,
            focus_tries=self.focus_tries,
            focus_done=self.focus_done,
        )

    def sage_state(self, look: str, inventory: str, suggestion: str) -> SageState:
        """What SAGE is told."""
        looks = {room_of(seen): seen for seen in self.looks if room_of(seen)}
        return SageState(
            task=self._task.instruction,
            look=look,
            inventory=inventory,
            past=tuple(Past(each.room, each.action, each.observation) for each in self.done),
            looks=looks,
            focused=tuple(self.focused),
            suggestion=suggestion,
            errors=tuple(self.errors),
        )

    def _note_focus(self, last: Done, *, planned: bool) -> None:
        if not is_focus(last.action):
            return
        self.sage_focused = self.sage_focused or planned
        if last.reward > 0:
            self.focused.append(last.action)
