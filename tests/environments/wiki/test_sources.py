import bz2
import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from pipeline.environments.wiki import readers
from pipeline.environments.wiki.backend import Page
from pipeline.environments.wiki.kinds import mend_tokens, pages_of, recognise
from pipeline.environments.wiki.sources import open_sources, read_redirects
from pipeline.errors import EnvironmentFault

SHARED = Path(__file__).resolve().parents[3] / "../shared/data/hotpotqa"

OSLO = Page("Oslo", "Oslo is a city. It is large.")
BERGEN = Page("Bergen (Norway)", "Bergen is a town.")
OFFICIAL = [
    {"_id": "1", "context": [["Oslo", ["Oslo is a city.", " It is large."]]]},
    {"_id": "2", "context": [["Bergen (Norway)", ["Bergen is a town."]]]},
]
HUGGING_FACE = [
    {
        "id": "1",
        "context": {
            "title": ["Oslo", "Bergen (Norway)"],
            "sentences": [["Oslo is a city.", " It is large."], ["Bergen is a town."]],
        },
    }
]
ABSTRACTS = [
    {"id": 1, "title": "Oslo", "text": ["Oslo is a city.", " It is large."], "charoffset": [[[0, 4]]]},
    {"id": 2, "title": "Bergen (Norway)", "text": ["Bergen is a town."]},
]
FEVER = [
    {"id": "", "text": "", "lines": ""},
    {
        "id": "Oslo",
        "text": "Oslo is a city . It is large . ",
        "lines": "0\tOslo is a city .\n1\tIt is large .",
    },
    {"id": "Bergen_-LRB-Norway-RRB-", "text": "Bergen is a town . ", "lines": "0\tBergen is a town ."},
]
WIKIPEDIA = [
    {"id": "1", "url": "u", "title": "Oslo", "text": "Oslo is a city. It is large.\n"},
    {"id": "2", "url": "u", "title": "Bergen (Norway)", "text": "Bergen is a town."},
]


def json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def pages(*given):
    return [
        page
        for source in open_sources([str(path) for path in given])
        for record in source.records(0)
        for page in record.pages
        if page.title
    ]


def put(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def tar_of(path, members):
    with tarfile.open(path, "w:bz2") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def zip_of(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def parquet_of(path, rows):
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("indent", [None, 2])
def test_the_official_array(tmp_path, indent):
    path = put(tmp_path / "dev.json", json.dumps(OFFICIAL, indent=indent).encode())
    assert pages(path) == [OSLO, BERGEN]


@pytest.mark.parametrize("rows", [OFFICIAL, HUGGING_FACE, ABSTRACTS, FEVER, WIKIPEDIA])
def test_json_lines_of_every_kind(tmp_path, rows):
    assert pages(put(tmp_path / "rows.jsonl", json_lines(rows))) == [OSLO, BERGEN]


@pytest.mark.parametrize("rows", [HUGGING_FACE, FEVER, WIKIPEDIA])
def test_parquet(tmp_path, rows):
    assert pages(parquet_of(tmp_path / "rows.parquet", rows)) == [OSLO, BERGEN]


def test_packed_files(tmp_path):
    packed = put(tmp_path / "a.jsonl.gz", gzip.compress(json_lines(WIKIPEDIA[:1])))
    other = put(tmp_path / "b.json.bz2", bz2.compress(json.dumps(WIKIPEDIA[1:]).encode()))
    assert pages(packed, other) == [OSLO, BERGEN]


def test_the_abstracts_as_a_folder_and_as_an_archive(tmp_path):
    members = {
        "dump/AA/wiki_00.bz2": bz2.compress(json_lines(ABSTRACTS[:1])),
        "dump/AB/wiki_00.bz2": bz2.compress(json_lines(ABSTRACTS[1:])),
    }
    for name, data in members.items():
        put(tmp_path / name, data)
    put(tmp_path / "dump/AA/.hidden.bz2", b"nothing")
    assert pages(tmp_path / "dump") == [OSLO, BERGEN]
    assert pages(tar_of(tmp_path / "dump.tar.bz2", members)) == [OSLO, BERGEN]


def test_paragraphs_of_the_full_dump():
    row = {
        "title": "Oslo",
        "text": [["Oslo"], ['Oslo is a <a href="City">city</a>.', " A &lt; B."], [], ["It is large."]],
    }
    assert pages_of("abstracts", row) == [Page("Oslo", "Oslo is a city. A < B.\nIt is large.")]


def test_fever_as_an_archive(tmp_path):
    members = {
        "wiki-pages/wiki-001.jsonl": json_lines(FEVER[:2]),
        "wiki-pages/wiki-002.jsonl": json_lines(FEVER[2:]),
        "__MACOSX/wiki-pages/._wiki-001.jsonl": b"\0\1",
        "README.txt": b"read me",
    }
    assert pages(zip_of(tmp_path / "wiki-pages.zip", members)) == [OSLO, BERGEN]


def test_titles_of_fever_are_those_of_wikipedia():
    row = {"id": "Am\u0065\u0301lie_-LRB-film-RRB-_-COLON-_-LSB-x-RSB-", "text": "t", "lines": ""}
    assert pages_of("fever", row)[0].title == "Am\u00e9lie (film) : [x]"


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("Hart -LRB- born June 7 , 1970 -RRB- is an actor .", "Hart (born June 7, 1970) is an actor."),
        ("He said `` It 's fine '' , and left .", 'He said "It\'s fine", and left.'),
        (
            "They do n't know the firm 's name ; nobody does !",
            "They don't know the firm's name; nobody does!",
        ),
        ("It -LRB- -LSB- a -RSB- -RRB- grew 5 % : why ?", "It ([a]) grew 5%: why?"),
        ("1914 -- 1918", "1914 – 1918"),
        ("An .exe file and 'tis", "An .exe file and 'tis"),
    ],
)
def test_tokens_are_mended(tokens, text):
    assert mend_tokens(tokens) == text


