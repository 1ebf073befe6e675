import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.environments.wiki.titles import clean, fold, words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Łódź", "lodz"),
        ("São  Paulo", "sao paulo"),
        ("Nuku‘alofa", "nuku'alofa"),
        ("Port-au-Prince", "port au prince"),
        ("Tønsberg", "TONSBERG"),
        ("Straße", "strasse"),
        ("Rodri\u0301guez", "Rodríguez"),
    ],
)
def test_spellings_that_fall_together(one, other):
    assert fold(one) == fold(other)


def test_signs_that_tell_titles_apart_stay():
    assert len({fold(title) for title in ("C", "C++", "AT&T", "AT", "100% Love", "100 Love", "AC/DC")}) == 7


def test_pieces():
    assert words("ac/dc live") == ["ac", "dc", "live"]


def test_clean_makes_one_printable_line():
    assert clean("a\nb\x00c\u2028d\ud800e\u200b ") == "a b c d\ufffde"


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_folding_never_fails_and_folding_twice_changes_nothing(title):
    key = fold(title)
    assert fold(key) == key
    key.encode("utf-8")
