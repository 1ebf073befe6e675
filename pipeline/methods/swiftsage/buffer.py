"""SAGE's plan while it is carried out: which action is next, and what is dropped (specification 4.7).

The plan is read in order. An action that is valid now, perhaps after repair, is next; else what SAGE
expected to be answered, if that is a valid action; else the action is tried as it is. Two actions
looked at in vain (one, before a focus) and the plan is given up. An action leaves the plan when it is
handed out, so none is handed out twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pipeline.methods.swiftsage.grounding import Planned
from pipeline.methods.swiftsage.repair import repair
from pipeline.methods.swiftsage.world import ROOMS, is_focus
from pipeline.rendering.formal import verb_of

MISSES: Final = 2
"""Actions looked at in vain after which the plan is given up; one before a focus."""
FAILURES: Final = 3
"""Failures after which an action is not tried again."""
CANDIDATES: Final = 30
"""How many valid actions a model may choose from in place of a failed one."""


@dataclass(frozen=True)
class View:
    """What the buffer looks at: what may be done, the room, what is held, whether focus is used up."""

    valid: Sequence[str]
    look: str = ""
    inventory: str = ""
    focus_done: bool = False


@dataclass(frozen=True)
class Pick:
    """The next action. ``tried`` ones are not known to be valid: say with ``settle`` how they went."""

    action: str
    how: Literal["valid", "expected", "tried"]
    planned: Planned


class ActionBuffer:
    """The plan of one episode's newest answer of SAGE's."""

    def __init__(self) -> None:
        self._plan: list[Planned] = []
        self._failures: Counter[str] = Counter()
        self._misses = 0
        self._trial: Pick | None = None

    def __len__(self) -> int:
        return len(self._plan)

    def replace(self, plan: Iterable[Planned]) -> None:
        """Put a new answer in the place of whatever is left of the old one."""
        self._plan = list(plan)
        self._failures.clear()
        self._misses = 0
        self._trial = None

    def next(self, view: View) -> Pick | None:
        """The next action, which leaves the plan; None where the plan is over or given up."""
        while self._plan:
            limit = 1 if is_focus(self._plan[0].action) else MISSES
            if self._misses >= limit:
                self._plan.clear()
                break
            self._misses += 1
            pick = self._look_at(self._plan.pop(0), view)
            if pick is not None:
                return pick
        self._misses = 0
        return None

    def settle(self, view: View, *, worked: bool) -> list[str]:
        """Say how a ``tried`` action went.

        Returns:
            Where it failed, the valid actions of the same verb that might be meant, likeliest first:
            one alone can be taken, of several a model may choose. None for a focus.
        """
        trial, self._trial = self._trial, None
        if trial is None:
            return []
        if worked:
            self._misses = 0
            return []
        self._failures[trial.action] += 1
        return [] if is_focus(trial.action) else candidates(trial.action, view.valid)

    def chose(self) -> None:
        """Say that one of the candidates was carried out: the plan goes on as after a success."""
        self._misses = 0

    def _look_at(self, planned: Planned, view: View) -> Pick | None:
        if is_focus(planned.action) and view.focus_done:
            return None
        if planned.action.removeprefix("examine ") in ROOMS:
            return None
        action = repair(planned.action, view.valid, view.look, view.inventory)
        if self._failures[action] >= FAILURES:
            return None
        pick = Pick(action, "tried", planned)
        if action in view.valid:
            pick = Pick(action, "valid", planned)
        elif planned.expected in view.valid:
            pick = Pick(planned.expected, "expected", planned)
        if pick.how == "tried":
            self._trial = pick
        else:
            self._misses = 0
        return pick


def candidates(action: str, valid: Iterable[str]) -> list[str]:
    """At most thirty valid actions of an action's verb, those with most of its words first."""
    words = set(action.split())
    same = [other for other in dict.fromkeys(valid) if verb_of(other) == verb_of(action)]
    return sorted(same, key=lambda other: (-len(words & set(other.split())), len(other), other))[:CANDIDATES]
