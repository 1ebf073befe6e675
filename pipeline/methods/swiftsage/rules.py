"""Who acts next, SWIFT or SAGE: every condition a predicate with a name, so that a trace can say why.

``paper`` is the rule of the paper (Lin et al. 2023, section 3.4): SAGE is asked when SWIFT is stuck,
or its action is invalid or critical, or the last observation was unexpected. ``released`` is what the
public code does (specification 4.6). All functions are pure; an episode's state is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pipeline.methods.swiftsage.world import failed, focus_targets, is_focus
from pipeline.recipe.models import SwitchRecipe

Who = Literal["swift", "sage"]
WAIT: Final = "wait"


@dataclass(frozen=True)
class SwitchState:
    """An episode of SwiftSage's, as far as the switch looks at it.

    ``actions`` and ``rewards`` are those carried out, one each a step. ``proposal`` is SWIFT's first
    beam after repair, ``valid`` what may be done now. ``idle`` counts passes of the loop since the
    last action, the present one included; ``failures`` failed actions since SAGE's last answer;
    ``sage_at`` the step of that answer (-1: none), ``sage_runs`` SAGE's answers in a row;
    ``sage_focused`` whether SAGE has focused; ``focus_tries`` how often SWIFT wanted to while SAGE had not;
    ``focus_done`` whether the task has no more use for focus.
    """

    proposal: str
    valid: frozenset[str]
    actions: tuple[str, ...] = ()
    rewards: tuple[float, ...] = ()
    observation: str = ""
    idle: int = 1
    failures: int = 0
    sage_at: int = -1
    sage_runs: int = 0
    sage_focused: bool = False
    focus_tries: int = 0
    focus_done: bool = False

    @property
    def step(self) -> int:
        """How many actions were carried out."""
        return len(self.actions)


@dataclass(frozen=True)
class Decision:
    """Who acts, and why. With ``fallback`` SWIFT must act though its first beam will not do."""

    who: Who
    reasons: tuple[str, ...]
    fallback: bool = False


Predicate = Callable[[SwitchState, SwitchRecipe], bool]


def stuck(state: SwitchState, recipe: SwitchRecipe) -> bool:
    """The last five steps brought nothing."""
    newest = state.rewards[-recipe.stuck :]
    return len(newest) == recipe.stuck and all(reward <= 0 for reward in newest)


def invalid(state: SwitchState, recipe: SwitchRecipe) -> bool:
    """SWIFT's action cannot be carried out now, or focuses though nothing is left to focus on."""
    return state.proposal not in state.valid or (state.focus_done and is_focus(state.proposal))


def critical(state: SwitchState, recipe: SwitchRecipe) -> bool:
    """SWIFT's action cannot be taken back: it answers."""
    return state.proposal.startswith(tuple(recipe.critical))


def unexpected(state: SwitchState, recipe: SwitchRecipe) -> bool:
    """The last observation says that the action did not work."""
    return failed(state.observation, whole_words=recipe.whole_words)


def idle(state: SwitchState, recipe: SwitchRecipe) -> bool:
    """The loop went round without acting."""
    return state.idle >= recipe.idle


def failing(state: SwitchState, recipe: SwitchRecipe) -> bool:
    """Several actions have failed since SAGE last spoke."""
    return state.failures >= recipe.idle


def unplanned_focus(state: SwitchState, recipe: SwitchRecipe) -> bool:
    """SWIFT has wanted to focus, and SAGE never has."""
    return state.focus_tries >= 1 and not state.sage_focused


def exhausted(state: SwitchState, recipe: SwitchRecipe) -> bool:
    """SAGE has spoken as often in a row as it may."""
    return state.sage_runs >= recipe.consecutive


def early(state: SwitchState, recipe: SwitchRecipe) -> bool:
    """The episode is young. The public code counts the opening ``look around`` as an action."""
    return state.step + 1 < recipe.early


def fresh(state: SwitchState, recipe: SwitchRecipe) -> bool:
    """SAGE spoke a few steps ago."""
    return state.step - state.sage_at < recipe.fresh