@given(st.text(alphabet="ab .,;()'`-LRB", max_size=60))
def test_mending_keeps_every_letter(text):
    kept = [char for char in mend_tokens(text.replace("-LRB-", "(")) if char in "ab"]
    assert kept == [char for char in text.replace("-LRB-", "(") if char in "ab"]


def test_sentences_without_spaces_of_their_own_get_them():
    row = {"context": [["Oslo", ["Oslo is a city.", "It is large."]]]}
    assert pages_of("hotpotqa", row) == [OSLO]


def test_a_kind_may_be_named(tmp_path):
    path = put(tmp_path / "rows.jsonl", json_lines([{"id": "Oslo", "text": "A city ."}]))
    with pytest.raises(EnvironmentFault, match="no known kind"):
        open_sources([str(path)])
    assert pages(f"fever:{path}") == [Page("Oslo", "A city.")]


@pytest.mark.parametrize("row", [None, 3, [], {}, {"question": "q"}])
def test_what_is_of_no_kind(row):
    assert recognise(row) is None


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    entries=st.lists(st.dictionaries(st.text(max_size=3), JSON_VALUES, max_size=3), max_size=5),
    chunk=st.integers(1, 9),
    indent=st.sampled_from([None, 1]),
)
def test_an_array_is_read_whatever_the_chunks(tmp_path, monkeypatch, entries, chunk, indent):
    monkeypatch.setattr(readers, "_CHUNK", chunk)
    path = put(
        tmp_path / "a.json", json.dumps(entries, indent=indent, ensure_ascii=False).encode("utf-8", "replace")
    )
    found = [row.value() for row in readers.rows(path)]
    assert found == json.loads(path.read_bytes())
    assert [row.place for row in readers.rows(path)] == [f"entry {n + 1}" for n in range(len(entries))]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b'{"title": "A", "text": "a"}\n\n{"title": "B", "te\n', "line 3"),
        (b'{"title": "A", "text": "a"}\n[1]\n', "line 2"),
        (b'{"title": "A", "text": "a"}\n{"title": 7, "text": "b"}\n', "line 2"),
        (b'{"title": "A", "text": "a"}\n{"title": "B", "text": {"x": 1}}\n', "line 2"),
        (b'{"title": "A", "text": "a"}\n{"title": "B", "text": ["s", 4]}\n', "line 2"),
        (b'{"title": "A", "text": "a"}\n\xff\xfe\n', "line 2"),
        (b'{"title": "A", "text": "a"}\n' + b"[" * 100_000 + b"\n", "line 2"),
        (b'[{"title": "A", "text": "a"}, {"title": "B"', "entry 2"),
        (b'[{"title": "A", "text": "a"} {"title": "B"}]', "entry 2"),
    ],
)
def test_a_broken_row_is_named(tmp_path, text, place):
    path = put(tmp_path / "rows.jsonl", text)
    with pytest.raises(EnvironmentFault) as error:
        pages(path)
    assert str(path) in str(error.value)
    assert place in str(error.value)
    assert len(str(error.value)) < 600


