from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import StoreError
from pipeline.trajectories import files
from tests.rollout.faults import fault
from tests.trajectories.making import room_for

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | ANY_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner),
    max_leaves=8,
)


@given(ANY_TEXT)
def test_cleaning_joins_pairs_and_replaces_what_is_alone(text: str) -> None:
    def join(pair: re.Match[str]) -> str:
        high, low = (ord(character) for character in pair[0])
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))

    joined = re.sub("[\ud800-\udbff][\udc00-\udfff]", join, text)
    assert files.clean_text(text) == re.sub("[\ud800-\udfff]", "\ufffd", joined)


@given(rows=st.lists(VALUES, max_size=4))
def test_rows_come_back(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    assert files.write_jsonl(path, rows) == len(rows)
    assert path.read_bytes().count(b"\n") == len(rows)
    assert list(files.read_jsonl(path)) == [json.loads(files.to_json(row)) for row in rows]


def test_non_ascii_is_kept_and_lines_end_at_the_line_feed_only(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    texts = ["a\u2028b\u2029c\x85d\x0be", "\u00e9\u4e16", "\ud800\r"]
    files.write_jsonl(path, [{"text": text} for text in texts])
    raw = path.read_bytes().decode()
    assert "a\u2028b\u2029c\x85d" in raw
    assert "\u00e9\u4e16" in raw
    assert [row["text"] for row in files.read_jsonl(path)] == [*texts[:2], "\ufffd\r"]


def test_published_lines_are_read_whole(tmp_path: Path) -> None:
    case = fault("X01")
    path = tmp_path / "rows.jsonl"
    path.write_bytes("\n".join([*case["input"]["jsonl_lines_raw"], ""]).encode())
    rows = list(files.read_jsonl(path))
    assert len(rows) == case["expected"]["rows"]
    assert [row["t"] for row in rows] == case["expected"]["values"]


@pytest.mark.parametrize("broken", ['{"a": 1', "nope", "[" * 100_000, '"\xff"'])
def test_a_broken_line_is_named(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n\n' + broken.encode("latin-1") + b"\n")
    rows = files.read_jsonl(path)
    assert next(rows) == {"a": 1}
    with pytest.raises(StoreError, match=r"rows\.jsonl, line 3 is not JSON"):
        next(rows)


def test_json_files(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "value.json"
    files.write_json(path, {"b": "\u2028", "a": [1]})
    assert files.read_json(path) == {"b": "\u2028", "a": [1]}
    path.write_text("{")
    with pytest.raises(StoreError, match="is not JSON"):
        files.read_json(path)
    with pytest.raises(StoreError, match="No such file"):
        files.read_json(tmp_path / "absent")
    with pytest.raises(StoreError, match="No such file"):
        list(files.read_lines(tmp_path / "absent"))


@pytest.mark.parametrize("value", [float("nan"), object(), {"a": {1, 2}}])
def test_what_json_cannot_say_is_refused(value: Any) -> None:
    with pytest.raises(StoreError, match="cannot be written as JSON"):
        files.to_json(value)


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "value.txt"
    files.write_text(path, "old")
    with room_for(1000), pytest.raises(StoreError, match=r"value\.txt cannot be written: File too large"):
        files.write_text(path, "x" * 100_000)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_rows_that_fail_half_way_leave_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    files.write_jsonl(path, [1])

    def rows() -> Iterator[int]:
        yield 2
        raise KeyError("three")

    with pytest.raises(KeyError):
        files.write_jsonl(path, rows())
    assert path.read_text() == "1\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        files.write_text(tmp_path / "file" / "x", "text")


def test_files_are_as_readable_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.write_text(tmp_path / "x", "text")
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640
