from hypothesis import given
from hypothesis import strategies as st

from pipeline.models.transformers_text import TextStream
from tests.models.transformers_tiny import byte_tokenizer

TOKENIZER = byte_tokenizer()


def feed(text, stops=(), prompt="Q:"):
    ids = TOKENIZER(text, add_special_tokens=False).input_ids
    stream = TextStream(TOKENIZER, TOKENIZER(prompt).input_ids[-1], stops)
    for index, token in enumerate(ids):
        if stream.push(token):
            return stream.finish(), index + 1
    return stream.finish(), None


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_a_stream_writes_what_decoding_at_once_writes(text):
    assert feed(text)[0] == TOKENIZER.decode(TOKENIZER(text).input_ids).rstrip("\ufffd")


@given(st.text("ab\n", max_size=40), st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3))
def test_text_ends_before_the_stop_that_is_complete_first(text, stops):
    ends = [place + len(stop) for stop in stops if (place := text.find(stop)) >= 0]
    found, taken = feed(text, stops)
    if not ends:
        assert (found, taken) == (text, None)
    else:
        assert taken == min(ends)
        complete = [stop for stop in stops if text[:taken].endswith(stop)]
        assert found == text[: taken - max(map(len, complete))]


def test_a_stop_may_straddle_tokens_and_leaves_no_trace():
    text, taken = feed("Search[x]\nObservation 1: y", ["\nObservation"])
    assert text == "Search[x]"
    assert taken == len("Search[x]\nObservation")


def test_a_part_of_a_stop_at_the_end_stays():
    assert feed("Search[x]\nObserv", ["\nObservation"]) == ("Search[x]\nObserv", None)


def test_half_a_character_is_left_out_and_bad_bytes_do_not_stall():
    ids = TOKENIZER("né日").input_ids
    stream = TextStream(TOKENIZER, ids[0], [])
    for token in ids[:-1]:
        stream.push(token)
    assert stream.text == "né"
    assert stream.finish() == "né"
    lone = TOKENIZER("é").input_ids[1]
    stream = TextStream(TOKENIZER, ids[0], ["ab"])
    assert not any(stream.push(token) for token in [lone] * 9)
    assert [stream.push(token) for token in TOKENIZER("ab").input_ids] == [False, True]
    assert set(stream.finish()) == {"\ufffd"}


def test_control_tokens_are_no_text():
    stream = TextStream(TOKENIZER, 1, ["<mark>"])
    assert not stream.push(TOKENIZER.convert_tokens_to_ids("<mark>"))
    assert stream.finish() == ""
