"""Accuracy against the number of votes, from one set of samples."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.environments.answers import exact_match, normalise
from pipeline.errors import StoreError
from pipeline.evaluation.votes import vote_curve
from pipeline.trajectories.schema import Outcome, Step
from tests.evaluation.builders import episode, make_task

TASKS = [make_task(number) for number in range(4)]


def voted(task, *votes):
    return episode(task, "unused", steps=[Step(action="Finish[unused]", votes=list(votes))])


def grade(task, answer):
    return exact_match(answer, task.gold[0])


def curve(trajectories, **options):
    return vote_curve(trajectories, normalise, grade, resamples=99, **options)


def test_each_point_is_the_vote_of_the_first_samples():
    points = curve(
        [
            # Rome, a tie to the first seen, Paris (the Paris and Paris! are one answer).
            voted(TASKS[0], "Rome", "the Paris", "Paris!"),
            # No answer, then Paris alone.
            voted(TASKS[1], "", "Paris", ""),
            # Paris throughout.
            voted(TASKS[2], "Paris", "Rome", "Paris"),
            # Nothing is ever answered.
            voted(TASKS[3], "", " ", ""),
        ]
    )
    assert [(point.samples, point.episodes, point.mean) for point in points] == [
        (1, 4, 0.25),
        (2, 4, 0.5),
        (3, 4, 0.75),
    ]
    assert all(0 <= point.ci_low <= point.mean <= point.ci_high <= 1 for point in points)


def test_an_episode_that_failed_before_its_vote_scores_nothing_but_counts():
    failed = episode(TASKS[1], outcome=Outcome.MODEL_ERROR, metrics={}, steps=[])
    assert [point.mean for point in curve([voted(TASKS[0], "Paris", "Paris"), failed])] == [0.5, 0.5]


def test_the_votes_of_a_hybrid_are_its_last():
    steps = [Step(action="Search[x]"), Step(action="Finish[Paris]", votes=["Paris"])]
    assert curve([episode(TASKS[0], "Paris", steps=steps)])[0].mean == 1.0


def test_what_cannot_be_a_curve_is_refused():
    with pytest.raises(StoreError, match="no episode holds votes"):
        curve([episode(TASKS[0], "Paris")])
    with pytest.raises(StoreError, match=r"different numbers of votes: 1 .*, 2 "):
        curve([voted(TASKS[0], "a"), voted(TASKS[1], "a", "b")])


answers = st.sampled_from(["Paris", "paris.", "Rome", "the Rome", "Oslo", ""])


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(st.lists(answers, min_size=n, max_size=n), min_size=1, max_size=4)
    )
)
@settings(max_examples=40)
def test_it_equals_counting_by_hand(samples):
    trajectories = [voted(make_task(number), *votes) for number, votes in enumerate(samples)]
    if not any(map(any, samples)):
        assert {point.mean for point in curve(trajectories)} == {0.0}
        return
    for point in curve(trajectories):
        right = 0
        for votes in samples:
            keys = [normalise(vote) for vote in votes[: point.samples] if vote]
            ranked = sorted(set(keys), key=lambda key: (-keys.count(key), keys.index(key)))
            right += ranked[:1] == ["paris"]
        assert point.mean == pytest.approx(right / len(samples))
