import time

from hypothesis import given
from hypothesis import strategies as st

from pipeline.environments.wiki.sentences import split_sentences
from tests.environments.cases import known_fault


def test_known_fault_of_lost_spaces():
    given_case, expected = known_fault("W08")
    assert split_sentences(given_case["extract"]) == expected["sentences"]


def test_ends_of_sentences():
    text = 'One is here. Is it? "Yes." And (so it goes.) Then\nnew paragraph without stop\n\n  Last one!'
    assert split_sentences(text) == [
        "One is here.",
        "Is it?",
        '"Yes."',
        "And (so it goes.)",
        "Then.",
        "new paragraph without stop.",
        "Last one!",
    ]


def test_what_does_not_end_a_sentence():
    text = (
        "St. John's lies near Mt. Pearl, 3.5 km off. J. R. R. Tolkien used .uk and the U.S. mail, i.e. post."
    )
    assert split_sentences(text) == [
        "St. John's lies near Mt. Pearl, 3.5 km off.",
        "J. R. R. Tolkien used .uk and the U.S. mail, i.e. post.",
    ]


def test_no_stop_is_ever_doubled():
    assert split_sentences("She was born again in faith.\nWait...") == [
        "She was born again in faith.",
        "Wait...",
    ]


@given(st.text())
def test_nothing_but_space_is_lost(text):
    joined = "".join(split_sentences(text))
    kept = [char for char in joined if char != "." and not char.isspace()]
    assert kept == [char for char in text if char != "." and not char.isspace()]


def test_a_page_of_short_forms_takes_time_in_proportion_to_its_length():
    started = time.process_time()
    assert len(split_sentences("St. " * 50_000)) == 1
    assert time.process_time() - started < 2
