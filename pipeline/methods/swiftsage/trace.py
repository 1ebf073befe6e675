"""Who acted in a step of SwiftSage's and why, as its flags say it.

The first flag names who acted: ``swift``, ``sage``, ``buffer`` (SAGE's plan goes on), ``wait`` (once
more) or ``ambiguous`` (the first meaning is taken). Those behind it are the reasons; ``vain:sage:stuck``
tells of an earlier turn in the same step that led to no action.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.trajectories.schema import Step

METHOD: Final = "swiftsage"
VAIN: Final = "vain"
ACTORS: Final = {
    "swift": "SWIFT",
    "sage": "SAGE",
    "buffer": "SAGE's plan",
    "wait": "a second wait",
    "ambiguous": "the first meaning",
}
_ALWAYS: Final = ("swift", "sage", "buffer")
"""Counted even where they never acted."""


@dataclass(frozen=True)
class Acted:
    """Who acted, why, and who had been asked before, in vain, with the reasons."""

    who: str
    reasons: tuple[str, ...] = ()
    vain: tuple[tuple[str, tuple[str, ...]], ...] = ()


def in_vain(who: str, reasons: Iterable[str]) -> str:
    """The flag for a turn that led to no action."""
    return f"{VAIN}:{who}:{'+'.join(reasons)}"


def acted(flags: Sequence[str]) -> Acted | None:
    """Who acted by a step's flags; None where they name nobody."""
    if not flags or flags[0] not in ACTORS:
        return None
    earlier = [flag.split(":", 2) for flag in flags[1:] if flag.startswith(f"{VAIN}:")]
    return Acted(
        flags[0],
        tuple(flag for flag in flags[1:] if not flag.startswith(f"{VAIN}:")),
        tuple((part[1], tuple(part[2].split("+"))) for part in earlier if len(part) == 3),
    )


def told(flags: Sequence[str]) -> str:
    """A step's flags in words: ``SAGE (stuck); before, in vain: SWIFT (focus)``; empty without an actor."""
    who = acted(flags)
    if who is None:
        return ""
    before = ", ".join(_named(*each) for each in who.vain)
    # The paper's rule lets SWIFT act where nothing speaks against it.
    reasons = who.reasons or (("no condition holds",) if who.who == "swift" else ())
    return _named(who.who, reasons) + (f"; before, in vain: {before}" if before else "")


def counted(steps: Iterable[Step]) -> str:
    """How many steps each took, in words: ``SWIFT 12, SAGE 3, SAGE's plan 7``."""
    counts = Counter(who.who for step in steps if (who := acted(step.flags)))
    return ", ".join(f"{name} {counts[key]}" for key, name in ACTORS.items() if counts[key] or key in _ALWAYS)


def _named(who: str, reasons: Sequence[str]) -> str:
    reasons = [reason for reason in reasons if reason]
    return ACTORS.get(who, who) + (f" ({', '.join(reasons)})" if reasons else "")
