from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.models.transformers_attention import KeyValues
from pipeline.models.transformers_rows import PrefixCache, Rows


def test_a_session_keeps_its_common_ids_but_leaves_one_to_compute():
    rows = Rows(1024)
    row = rows.acquire("a", None, [1, 2, 3, 4], 10)
    assert row is not None
    assert row.ids == []
    row.ids.extend([1, 2, 3, 4, 5])
    rows.release(row)
    again = rows.acquire("a", None, [1, 2, 3, 9, 9], 10)
    assert again is row
    assert again.ids == [1, 2, 3]
    rows.release(again)
    whole = rows.acquire("a", None, [1, 2, 3], 10)
    assert whole is not None
    assert whole.ids == [1, 2]


def test_another_prefix_is_another_cache():
    rows, prefixes = Rows(1024), PrefixCache(100)
    prefix, new = prefixes.get([7, 8], lambda ids: KeyValues(1, 2))
    assert new
    row = rows.acquire("a", None, [1, 2], 4)
    row.ids.extend([1, 2])
    rows.release(row)
    other = rows.acquire("a", prefix, [1, 2], 4)
    assert other is not row
    assert other.ids == []


def test_a_busy_session_and_no_session_get_rows_of_their_own():
    rows = Rows(4096)
    first, second = rows.acquire("a", None, [1], 4), rows.acquire("a", None, [1], 4)
    third = rows.acquire("", None, [1], 4)
    assert len({first.index, second.index, third.index}) == 3
    third.ids.append(1)
    rows.release(third)
    assert third.ids == []


def test_the_least_recently_used_idle_row_goes_first_and_busy_ones_never():
    rows = Rows(3 * 64)
    held = [rows.acquire(name, None, [1, 2], 4) for name in "abc"]
    for row in held:
        row.ids.extend([1, 2])
    assert rows.acquire("d", None, [1, 2], 4) is None
    rows.release(held[1])
    rows.release(held[0])
    taken = rows.acquire("d", None, [1, 2], 4)
    assert taken is held[1] or taken is held[0]
    assert taken.ids == []
    assert held[2].busy
    assert held[2].session == "c"


def test_a_long_sequence_makes_idle_rows_go_and_waits_for_busy_ones():
    rows = Rows(4 * 64)
    held = [rows.acquire(name, None, [1, 2], 4) for name in "abcd"]
    for row in held[1:]:
        rows.release(row)
    assert rows.acquire("long", None, list(range(200)), 200) is None
    rows.release(held[0])
    row = rows.acquire("long", None, list(range(200)), 200)
    assert row is not None
    assert rows.store.capacity >= 200
    assert rows.store.rows >= 1


def test_one_sequence_is_let_in_however_long():
    rows = Rows(64)
    assert rows.acquire("", None, [1], 10_000) is not None


def test_forgetting_frees_idle_rows_now_and_busy_ones_when_released():
    rows = Rows(1024)
    row = rows.acquire("a", None, [1, 2], 4)
    row.ids.extend([1, 2])
    rows.forget("a")
    assert row.ids == [1, 2]
    rows.release(row)
    assert row.ids == []
    row = rows.acquire("b", None, [1, 2], 4)
    row.ids.extend([1, 2])
    rows.release(row)
    rows.forget("b")
    assert row.ids == []


def test_prefixes_are_kept_up_to_a_number_of_tokens():
    cache, made = PrefixCache(5), []

    def compute(ids):
        made.append(tuple(ids))
        return KeyValues(1, len(ids))

    for ids in ([1, 2], [3, 4], [1, 2], [5, 6], [1, 2], [3, 4]):
        cache.get(ids, compute)
    assert made == [(1, 2), (3, 4), (5, 6), (3, 4)]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["", "a", "b", "c"]), st.integers(1, 150), st.booleans()), max_size=25
    ),
    st.sampled_from([64, 200, 600]),
)
def test_rows_never_overlap_and_always_have_room(wishes, limit):
    rows, busy = Rows(limit), []
    for session, need, release in wishes:
        row = rows.acquire(session, None, list(range(need)), need)
        if row is not None:
            row.ids.extend(range(len(row.ids), need))
            busy.append(row)
        assert len({other.index for other in busy}) == len(busy)
        assert all(other.index < rows.store.rows for other in busy)
        assert all(len(other.ids) <= rows.store.capacity for other in busy)
        assert len(busy) <= 1 or len(busy) * max(len(other.ids) for other in busy) <= limit
        if release and busy:
            rows.release(busy.pop(0))
