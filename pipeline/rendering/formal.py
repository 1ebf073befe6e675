"""ScienceWorld's actions in a formal dress: ``move lead to stove`` as ``MOVE(lead, stove)``.

SAGE writes its actions so, and SWIFT may be trained to (the published data's fifth version). A type
may have several raw forms; the first one is what is sent to the environment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class ActionType:
    """One type of action: its name, its raw form (``{}`` an argument), what it is for.

    ``also`` are raw forms and ``names`` formal names that mean the same.
    """

    name: str
    raw: str
    purpose: str = ""
    also: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def arguments(self) -> int:
        """How many arguments the type takes."""
        return self.raw.count("{}")


TYPES: Final = (
    ActionType("WAIT", "wait", "let time pass, so that something can heat, cool or grow", ("wait1",)),
    ActionType("TELEPORT", "teleport to {}", "be in a room at once"),
    ActionType("LOOK", "look at {}", "see what a thing holds or how it is"),
    ActionType("READ", "read {}", "read a note, a recipe or a book"),
    ActionType("PICK", "pick up {}", "take a thing into the inventory", names=("PICKUP", "PICK_UP", "TAKE")),
    ActionType("OPEN", "open {}", "open a container or an appliance before using its inside"),
    ActionType("ACTIVATE", "activate {}", "switch a device on", names=("TURN_ON",)),
    ActionType("DEACTIVATE", "deactivate {}", "switch a device off", names=("TURN_OFF",)),
    ActionType("EXAMINE", "examine {}", "look closely at a thing; not at a room", names=("OBSERVE",)),
    ActionType("CONNECT", "connect {} to {}", "join two terminals of an electric circuit"),
    ActionType("MOVE", "move {} to {}", "put a thing into or onto another", names=("PLACE", "PUT")),
    ActionType("USE", "use {} on {}", "use a tool on a thing, such as a thermometer on a liquid"),
    ActionType("MIX", "mix {}", "mix what a container holds", names=("STIR",)),
    ActionType("DUNK", "dunk {} into {}", "dip a container into a liquid", ("dunk {} in {}",)),
    ActionType("DROP", "drop {}", "put a thing of the inventory down here"),
    ActionType("POUR", "pour {} into {}", "pour what a container holds into another", ("pour {} in {}",)),
    ActionType("FOCUS", "focus on {}", "name the thing that the task asks about", names=("FOCUS_ON",)),
)
"""The seventeen types that SAGE may use."""

OTHERS: Final = (
    ActionType("SEE", "look around"),
    ActionType("INVENTORY", "inventory"),
    ActionType("TASK", "task"),
    ActionType("GO", "go to {}", names=("GO_TO",)),
    ActionType("OPEN_DOOR", "open door to {}"),
    ActionType("CLOSE_DOOR", "close door to {}"),
    ActionType("CLOSE", "close {}"),
    ActionType("DROP", "drop {} in {}"),
    ActionType("LOOK_IN", "look in {}"),
    ActionType("DISCONNECT", "disconnect {}"),
    ActionType("EAT", "eat {}"),
    ActionType("FLUSH", "flush {}"),
    ActionType("USE", "use {}"),
)
"""What ScienceWorld understands beside them."""

_CHOICE: Final = re.compile(r"CHOOSE\((\d+)\)", re.IGNORECASE)
_CALL: Final = re.compile(r"([A-Za-z][A-Za-z_ ]*?)[ \t]*\((.*)\)", re.DOTALL)


def formal_action(action: str) -> str | None:
    """``pick up thermometer`` as ``PICK(thermometer)``, ``0`` as ``CHOOSE(0)``; None where no type fits."""
    action = action.strip()
    if action.isascii() and action.isdigit():
        return f"CHOOSE({action})"
    for pattern, kind in _PATTERNS:
        if match := pattern.fullmatch(action):
            return f"{kind.name}({', '.join(match.groups())})"
    return None


def raw_action(formal: str) -> str | None:
    """``PICK(thermometer)`` as ``pick up thermometer``; None where it is no known call with its arguments.

    Names are read in any case; two arguments part at the last comma, as objects may hold commas.
    """
    formal = formal.strip()
    if choice := _CHOICE.fullmatch(formal):
        return choice[1]
    match = _CALL.fullmatch(formal)
    if match is None:
        return None
    name, inside = match[1].upper().replace(" ", "_"), match[2].strip()
    kinds = [kind for kind in (*TYPES, *OTHERS) if name in (kind.name, *kind.names)]
    # Of two types of one name (USE on something, or alone) the one with more arguments goes first.
    filled = (_filled(kind, inside) for kind in sorted(kinds, key=lambda kind: -kind.arguments))
    return next((action for action in filled if action), None)


def verb_of(action: str) -> str:
    """The first word of a raw action."""
    return action.split(maxsplit=1)[0] if action.strip() else ""


def _filled(kind: ActionType, inside: str) -> str | None:
    if kind.arguments == 0:
        return kind.raw
    parts = [part.strip() for part in inside.rsplit(",", kind.arguments - 1)]
    return kind.raw.format(*parts) if len(parts) == kind.arguments and all(parts) else None


def _pattern(raw: str) -> re.Pattern[str]:
    return re.compile("(.+)".join(re.escape(part) for part in raw.split("{}")), re.DOTALL)


def _patterns() -> list[tuple[re.Pattern[str], ActionType]]:
    """Longest words first: ``open door to {}`` before ``open {}``."""
    forms = [(raw, kind) for kind in (*TYPES, *OTHERS) for raw in (kind.raw, *kind.also)]
    forms.sort(key=lambda form: -len(form[0].replace("{}", "")))
    return [(_pattern(raw), kind) for raw, kind in forms]


_PATTERNS: Final = _patterns()