def test_a_line_that_is_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "LONGEST", 1000)
    path = put(tmp_path / "rows.jsonl", json_lines(WIKIPEDIA) + b"x" * 5000)
    with pytest.raises(EnvironmentFault, match="line 3 is longer"):
        pages(path)


@pytest.mark.parametrize("name", ["a.jsonl.bz2", "a.jsonl.gz", "a.zip", "a.tar.bz2", "a.parquet"])
def test_a_file_that_was_cut_short(tmp_path, name):
    rows = [{"title": f"Title {n}", "text": f"{n * 7919} " * 50} for n in range(200)]
    data = json_lines(rows)
    path = tmp_path / name
    if name.endswith("parquet"):
        parquet_of(path, rows)
    elif name.endswith("zip"):
        zip_of(path, {"a.jsonl": data})
    elif name.endswith("tar.bz2"):
        tar_of(path, {"a.jsonl": data})
    else:
        path.write_bytes(bz2.compress(data) if name.endswith("bz2") else gzip.compress(data))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(EnvironmentFault, match="cannot be read"):
        pages(f"wikipedia:{path}")


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.jsonl.bz2", "a.zip", "a.tar.bz2", "a.parquet"])
def test_records_go_on_where_they_were_left(tmp_path, name):
    rows = [{"title": f"Title {n}", "text": "text"} for n in range(7)]
    path = tmp_path / name
    if name.endswith("parquet"):
        parquet_of(path, rows)
    elif name.endswith("zip"):
        zip_of(path, {"a.jsonl": json_lines(rows[:3]), "b.jsonl": json_lines(rows[3:])})
    elif name.endswith("tar.bz2"):
        tar_of(path, {"a.bz2": bz2.compress(json_lines(rows[:3])), "b.jsonl": json_lines(rows[3:])})
    elif name.endswith("bz2"):
        path.write_bytes(bz2.compress(json_lines(rows)))
    else:
        path.write_bytes(json.dumps(rows).encode() if name == "a.json" else json_lines(rows))
    (source,) = open_sources([str(path)])
    whole = list(source.records(0))
    assert len(whole) == 7
    for skip in range(8):
        assert list(source.records(skip)) == whole[skip:]
    assert [record.read for record in whole] == sorted(record.read for record in whole)
    assert whole[-1].read <= source.size


def test_files_of_a_folder_are_named_from_it_and_in_order(tmp_path):
    for name in ("b/2.jsonl", "a/1.jsonl", ".git/x.jsonl", "notes.md"):
        put(tmp_path / "data" / name, json_lines(WIKIPEDIA))
    sources = open_sources([str(tmp_path / "data")])
    assert [source.name for source in sources] == ["wikipedia:a/1.jsonl", "wikipedia:b/2.jsonl"]


def test_what_cannot_be_opened(tmp_path):
    for path, message in (
        (tmp_path / "nowhere", "does not exist"),
        (tmp_path, "holds no file"),
        (put(tmp_path / "notes.txt", b"x"), "its name ends with none of"),
    ):
        with pytest.raises(EnvironmentFault, match=message):
            open_sources([str(path)])


def test_redirects(tmp_path):
    path = put(tmp_path / "r.tsv", "Christiania\tOslo\nBj\u00f8rgvin\tBergen_-LRB-Norway-RRB-\r\n".encode())
    assert list(read_redirects(path)) == [("Christiania", "Oslo"), ("Bj\u00f8rgvin", "Bergen (Norway)")]


@pytest.mark.parametrize("line", [b"one", b"a\tb\tc", b"\tb", b"a\t ", b""])
def test_a_broken_redirect_is_named(tmp_path, line):
    path = put(tmp_path / "r.tsv", b"A\tB\n" + line + b"\n")
    with pytest.raises(EnvironmentFault, match="line 2"):
        list(read_redirects(path))


def test_redirects_that_are_no_text(tmp_path):
    with pytest.raises(EnvironmentFault, match="cannot be read"):
        list(read_redirects(put(tmp_path / "r.tsv", b"\xff\xfe\t\xff\n")))
    with pytest.raises(EnvironmentFault, match="cannot be read"):
        list(read_redirects(tmp_path / "nowhere.tsv"))


@pytest.mark.skipif(not SHARED.is_dir(), reason="no shared folder beside the repository")
def test_the_paragraphs_of_real_questions():
    found = pages(SHARED / "distractor_300.jsonl")
    assert len({page.title for page in found}) == 2958
    assert all(page.text for page in found)
    with pytest.raises(EnvironmentFault, match="no known kind"):
        open_sources([str(SHARED / "dev_simplified.json")])
