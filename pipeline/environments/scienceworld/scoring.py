"""The score of an episode, and the two ways of counting it.

The simulator's score runs from 0 to 1; a focus on the wrong thing makes it -1 and ends the episode. The
published wrapper rounds it to points of 100. ``score`` counts -100 points as 0; ``score_published`` is
what the wrapper says. Done is not won: only 100 points are.
"""

from __future__ import annotations

from pipeline.trajectories.schema import Grade

WON = 100
"""Points of a solved task."""


def points(score: float) -> int:
    """The simulator's score as the published wrapper says it: rounded, from -100 to 100."""
    return round(WON * score)


def grade(last: float, best: float) -> Grade:
    """The verdict on an episode.

    Args:
        last: what the simulator says in the end, from -1 to 1.
        best: the most it said during the episode; it never decides anything.
    """
    score = max(points(last), 0) / WON
    metrics = {
        "score": score,
        "score_published": points(last) / WON,
        "score_best": max(points(best), 0) / WON,
    }
    return Grade(correct=points(last) >= WON, reward=score, metrics=metrics)
