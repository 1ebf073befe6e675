"""An agent that goes round in circles, and an episode that leads nowhere."""

from __future__ import annotations

from collections.abc import Sequence


def in_loop(actions: Sequence[str], window: int = 5, distinct: int = 2) -> bool:
    """Whether the last ``window`` actions are exactly ``distinct`` different ones (specification 4.5)."""
    return len(actions) >= window and len(set(actions[-window:])) == distinct


def leads_nowhere(score: float, rewards: Sequence[float], steps: int = 100, without: int = 30) -> bool:
    """Whether an episode of SwiftSage's ends here (specification 4.6).

    Args:
        score: the newest one; below zero the environment has ended the task.
        rewards: one a step.
        steps: from how many actions on, the opening look counted.
        without: how many of the newest must have brought nothing.
    """
    return score < 0 or (len(rewards) + 1 >= steps and sum(rewards[-without:]) == 0)
