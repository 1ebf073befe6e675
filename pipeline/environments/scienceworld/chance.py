"""The random agent: the baseline that only knows what is possible."""

from __future__ import annotations

import random
from collections.abc import Sequence


def random_action(valid: Sequence[str], seed: int, number: int) -> str:
    """One of the valid actions, each as likely as another.

    Args:
        valid: what can be done now, in a fixed order; at least one.
        seed: the episode's.
        number: which step of the episode it is.

    Returns:
        The action; the same for the same arguments, whatever came before.
    """
    return random.Random(f"{seed} {number}").choice(valid)
