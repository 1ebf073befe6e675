"""Small repairs of an action's names, so that it becomes one of the valid ones (specification 4.7)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from pipeline.methods.swiftsage.world import FOCUS, ROOMS

_LETTER = re.compile(r" [A-Z](?= |$)")
_MOVE = re.compile(r"move (.+?) to (.+)")
_HELD = "substance in inventory"


def repair(action: str, valid: Collection[str], look: str = "", inventory: str = "") -> str:
    """The valid action that is meant, or the action with its rooms left out where none is found.

    Args:
        action: a raw action, as SWIFT or SAGE wrote it.
        valid: what may be done now.
        look: the room, for the container of a substance that is to be picked up.
        inventory: what is held: a substance in it goes by ``substance in inventory``.
    """
    action = " ".join(action.split())
    if action.startswith("wait"):
        return "wait"
    for guess in (action, *_guesses(action, look, inventory)):
        if guess in valid:
            return guess
    return _without_rooms(action)


def _guesses(action: str, look: str, inventory: str) -> Iterator[str]:
    plain = action.replace("green house", "greenhouse")
    yield plain
    # ScienceWorld names a grown animal by its stage twice.
    yield plain.replace("adult", "adult adult").replace("baby", "baby baby")
    if plain.startswith("go to "):
        room = plain.removeprefix("go to ")
        yield from (f"teleport to {room}", f"open door to {room}")
    if plain.startswith("pick up "):
        yield from _containers(plain.removeprefix("pick up "), look)
        yield plain.replace("substance in ", "")
    yield from _held(plain, inventory)
    shorter = plain.rsplit(" in ", 1)[0]
    yield shorter
    if " unknown substance " in action:
        yield _LETTER.sub("", shorter)
    yield _without_rooms(plain)


def _held(action: str, inventory: str) -> Iterator[str]:
    thing = action.removeprefix(FOCUS).strip()
    if action.startswith(FOCUS) and thing and thing in inventory:
        yield f"{FOCUS} {_HELD}"
    moved = _MOVE.fullmatch(action)
    if moved and moved[1] in inventory:
        yield f"move {_HELD} to {moved[2]}"


def _containers(thing: str, look: str) -> Iterator[str]:
    """``pick up`` what holds a substance: ``a glass jar (containing a substance called salt)``."""
    for line in look.split("\n"):
        holder, opened, inside = line.strip().partition(" (containing ")
        if opened and f"called {thing}" in inside:
            yield f"pick up {re.sub('^(a|an|the) ', '', holder)}"


def _without_rooms(action: str) -> str:
    for room in ROOMS:
        action = action.removesuffix(f" in {room}")
    return action
