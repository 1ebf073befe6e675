"""Points of an episode, and the two ways of counting them.

The simulator gives points from 0 to 100, or -100 for a focus on the wrong thing, which also ends the
episode. ``score`` counts that as 0; ``score_published`` is what the simulator says. Done is not won:
only 100 points are.
"""

from __future__ import annotations

from pipeline.trajectories.schema import Grade

WON = 100
"""Points of a solved task."""


def strict(points: int) -> float:
    """Points as a score between 0 and 1; below zero is 0."""
    return max(points, 0) / WON


def grade(points: int, best: int) -> Grade:
    """The verdict on an episode.

    Args:
        points: what the simulator says in the end, from -100 to 100.
        best: the most it said during the episode; it never decides anything.
    """
    score = strict(points)
    metrics = {"score": score, "score_published": points / WON, "score_best": strict(best)}
    return Grade(correct=points >= WON, reward=score, metrics=metrics)
