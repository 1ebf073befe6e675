import json

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.environments.wiki import records
from pipeline.environments.wiki.records import fingerprint, rows
from pipeline.errors import EnvironmentFault, FormatError

ROWS = [{"a": 1, "b": "x\u2028y"}, {"a": 2, "b": "Łódź ]"}, {"a": 3, "b": '[{"'}]


def written(path, form):
    if form == "jsonl":
        path.write_text(
            "".join(json.dumps(row, ensure_ascii=False) + "\n\n" for row in ROWS), encoding="utf-8"
        )
    elif form == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
    else:
        text = json.dumps(ROWS, indent=2 if form == "indented" else None, ensure_ascii=form == "array")
        path.write_text(text, encoding="utf-8-sig" if form == "indented" else "utf-8")
    return path


@pytest.mark.parametrize("form", ["jsonl", "parquet", "array", "indented"])
def test_the_form_is_recognised_from_the_content(tmp_path, form):
    assert [row for _, row in rows(written(tmp_path / "data.bin", form))] == ROWS


def test_a_folder_stands_for_its_files(tmp_path):
    written(tmp_path / "2.jsonl", "jsonl")
    written(tmp_path / "1.parquet", "parquet")
    (tmp_path / ".hidden").write_text("no data")
    found = list(rows(tmp_path))
    assert [row for _, row in found] == ROWS * 2
    assert found[0][0] == f"{tmp_path}/1.parquet, row 1"
    assert found[4][0] == f"{tmp_path}/2.jsonl, line 3"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}\n{"a" 2}\n', "line 2 is not JSON: Expecting ':' delimiter"),
        ('{"a": 1}\n\n[2]\n', r"line 3: \[2\] is not a JSON object"),
        ('[{"a": 1},\n {"a" 2}]', "line 2 is not JSON: Expecting ':' delimiter"),
        ('[{"a": 1},\n\n {"a": 2}', "line 3: the JSON array has 'its end' instead of ','"),
        ('[{"a": 1}\n {"a": 2}]', "line 2: the JSON array has '{' instead of ','"),
        ('[{"a": "never ends', "line 1 is not JSON: Unterminated string"),
        ("[1]", "line 1: 1 is not a JSON object"),
        ("id,question\n", "is neither JSON lines, nor a JSON array, nor parquet"),
        ("", "is neither JSON lines, nor a JSON array, nor parquet"),
        ("PAR1 is not enough", "cannot be read as parquet"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path, text, message):
    path = tmp_path / "data.txt"
    path.write_text(text)
    with pytest.raises(FormatError, match=message) as caught:
        list(rows(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b'{"a": "\xff"}\n', b'[{"a": "\xff"}]'])
def test_what_is_not_utf8(tmp_path, content):
    (tmp_path / "data").write_bytes(content)
    with pytest.raises(FormatError, match=r"(?i)utf-8"):
        list(rows(tmp_path / "data"))


def test_missing_files(tmp_path):
    with pytest.raises(EnvironmentFault, match="there is no data file at"):
        list(rows(tmp_path / "nothing.json"))
    with pytest.raises(EnvironmentFault, match="there is no data file at"):
        fingerprint(tmp_path)


def test_a_fingerprint_is_of_the_content(tmp_path):
    one, two = written(tmp_path / "one", "jsonl"), written(tmp_path / "two", "jsonl")
    assert fingerprint(one) == fingerprint(two)
    two.write_text("{}")
    assert fingerprint(one) != fingerprint(two)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.dictionaries(st.text(max_size=5), values, max_size=4), max_size=5),
    st.integers(1, 40),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_an_array_is_read_the_same_in_pieces_of_any_size(tmp_path_factory, items, size, indent, plain):
    path = tmp_path_factory.mktemp("array") / "data.json"
    path.write_text(json.dumps(items, indent=indent, ensure_ascii=plain), encoding="utf-8")
    chunk = records._CHUNK
    records._CHUNK = size
    try:
        assert [row for _, row in rows(path)] == items
    finally:
        records._CHUNK = chunk
