"""What these methods know of ScienceWorld: its rooms, how often a task wants focus, what failure reads like.

Kinds are the paper's numbers of tasks (``4-4`` is find-animal); specification 4.2 lists their names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pipeline.rendering.swift import opening_scene
from pipeline.trajectories.schema import Step

ROOMS: Final = (
    "hallway",
    "greenhouse",
    "green house",
    "kitchen",
    "bathroom",
    "outside",
    "workshop",
    "art studio",
    "foundry",
    "bedroom",
    "living room",
)
FOCUS: Final = "focus on"
NO_ACTION: Final = "No known action matches that input."
"""What ScienceWorld answers to what it does not understand."""

AMBIGUOUS: Final = "Ambiguous request"
"""How ScienceWorld begins to ask which of several things is meant; it waits for a number."""
FIRST_MEANING: Final = "0"
"""What is answered then, as published: the first of them."""

FOCUSES: Final = {"3-2": 2, "6-3": 2, "7-3": 2, "2-1": 2, "2-2": 3, "2-3": 3, "8-1": 4, "8-2": 4}
"""Useful focuses that a kind of task has, where it is not one."""

_FAILED: Final = ("can't", "not", "doesn't")
_FAILED_WORD: Final = re.compile(r"can't|cannot|\bnot\b|doesn't")
_TARGET: Final = re.compile(r"focus on\s+(\w+(?:\s+\w+)*)")


def failed(observation: str, *, whole_words: bool = True) -> bool:
    """Whether an observation says that the action did not work.

    Args:
        observation: what the environment answered.
        whole_words: False is the public code's test, which finds ``not`` in ``nothing`` as well.
    """
    if observation.strip() == NO_ACTION:
        return True
    if whole_words:
        return _FAILED_WORD.search(observation) is not None
    return any(word in observation for word in _FAILED)


def room_of(look: str) -> str:
    """The room that a look's first sentence names; empty where it names none."""
    first = look.split(".", 1)[0]
    return next((room for room in ROOMS if f"called the {room}" in first), "")


def focus_targets(task: str) -> list[str]:
    """What the task's text says to focus on."""
    return [" ".join(words for words in name.split() if words != "the") for name in _TARGET.findall(task)]


def focus_limit(kind: str, task: str) -> int:
    """How many useful focuses a task has."""
    return max(FOCUSES.get(kind, 1), task.count("focus"))


def is_focus(action: str) -> bool:
    """Whether an action focuses on something, which may end the episode."""
    return action.startswith(FOCUS)


def is_ambiguous(observation: str) -> bool:
    """Whether the environment asks which of several things was meant."""
    return observation.startswith(AMBIGUOUS)


def seen_after(opening: str, steps: Sequence[Step]) -> tuple[str, str]:
    """The room's look and the inventory as they are after these steps."""
    start = opening_scene(opening)
    newest = steps[-1].info if steps else {}
    return newest.get("look", start.look), newest.get("inventory", start.inventory)
