"""From what SWIFT wrote to an action that the environment takes (specification 4.5).

First of the beams that is valid; else the valid action most alike to all beams by a sentence model;
else, without such a model, the one that shares most words with the first beam.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import numpy as np

from pipeline.methods.swiftsage.world import FOCUS, ROOMS, is_focus

BEAMS: Final = 5
"""How many beams count."""
How = Literal["exact", "embedding", "words", "none"]

_FREE_FOCUS: Final = frozenset({"4-1", "4-2", "4-3", "4-4", "7-1", "7-2", "7-3", "2-2"})
"""Kinds whose text need not name what is focused on."""
_FREE_EXAMINE: Final = frozenset({"9-1", "9-2", "9-3"})
"""Kinds in which anything may be examined."""
_LITTLE: Final = frozenset({"focus", "on", "in", "to"})
_WORD: Final = re.compile(r"[a-z0-9]+")


class Embedder(Protocol):
    """A sentence-embedding model."""

    def encode(self, texts: list[str]) -> Any:
        """One vector a text: anything that numpy reads as an array (texts × dimensions)."""
        ...


@dataclass(frozen=True)
class Match:
    """An action, and how it was found. With ``none`` it is the first beam, which is not valid."""

    action: str
    how: How


def clean_beam(text: str) -> str:
    """A decoded beam without control tokens (``<pad>``, ``</s>``)."""
    return " ".join(word for word in text.replace("<", " <").split() if not word.startswith("<"))


def swift_valid(valid: Iterable[str], look: str, inventory: str, last: Sequence[str]) -> list[str]:
    """What SWIFT alone may do: the environment's valid actions, filtered.

    Doors to every room may be opened. Left out are focus on agent, air and rooms, the last three
    actions, doors but for opening, and focus on what is neither in the room nor held.
    """
    seen = f"{look} {inventory}".lower()
    recent = set(last[-3:])
    return [
        action
        for action in _common(valid)
        if action not in recent and (not is_focus(action) or _is_seen(action, seen))
    ]


def swiftsage_valid(valid: Iterable[str], kind: str, task: str) -> list[str]:
    """What SwiftSage may do: the environment's valid actions and waiting, filtered.

    Focus, and examine, must share a word with the task's text, except in the kinds where the text does
    not name the thing.

    Args:
        valid: the environment's.
        kind: of the task, such as ``4-4``.
        task: the task's text.
    """
    words = set(_WORD.findall(task.lower()))
    checked = [FOCUS] if kind not in _FREE_FOCUS else []
    checked += ["examine"] if kind not in _FREE_EXAMINE else []
    return [
        action
        for action in _common([*valid, "wait", "wait1"])
        if not any(_is_unasked(action, verb, words) for verb in checked)
    ]


def match(beams: Sequence[str], valid: Sequence[str], embedder: Embedder | None = None) -> Match:
    """The valid action that the beams mean.

    Args:
        beams: clean, best first; the first five count.
        valid: what may be done, without duplicates.
        embedder: None compares words.
    """
    beams = [beam.replace("green house", "greenhouse").strip() for beam in beams[:BEAMS]]
    known = set(valid)
    for beam in beams:
        if beam in known:
            return Match(beam, "exact")
    if not beams or not valid:
        return Match(beams[0] if beams else "", "none")
    # Shortest first, so that of two equally good actions the simpler one is taken, always the same.
    ordered = sorted(known, key=lambda action: (len(action), action))
    return _nearest(beams, ordered, embedder) if embedder else _by_words(beams[0], ordered)


def _common(valid: Iterable[str]) -> list[str]:
    barred = {f"{FOCUS} {thing}" for thing in ("agent", "air", *ROOMS)}
    actions = dict.fromkeys([*valid, *(f"open door to {room}" for room in ROOMS)])
    return [
        action for action in actions if action not in barred and ("door" not in action or "open" in action)
    ]


def _is_seen(action: str, seen: str) -> bool:
    return all(word in seen for word in action.lower().split() if word not in _LITTLE)


def _is_unasked(action: str, verb: str, words: set[str]) -> bool:
    return action.startswith(verb) and words.isdisjoint(action.removeprefix(verb).lower().split())


def _nearest(beams: list[str], valid: list[str], embedder: Embedder) -> Match:
    """The largest sum of cosines with all beams."""
    vectors = _unit(embedder.encode([*beams, *valid]))
    sums = vectors[len(beams) :] @ vectors[: len(beams)].sum(axis=0)
    # Rounding may part what is equal: the first of those that are as good as the best.
    best = int(np.flatnonzero(sums >= sums.max() - 1e-6)[0])
    return Match(valid[best], "embedding")


def _unit(vectors: Any) -> Any:
    array = np.nan_to_num(np.asarray(vectors, dtype=np.float64))
    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    return array / np.where(lengths > 0, lengths, 1.0)


def _by_words(beam: str, valid: list[str]) -> Match:
    words = set(beam.split())
    best = max(valid, key=lambda action: len(words & set(action.split())))
    return Match(best, "words") if words & set(best.split()) else Match(beam, "none")
