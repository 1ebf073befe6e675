from hypothesis import given
from hypothesis import strategies as st

from pipeline.environments.scienceworld.scoring import grade, points
from tests.environments.cases import known_fault


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_only_a_hundred_points_are_correct(last, best):
    verdict = grade(last, best)
    said = points(last)
    assert abs(said - 100 * last) <= 0.5
    assert verdict.correct == (said == 100)
    assert verdict.reward == verdict.metrics["score"] == max(said, 0) / 100
    assert verdict.metrics["score_published"] == said / 100


def test_a_wrong_focus_is_no_success():
    given, expected = known_fault("E10")
    verdict = grade(given["step_result"]["score"] / 100, given["best_score_so_far"] / 100)
    assert verdict.correct is expected["success"] is False
    assert verdict.metrics["score_published"] * 100 == expected["final_score"]
    assert verdict.metrics["score"] * 100 == expected["reported_0_100"]
    assert verdict.metrics["score_best"] * 100 == expected["best_score"]