def rewarded(state: SwitchState, recipe: SwitchRecipe) -> bool:
    """The last five steps brought something."""
    return sum(state.rewards[-recipe.stuck :]) > 0


def novel(state: SwitchState, recipe: SwitchRecipe) -> bool:
    """SWIFT's action is none of the last three."""
    return recipe.repeats == 0 or state.proposal not in state.actions[-recipe.repeats :]


def planned(state: SwitchState, recipe: SwitchRecipe) -> bool:
    """SAGE has only just spoken: its plan is given time."""
    return state.step - state.sage_at <= recipe.planned


PAPER: Final[tuple[Predicate, ...]] = (stuck, invalid, critical, unexpected)
"""Any of these calls SAGE."""
FORCES: Final[tuple[Predicate, ...]] = (idle, failing, unplanned_focus)
"""Any of these calls SAGE whatever SWIFT proposes, unless SAGE is exhausted."""
ACCEPTS: Final[tuple[Predicate, ...]] = (early, fresh, rewarded, novel)
"""Any of these lets a valid action of SWIFT's pass."""


def decide(state: SwitchState, recipe: SwitchRecipe) -> Decision:
    """Who acts next, by the recipe's rule."""
    return _paper(state, recipe) if recipe.rule == "paper" else _released(state, recipe)


def fallback_action(beams: Sequence[str], valid: frozenset[str]) -> str:
    """What SWIFT does when it must act: its first valid beam of three that do not focus, else ``wait``.

    Args:
        beams: SWIFT's after repair, best first.
        valid: what may be done now.
    """
    tried = [beam for beam in beams if not is_focus(beam)][:3]
    return next((beam for beam in tried if beam in valid), WAIT)


def without_second_wait(beams: Sequence[str], actions: Sequence[str]) -> list[str]:
    """SWIFT's beams without a first one that waits again, where another is left."""
    again = bool(actions) and actions[-1].startswith(WAIT) and len(beams) > 1 and beams[0].startswith(WAIT)
    return list(beams[1:] if again else beams)


def must_wait_again(actions: Sequence[str], looks: Sequence[str]) -> bool:
    """Whether one ``wait`` calls for another: nothing has changed yet.

    Args:
        actions: those carried out.
        looks: of the room, newest last; the last two are compared.
    """
    if len(actions) <= 3 or len(looks) < 2:
        return False
    return actions[-1] == WAIT and actions[-2] != WAIT and looks[-1] == looks[-2]


def is_focus_blocked(action: str, task: str, state: SwitchState, recipe: SwitchRecipe) -> bool:
    """Whether an action of SWIFT's may not focus: SAGE never has, and the task does not name the thing.

    ``state.focus_tries`` counts this try. After three of them SWIFT may.
    """
    if not is_focus(action) or state.sage_focused or state.focus_tries >= recipe.focus_tries:
        return False
    return not any(_nameless(target) in _nameless(action) for target in focus_targets(task) if target)


def _paper(state: SwitchState, recipe: SwitchRecipe) -> Decision:
    reasons = _holding(PAPER, state, recipe)
    return Decision("sage" if reasons else "swift", reasons)


def _released(state: SwitchState, recipe: SwitchRecipe) -> Decision:
    over = exhausted(state, recipe)
    forces = () if over else _holding(FORCES, state, recipe)
    wrong = invalid(state, recipe)
    accepts = () if wrong else _holding(ACCEPTS, state, recipe)
    if forces:
        return Decision("sage", forces)
    if accepts:
        return Decision("swift", accepts)
    if over:
        return Decision("swift", ("exhausted",), fallback=True)
    if wrong and planned(state, recipe):
        return Decision("swift", ("invalid", "planned"), fallback=True)
    return Decision("sage", ("invalid",) if wrong else ("repeated",))


def _holding(predicates: tuple[Predicate, ...], state: SwitchState, recipe: SwitchRecipe) -> tuple[str, ...]:
    return tuple(predicate.__name__ for predicate in predicates if predicate(state, recipe))


def _nameless(thing: str) -> str:
    """Without the letter of an unknown substance."""
    if "unknown substance" not in thing:
        return thing
    return " ".join(word for word in thing.split() if not (len(word) == 1 and word.isupper()))
