import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.environments.answers import LABELS, best, claim_label, exact_match, f1, first_line, normalise
from tests.environments.cases import known_fault


@pytest.mark.parametrize("identity", ["M01", "M05", "M11", "M14"])
def test_known_faults_of_the_metrics(identity):
    given_case, expected = known_fault(identity)
    assert exact_match(given_case["prediction"], given_case["gold"]) == expected["em"]
    if "f1" in expected:
        assert f1(given_case["prediction"], given_case["gold"]) == expected["f1"]


def test_known_fault_of_claim_labels():
    given_case, expected = known_fault("M17")
    found = [int(claim_label(text) == given_case["gold"]) for text in given_case["predictions"]]
    assert found == expected["correct"]


def test_official_mode_keeps_the_published_faults():
    assert exact_match("", "The The", "official") == 1.0
    assert f1("", "The The", "official") == 0.0
    assert exact_match("Pedro Rodri\u0301guez", "Pedro Rodríguez", "official") == 0.0
    assert f1("Pedro Rodri\u0301guez", "Pedro Rodríguez", "official") == 0.5
    assert f1("10\n\nPassage: The 2011 census", "10", "official") == pytest.approx(0.4)
    assert f1("yes 42 miles", "no", "official") == 0.0


def test_answers_of_articles_and_punctuation_alone():
    assert exact_match("The The", "The The") == 1.0
    assert f1("The The", "The The") == 1.0
    assert exact_match("The", "The The") == 0.0
    assert exact_match("?", "?") == 1.0
    assert exact_match("?", "!") == 0.0
    assert exact_match("  \n ", "") == 0.0


def test_values_by_hand():
    # 2 common tokens, 3 predicted, 2 wanted: precision 2/3, recall 1, F1 4/5.
    assert f1("the big Milan city", "Milan city") == pytest.approx(0.8)
    assert f1("Rome", "Milan") == 0.0
    # One common token of two each.
    assert f1("red red", "red blue") == 0.5
    assert exact_match("The Beatles.", "beatles") == 1.0
    assert exact_match("Pedro Rodriguez", "Pedro Rodríguez") == 0.0
    assert exact_match("yes", "no") == f1("yes", "no") == 0.0
    assert f1("no it is not", "no") == 0.0
    assert normalise("  A tale of THE U.S.-city, an end ") == "tale of uscity end"


def test_best_takes_the_best_gold_and_none_is_never_right():
    assert best(exact_match, "UK", ["United Kingdom", "UK"]) == 1.0
    assert best(f1, "united", ["Kingdom", "United Kingdom"]) == pytest.approx(2 / 3)
    assert best(f1, "anything", []) == 0.0


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("SUPPORTS", "SUPPORTS"),
        ("supported.", "SUPPORTS"),
        (" Refuted!", "REFUTES"),
        ("REFUTES\nThought: more", "REFUTES"),
        ("Not-Enough Information", "NOT ENOUGH INFO"),
        ("true", None),
        ("", None),
        ("SUPPORTS or REFUTES", None),
    ],
)
def test_claim_labels(text, label):
    assert claim_label(text) == label


def test_labels_map_to_themselves():
    assert [claim_label(label) for label in LABELS] == list(LABELS)


@given(st.text(), st.text())
def test_metrics_are_symmetric_in_single_lines_bounded_and_ordered(one, other):
    one, other = first_line(one), first_line(other)
    assert f1(one, other) == f1(other, one)
    assert 0.0 <= f1(one, other) <= 1.0
    assert exact_match(one, other) <= f1(one, other)


@given(st.text())
def test_an_answer_matches_itself_unless_it_is_blank(text):
    line = first_line(text)
    assert exact_match(line, line) == float(bool(line))
    assert exact_match("", text) == exact_match(" \n", text) == 0.0


@given(st.text())
def test_normalising_twice_changes_nothing(text):
    once = normalise(text)
    assert normalise(once) == once
