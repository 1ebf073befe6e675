"""Accuracy against the number of self-consistency samples, from one set of samples.

Source: the ReAct paper, figure 2. The first k samples of an episode are what a vote of k would have
had, so no model is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from pipeline.errors import StoreError
from pipeline.evaluation.metrics import mean
from pipeline.evaluation.statistics import mean_interval
from pipeline.methods.voting import majority
from pipeline.trajectories.schema import Record, Task, Trajectory


class VotePoint(Record):
    """The mean score of ``episodes`` votes of ``samples`` samples each, with its interval."""

    samples: int
    episodes: int
    mean: float
    ci_low: float
    ci_high: float
    ci_method: str


def vote_curve(
    trajectories: Sequence[Trajectory],
    normalise: Callable[[str], str],
    grade: Callable[[Task, str], float],
    *,
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> list[VotePoint]:
    """The score that the majority of the first k votes would have had, for k = 1, 2, …, n.

    Args:
        trajectories: CoT-SC episodes, one a task; one that failed before its vote scores 0 throughout.
        normalise: the environment's, under which two votes are the same.
        grade: the score, from 0 to 1, of an answer to a task. Where no sample has an answer the score
            is 0, and it is not asked.
        confidence: of the intervals.
        resamples: of their bootstrap.
        seed: of their bootstrap.

    Raises:
        StoreError: no episode holds votes, or two hold different numbers of them.
    """
    votes = [_votes(trajectory) for trajectory in trajectories]
    size = _size(trajectories, votes)
    normal = cache(normalise)
    scored = cache(lambda place, answer: grade(trajectories[place].task, answer))
    points: list[VotePoint] = []
    for samples in range(1, size + 1):
        winners = [majority(given[:samples], normal)[0] for given in votes]
        scores = [scored(place, answer) if answer else 0.0 for place, answer in enumerate(winners)]
        interval = mean_interval(scores, confidence=confidence, resamples=resamples, seed=seed)
        points.append(
            VotePoint(
                samples=samples,
                episodes=len(scores),
                mean=mean(scores),
                ci_low=interval.low,
                ci_high=interval.high,
                ci_method=interval.method,
            )
        )
    return points


def _votes(trajectory: Trajectory) -> list[str]:
    """The votes of the episode's last step that has any; a hybrid may have acted before."""
    return next((step.votes for step in reversed(trajectory.steps) if step.votes), [])


def _size(trajectories: Sequence[Trajectory], votes: Sequence[list[str]]) -> int:
    sizes = {len(given): one.id for one, given in zip(trajectories, votes, strict=True) if given}
    if not sizes:
        raise StoreError("no episode holds votes: evaluate with method cot_sc, then draw the curve")
    if len(sizes) > 1:
        found = ", ".join(f"{size} ({sizes[size]})" for size in sorted(sizes))
        raise StoreError(f"episodes hold different numbers of votes: {found}; draw one set at a time")
    return next(iter(sizes))
