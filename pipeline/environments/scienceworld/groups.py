"""Short, medium and long tasks, as Lin et al. 2023 (SwiftSage), table 1, group them."""

from __future__ import annotations

from typing import Final

from pipeline.environments.kinds import KindGroup
from pipeline.environments.scienceworld.names import BY_ID

_LENGTHS: Final = """
1-1 107.7  1-2 78.6  1-3 88.9  1-4 75.2  2-1 21.4  2-2 35.2  2-3 65.0  3-1 13.6  3-2 20.8  3-3 25.6
3-4 29.0  4-1 14.6  4-2 8.8  4-3 12.6  4-4 14.6  5-1 69.5  5-2 79.6  6-1 33.6  6-2 15.1  6-3 23.0
7-1 7  7-2 7  7-3 8  8-1 40  8-2 16.3  9-1 97  9-2 84.9  9-3 123.1  10-1 130.1  10-2 132.1
"""
"""The paper's *Len: steps of the oracle, a mean over test variations."""


def _group(length: float) -> str:
    if length < 20:
        return "short"
    return "medium" if length < 50 else "long"


def _groups() -> dict[str, KindGroup]:
    words = _LENGTHS.split()
    lengths = {kind: float(length) for kind, length in zip(words[::2], words[1::2], strict=True)}
    return {kind: KindGroup(BY_ID[kind].name, _group(length), length) for kind, length in lengths.items()}


KIND_GROUPS: Final = _groups()
"""Every task type by its id, in the paper's order."""
