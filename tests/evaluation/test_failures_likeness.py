"""Texts compared leniently, and what that says of a wrong answer."""

from decimal import Decimal
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.evaluation.ambiguity import EXTRA_WORDS, ambiguity
from pipeline.evaluation.likeness import as_date, as_number, occurs, plain
from pipeline.trajectories.schema import Task


def task_of(*gold: str) -> Task:
    return Task(id="q", environment="e", split="test", instruction="What?", gold=list(gold))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3,000", "3000"),
        ("3000", "3000"),
        ("3 thousand", "3000"),
        ("$2.5 million", "2500000"),
        ("2,500,000.0", "2500000"),
        ("Twenty-one", "21"),
        ("twelve", "12"),
        ("two million", "2000000"),
        ("-4", "-4"),
    ],
)
def test_numbers_in_their_forms(text, number):
    assert as_number(text) == Decimal(number)


@pytest.mark.parametrize(
    "text", ["", "Paris", "3 apples", "1,00", "twenty thirty", "1990s", "9" * 100, "one zero"]
)
def test_no_numbers(text):
    assert as_number(text) is None


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("5 June 1990", (1990, 6, 5)),
        ("June 5, 1990", (1990, 6, 5)),
        ("Jun. 5th, 1990", (1990, 6, 5)),
        ("the 5th of June, 1990", (1990, 6, 5)),
        ("1990-06-05", (1990, 6, 5)),
        ("May 1990", (1990, 5, None)),
        ("5 Sept", (None, 9, 5)),
    ],
)
def test_dates_in_their_forms(text, date):
    assert as_date(text) == date


@pytest.mark.parametrize(
    "text", ["", "May", "05/06/1990", "1990", "June July 1990", "5 June or 1990 x", "mayor 5"]
)
def test_no_dates(text):
    assert as_date(text) is None


@pytest.mark.parametrize(
    ("phrase", "text", "found"),
    [
        ("Paris", "He lived in Paris.", True),
        ("Paris", "He was a Parisian.", False),
        ("U.S.", "in the US army", True),
        ("Anglo Saxon", "an Anglo-Saxon king", True),
        ("Rene Descartes", "René Descartes was", True),
        ("1,234", "some 1234 people", True),
        ("The Beatles", "Beatles sang", True),
        ("The The", "a band, The The, from", True),
        ("The The", "the band", False),
        ("北京", "中国的首都是北京市", True),
        ("", "anything", False),
    ],
)
def test_phrases_are_found_as_words(phrase, text, found):
    assert occurs(phrase, text) is found


@given(st.text(), st.text())
def test_comparing_never_raises(one, other):
    occurs(one, other)
    as_number(one)
    as_date(one)
    ambiguity(one, task_of(other))
    assert plain(plain(one)) == plain(one)


@pytest.mark.parametrize(
    ("answer", "gold", "reason"),
    [
        ("the", "The The", "official"),
        ("Pedro Rodriguez", "Pedro Rodríguez", "accents"),
        ("Anglo Saxon", "Anglo-Saxon", "accents"),
        ("3000", "3 thousand", "number"),
        ("twelve", "12", "number"),
        ("June 5, 1990", "5 June 1990", "date"),
        ("Paris, France", "Paris", "contains"),
        ("Smith", "John Smith", "contains"),
        ("yes, both are", "yes", "contains"),
        ("John Quincy X Adams", "John Quincy Adams", "F1"),
        ("SUPPORTS the claim", "SUPPORTS", "contains"),
    ],
)
def test_answers_that_say_the_same(answer, gold, reason):
    assert reason in ambiguity(answer, task_of(gold))


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("", "The The"),
        ("?!", "Paris"),
        ("London", "Paris"),
        ("University of Cambridge", "University of Oxford"),
        ("yes 42 miles is farther than 9 miles", "no"),
        ("no", "yes"),
        ("yes and no", "yes"),
        ("know", "no"),
        ("1991", "1990"),
        ("Paris " + "or Rome " * EXTRA_WORDS, "Paris"),
        ("REFUTES", "SUPPORTS"),
        ("SUPPORTS or REFUTES", "SUPPORTS"),
    ],
)
def test_answers_that_do_not(answer, gold):
    assert ambiguity(answer, task_of(gold)) == ""


def test_the_order_of_accepted_answers_does_not_matter():
    golds = ["3 thousand", "Three Thousand People", "3,000 souls", "Rome"]
    assert len({ambiguity("3000", task_of(*order)) for order in permutations(golds)}) == 1
