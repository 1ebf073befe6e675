from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.trajectories.text import printable

ANY = st.text(st.characters() | st.characters(categories=["Cs", "Cc", "Zl"]))


@given(ANY)
def test_what_is_shown_is_one_line_that_utf_8_holds_and_nothing_moves(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text) and len(shown.splitlines()) <= 1
    assert shown.encode() and "\x1b" not in shown if shown else not text
    assert all(after in (before, " ") for before, after in zip(text, shown, strict=True))
    assert printable(shown) == shown


def test_letters_of_every_script_stay() -> None:
    assert printable("Tromsø 東京 🙂") == "Tromsø 東京 🙂"
    assert printable("a\x1b[31m\u2028b\nc\ud800\u202e") == "a [31m b c  "
