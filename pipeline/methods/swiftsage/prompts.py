"""What SAGE is asked: first for a plan (five questions), then for the plan's next actions.

The wording and the worked example are ours; what is asked follows Lin et al. 2023, section 3.3. Each
function returns the messages of one call. What the environment said is data inside a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from pipeline.methods.swiftsage.grounding import LINES
from pipeline.methods.swiftsage.world import FOCUS, ROOMS, focus_targets, room_of
from pipeline.rendering.base import Message
from pipeline.rendering.formal import TYPES, ActionType, formal_action

VERSION: Final = "1"
"""Rises with every change of the wording."""
SHOWN: Final = 10
"""Past actions that the grounding prompt shows."""
LONGEST: Final = 400
"""Characters shown of one observation."""

_ROLE: Final = (
    "You advise a student who does experiments in a text world and can only act in the ways it allows. "
    f"Its rooms are {', '.join(room for room in ROOMS if room != 'green house')}; the hallway joins them."
)
_TASK_SHOWN: Final = (
    "Your task is to find out whether the nail conducts electricity. First, focus on the nail. If it does, "
    "move it to the blue box; if not, to the green box."
)
_PLAN_SHOWN: Final = (
    "- in workshop: focus on nail --> You focus on the nail.\n"
    "- in workshop: connect battery anode to nail terminal 1 --> They are joined.\n"
    "- in workshop: move nail to blue box --> You move the nail to the blue box."
)
_ACTIONS_SHOWN: Final = (
    "- in workshop: FOCUS(nail) --> You focus on the nail.\n"
    "- in workshop: CONNECT(battery anode, nail terminal 1) --> They are joined.\n"
    "- in workshop: MOVE(nail, blue box) --> You move the nail to the blue box."
)
_FORMAT: Final = (
    f"Answer with at most {LINES} lines of exactly this form, and nothing else:\n"
    "Action 1: TYPE(thing) --> what you expect to see\nAction 2: TYPE(thing, thing) --> …"
)


@dataclass(frozen=True)
class Past:
    """One action that was carried out: the room it was done in, the action, what was observed."""

    room: str
    action: str
    observation: str


@dataclass(frozen=True)
class SageState:
    """All that SAGE is told. ``looks`` are those of rooms visited, by room, the newest of each.

    ``suggestion`` is what SWIFT would do; ``errors`` what failed lately; ``focused`` the useful focuses.
    """

    task: str
    look: str
    inventory: str
    past: tuple[Past, ...] = ()
    looks: Mapping[str, str] = field(default_factory=dict[str, str])
    focused: tuple[str, ...] = ()
    suggestion: str = ""
    errors: tuple[str, ...] = ()


def planning_messages(state: SageState) -> tuple[Message, ...]:
    """The call that asks for a plan: five questions."""
    parts = [
        f"An experiment that went well, to show how actions look.\nTask: {_TASK_SHOWN}\n{_PLAN_SHOWN}",
        f"The task now: {state.task.strip()}",
        _listed("What was done and seen so far", _past_lines(state.past)),
        _listed("Rooms seen before", _other_rooms(state)),
        _situation(state),
        _suggested(state.suggestion),
        _questions(state.task),
    ]
    return (Message("system", _ROLE), Message("user", _joined(parts)))


def grounding_messages(state: SageState, plan: str) -> tuple[Message, ...]:
    """The call that asks for the next actions.

    Args:
        state: as for the plan.
        plan: what SAGE answered to it.
    """
    parts = [
        f"An experiment that went well, in the form to be used.\nTask: {_TASK_SHOWN}\n{_ACTIONS_SHOWN}",
        f"The task now: {state.task.strip()}",
        _listed(f"The last {SHOWN} actions", _formal_lines(state.past[-SHOWN:])),
        f"Advice on how to go on:\n{plan.strip() or '(none)'}",
        _situation(state),
        "Which actions come next to reach the next subgoal? Decide yourself what needs knowledge, such as "
        "which of two animals lives longer; books and computers are of no help. Only things in this room or "
        "in the inventory can be used: to use others, go to their room first.",
        _listed("The only types of action", [f"{_form(kind)}: {kind.purpose}" for kind in TYPES]),
        _focus_limits(state.task),
        _FORMAT,
    ]
    return (Message("system", _ROLE), Message("user", _joined(parts)))


def retry_messages(asked: Sequence[Message], answer: str) -> tuple[Message, ...]:
    """The grounding call once more, after an answer from which no action could be read."""
    return (
        *asked,
        Message("assistant", answer.strip() or "(nothing)"),
        Message("user", f"No action could be read from this. Think again about what is here. {_FORMAT}"),
    )


def choice_messages(
    action: str, candidates: Sequence[str], look: str, inventory: str, expected: str = ""
) -> tuple[Message, ...]:
    """The call that asks which of several valid actions a failed one meant."""
    aim = f", so that: {expected}" if expected else ""
    parts = [
        f"In this room: {look.strip()}\n{inventory.strip()}",
        f"The action {action!r} was meant{aim}. It is not possible here.",
        _listed("Possible actions", [f"{number}: {text}" for number, text in enumerate(candidates, 1)]),
        "Write the one that serves the same end, word for word, or none.",
    ]
    return (Message("system", _ROLE), Message("user", _joined(parts)))


def read_choice(answer: str, candidates: Sequence[str]) -> str | None:
    """The candidate that an answer names, by its words or its number; None where it names none."""
    said = answer.strip().strip("\"'`*.").strip()
    if said.isascii() and said.isdigit() and 1 <= int(said[:6]) <= len(candidates):
        return candidates[int(said[:6]) - 1]
    if said.lower() in candidates:
        return said.lower()
    # Of two that are named the longer: the other may be a part of its words.
    named = [text for text in candidates if text in answer.lower()]
    return max(named, key=len, default=None)


def _form(kind: ActionType) -> str:
    return f"{kind.name}({', '.join(['thing'] * kind.arguments)})"


def _questions(task: str) -> str:
    targets = focus_targets(task)
    focus = f" Count in {FOCUS!r} for {', '.join(targets)}, and for nothing else." if targets else ""
    return (
        "Answer five questions, briefly and in order.\n"
        "1. Which things does the task need, and where is each likely to be?\n"
        "2. Which of them are not in the inventory yet, and in which room should they be looked for? If one "
        "cannot be had, what could take its place?\n"
        f"3. What are the subgoals, five at most, in order?{focus}\n"
        "4. Which subgoals are done, and which is next? State the facts of nature that decide it.\n"
        "5. What went wrong so far (something forgotten, left closed or switched off, done again and again), "
        "and how is it mended?"
    )


def _situation(state: SageState) -> str:
    done = ", ".join(action.removeprefix(FOCUS).strip() for action in state.focused)
    lines = [
        f"Now, in {room_of(state.look) or 'this room'}: {state.look.strip()}",
        state.inventory.strip(),
        f"Focused on so far: {done or 'nothing'}.",
    ]
    errors = _listed("What failed lately", [_line(error) for error in dict.fromkeys(state.errors)])
    return "\n".join([*lines, errors]).strip()


def _focus_limits(task: str) -> str:
    targets = focus_targets(task)
    if not targets:
        return "Use FOCUS only where the task asks for it, on the thing itself."
    return f"Use FOCUS only on {', '.join(targets)}: on the thing itself, not on what holds it."


def _suggested(action: str) -> str:
    return f"A first impulse, perhaps wrong: {_line(action)}" if action else ""


def _other_rooms(state: SageState) -> list[str]:
    here = room_of(state.look)
    return [f"{room}: {_line(look)}" for room, look in state.looks.items() if room != here]


def _past_lines(past: Sequence[Past]) -> list[str]:
    """Observations, numbered: nothing twice, and of several moves in a row the last."""
    lines: list[str] = []
    for moving, group in groupby(past, key=lambda item: _is_move(item.action)):
        items = list(group)
        lines += [_told(item, item.action) for item in (items[-1:] if moving else items)]
    return [f"{number}. {line}" for number, line in enumerate(dict.fromkeys(lines), 1)]


def _formal_lines(past: Sequence[Past]) -> list[str]:
    """Actions in the form SAGE writes; one that is repeated stands once, with how often."""
    told = [_told(item, formal_action(item.action) or item.action) for item in past]
    counted = [(line, len(list(group))) for line, group in groupby(told)]
    return [f"{line} (repeated {count} times)" if count > 1 else line for line, count in counted]


def _told(item: Past, action: str) -> str:
    where = f"in {item.room}: " if item.room else ""
    return f"{where}{_line(action)} --> {_line(item.observation)}"


def _is_move(action: str) -> bool:
    return action.startswith(("go to ", "teleport to "))


def _listed(title: str, lines: Sequence[str]) -> str:
    return f"{title}:\n" + "\n".join(f"- {line}" for line in lines) if lines else ""


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def _line(text: str) -> str:
    return " ".join(text.split())[:LONGEST]
