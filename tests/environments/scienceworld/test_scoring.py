from hypothesis import given
from hypothesis import strategies as st

from pipeline.environments.scienceworld.scoring import grade, strict
from tests.environments.cases import known_fault


@given(st.integers(-100, 100), st.integers(-100, 100))
def test_only_a_hundred_points_are_correct(points, best):
    verdict = grade(points, best)
    assert verdict.correct == (points == 100)
    assert verdict.reward == verdict.metrics["score"] == strict(points) == max(points, 0) / 100
    assert verdict.metrics["score_published"] * 100 == points or abs(points) % 100


def test_a_wrong_focus_is_no_success():
    given, expected = known_fault("E10")
    points = given["step_result"]["score"]
    verdict = grade(points, given["best_score_so_far"])
    assert verdict.correct is expected["success"] is False
    assert verdict.metrics["score_published"] * 100 == expected["final_score"]
    assert verdict.metrics["score"] * 100 == expected["reported_0_100"]
    assert verdict.metrics["score_best"] * 100 == expected["best_score"]
