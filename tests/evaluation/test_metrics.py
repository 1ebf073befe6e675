"""What an episode is worth, and per-label scores."""

import pytest

from pipeline.errors import StoreError
from pipeline.evaluation import metrics
from pipeline.trajectories.schema import Outcome
from tests.evaluation.builders import episode, make_task

UNFINISHED = [outcome for outcome in Outcome if outcome is not Outcome.FINISHED]


@pytest.mark.parametrize("outcome", UNFINISHED)
def test_an_unfinished_episode_is_worth_nothing_whatever_its_grade(outcome):
    trajectory = episode(make_task(1), "Paris", correct=True, outcome=outcome)
    assert not metrics.is_correct(trajectory)
    assert [metrics.score(trajectory, name) for name in ("em", "f1", "accuracy")] == [0.0, 0.0, 0.0]


def test_only_failures_that_are_not_the_agents_are_errors():
    errored = {o for o in Outcome if metrics.is_errored(episode(make_task(1), outcome=o))}
    assert errored == {Outcome.ENVIRONMENT_ERROR, Outcome.MODEL_ERROR}
    assert metrics.is_errored(None)
    assert metrics.score(None, "em") == 0.0


def test_accuracy_is_the_verdict_and_other_metrics_are_carried():
    trajectory = episode(make_task(1), "Paris, France", correct=False, metrics={"em": 0.0, "f1": 0.8})
    assert metrics.score(trajectory, "f1") == 0.8
    assert metrics.score(trajectory, "accuracy") == 0.0


@pytest.mark.parametrize("carried", [{}, {"em": 1.5}, {"em": float("nan")}])
def test_a_missing_or_impossible_metric_is_refused(carried):
    with pytest.raises(StoreError, match=r"'q1'.*from 0 to 1"):
        metrics.score(episode(make_task(1), "Paris", metrics=carried), "em")


def test_metrics_are_reported_when_every_finished_episode_carries_them():
    some = [
        episode(make_task(1), "x", metrics={"em": 0.0, "em_official": 0.0, "f1": 0.0}),
        episode(make_task(2), "x", metrics={"f1": 0.0, "em": 0.0}),
        episode(make_task(3), outcome=Outcome.MODEL_ERROR, metrics={}),
    ]
    assert metrics.carried_metrics(some) == ["em", "f1"]
    assert metrics.carried_metrics(some[2:]) == []


@pytest.mark.parametrize("outcome", [Outcome.STEP_LIMIT, Outcome.CONTEXT_LIMIT, Outcome.FORMAT_ERROR])
def test_points_are_kept_at_a_limit(outcome):
    points = {"score": 0.4, "score_published": 0.4, "em": 1.0}
    trajectory = episode(make_task(1), correct=True, outcome=outcome, metrics=points)
    assert metrics.score(trajectory, "score") == metrics.score(trajectory, "score_published") == 0.4
    assert metrics.score(trajectory, "em") == 0.0
    assert not metrics.is_correct(trajectory)


@pytest.mark.parametrize("outcome", [Outcome.ENVIRONMENT_ERROR, Outcome.MODEL_ERROR])
def test_points_of_an_episode_that_failed_are_not_counted(outcome):
    assert metrics.score(episode(make_task(1), outcome=outcome, metrics={"score": 0.4}), "score") == 0.0


def test_only_the_published_score_may_fall_below_zero():
    lost = episode(make_task(1), "x", metrics={"score": 0.0, "score_published": -1.0})
    assert metrics.score(lost, "score") == 0.0
    assert metrics.score(lost, "score_published") == -1.0
    with pytest.raises(StoreError, match="from 0 to 1"):
        metrics.score(episode(make_task(1), "x", metrics={"score": -1.0}), "score")
    with pytest.raises(StoreError, match="score = None"):
        metrics.score(episode(make_task(1), "x", metrics={}), "score")
    unfinished = episode(make_task(1), outcome=Outcome.STEP_LIMIT, metrics={})
    assert metrics.score(unfinished, "score") == 0.0


def claim(gold, answer, **options):
    return gold, episode(make_task(1, gold), answer, metrics={"accuracy": float(gold == answer)}, **options)


def test_per_label_scores_by_hand():
    cases = [
        claim("SUPPORTS", "SUPPORTS"),
        claim("SUPPORTS", "SUPPORTS"),
        claim("SUPPORTS", "refutes "),
        claim("REFUTES", "REFUTES"),
        claim("REFUTES", "SUPPORTS"),
        claim("REFUTES", "perhaps"),
        claim("NOT ENOUGH INFO", None, outcome=Outcome.STEP_LIMIT),
        ("NOT ENOUGH INFO", None),
    ]
    report = metrics.label_report(cases)
    assert report is not None
    supports, refutes, unknown = (report.labels[k] for k in ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO"))
    assert (supports.precision, supports.recall) == pytest.approx((2 / 3, 2 / 3))
    assert (refutes.precision, refutes.recall, refutes.f1) == pytest.approx((1 / 2, 1 / 3, 0.4))
    assert (unknown.precision, unknown.recall, unknown.f1, unknown.support) == (0.0, 0.0, 0.0, 2)
    assert report.macro_f1 == pytest.approx((2 / 3 + 0.4 + 0) / 3)
    assert report.confusion["REFUTES"] == {"(other)": 1, "REFUTES": 1, "SUPPORTS": 1}
    assert report.confusion["NOT ENOUGH INFO"] == {"(no answer)": 2}


def test_the_grader_decides_what_counts_as_the_gold_label():
    spelled = claim("SUPPORTS", "The claim is supported.", correct=True)
    refused = claim("REFUTES", "REFUTES", correct=False)
    empty = claim("REFUTES", "  ")
    report = metrics.label_report([spelled, refused, empty])
    assert report is not None
    assert report.confusion["SUPPORTS"] == {"SUPPORTS": 1}
    assert report.confusion["REFUTES"] == {"(no answer)": 1, "(other)": 1}


def test_free_answers_have_no_label_scores():
    assert metrics.label_report((f"city {i}", None) for i in range(metrics.MAX_LABELS + 1)) is None
    assert metrics.label_report([("only", None)]) is None
    assert metrics.label_report([]) is None
