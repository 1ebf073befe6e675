import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.environments.wiki.gist import content_words, gist
from pipeline.environments.wiki.titles import plain_title


@pytest.mark.parametrize(
    ("sentence", "keep", "words", "expected"),
    [
        ("Ann was born in 1950.", "Rome", 9, "Ann was born in 1950."),
        ("Ann (Arabic: x ; born 1950) is a singer.", "singer", 9, "Ann is a singer."),
        ("Ann (born in Rome) is a singer.", "rome", 9, "Ann (born in Rome) is a singer."),
        ("One, two, three, four, five.", "two", 3, "One, two, three…"),
        ("One two three four five six seven eight.", "seven", 4, "…five six seven eight."),
        ("One two three four five six seven eight.", "five six", 4, "…five six seven eight."),
        ("One two three four five six seven eight.", "six", 2, "…six seven…"),
    ],
)
def test_sentences_in_few_words(sentence, keep, words, expected):
    assert gist(sentence, keep, words) == expected


@given(
    st.lists(st.text("abc(),", min_size=1, max_size=4), max_size=40),
    st.text("abc", max_size=3),
    st.integers(1, 30),
)
def test_a_gist_has_no_more_words_than_it_may_and_none_of_its_own(pieces, keep, words):
    sentence = " ".join(pieces)
    found = gist(sentence, keep, words).split()
    assert len(found) <= words
    letters = {char for piece in found for char in piece if char != "…"}
    assert letters <= set(sentence)


def test_words_that_carry_meaning():
    assert content_words("The city of Łódź is the city's 2nd; it was in Rock-'n'-Roll!") == [
        "city",
        "Łódź",
        "city's",
        "2nd",
        "Rock-'n'-Roll",
    ]


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Soul_Food_-LRB-film-RRB-", "Soul Food (film)"),
        ("Star_Trek-COLON-_Discovery", "Star Trek: Discovery"),
        ("X_-LSB-y-RSB-", "X [y]"),
        ("Pedro_Rodri\u0301guez", "Pedro Rodríguez"),
        ("X&amp;Y", "X&Y"),
        ("Waiter: &quot;You Vultures!&quot;", 'Waiter: "You Vultures!"'),
        ("AT&T; a firm", "AT&T; a firm"),
        ("R&copy", "R&copy"),
        ("a\nb\x00&#10;c", "a b c"),
    ],
)
def test_titles_as_wikipedia_writes_them(title, expected):
    assert plain_title(title) == expected
