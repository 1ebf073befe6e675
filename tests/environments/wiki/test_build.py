import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.environments.wiki import build, index, store
from pipeline.environments.wiki.backend import Page
from pipeline.environments.wiki.build import Record, build_from_sources
from pipeline.environments.wiki.local import LocalWiki
from pipeline.environments.wiki.sources import open_sources
from pipeline.errors import EnvironmentFault


class Source:
    """Pages of a list, some in each record."""

    def __init__(self, name, pages, each=3):
        self.name, self.size = name, len(pages)
        self.rows = [
            Record(pages[at : at + each], min(at + each, len(pages))) for at in range(0, len(pages), each)
        ]

    def records(self, skip):
        return iter(self.rows[skip:])


def made(name, count, first=0):
    return Source(
        name, [Page(f"Title {n} of {name[0]}", f"Text {n}. " * 40) for n in range(first, first + count)]
    )


ONE = made("a", 40)
TWO = Source(
    "b", [Page("Title 3 of a", "Another text."), Page("", "x"), Page("Empty", ""), Page("New", "It is.")]
)
REDIRECTS = [
    ("Third", "Title 3 of a"),
    ("New", "Title 3 of a"),
    ("Nowhere", "No such page"),
    ("Newer", "New"),
]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    monkeypatch.setattr(build, "BATCH", 7)
    monkeypatch.setattr(index, "COMMIT", 10)


def content(folder):
    """Everything that a wiki's folder says."""
    connection = sqlite3.connect(folder / store.PAGES)
    tables = {
        name: connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()
        for name in ("pages", "redirects")
    }
    connection.close()
    wiki = LocalWiki.open(folder)
    answers = [
        wiki.find(title) for title in ("title 3 of a", "Third", "Titl 3", "of a", "new er", "Titel of")
    ]
    version = wiki.version
    wiki.close()
    return tables, answers, version


def test_pages_of_all_sources_the_first_of_a_title_counting(tmp_path):
    state = build_from_sources(tmp_path / "wiki", [ONE, TWO], REDIRECTS)
    assert (state.pages, state.repeated, state.empty) == (41, 1, 2)
    assert (state.redirects, state.dropped, state.indexed) == (2, 2, 41)
    wiki = LocalWiki.open(tmp_path / "wiki")
    assert wiki.find("Title 3 of a") == ONE.rows[1].pages[0]
    assert wiki.find("newer") == Page("New", "It is.")
    assert isinstance(wiki.find("Nowhere"), list)
    wiki.close()
    assert [path.name for path in tmp_path.iterdir()] == ["wiki"]
    assert sorted(path.name for path in (tmp_path / "wiki").iterdir()) == ["pages.sqlite", "titles"]


def test_it_says_the_same_as_a_wiki_in_memory(tmp_path):
    build_from_sources(tmp_path / "wiki", [ONE], REDIRECTS)
    pages = [page for row in ONE.rows for page in row.pages]
    memory, folder = LocalWiki.build(pages, REDIRECTS), LocalWiki.open(tmp_path / "wiki")
    for title in (
        "Title 1 of a",
        "TITLE 3 of a",
        "third",
        "Titl 30",
        "of a title",
        "Tilte 4",
        "",
        "17 title",
    ):
        assert memory.find(title) == folder.find(title)
    memory.close()
    folder.close()


class Killed(BaseException):
    pass


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stops=st.lists(st.integers(1, 12), min_size=1, max_size=4))
def test_a_build_that_was_killed_ends_as_if_it_never_was(tmp_path_factory, stops):
    folder = tmp_path_factory.mktemp("killed")
    build_from_sources(folder / "whole", [ONE, TWO], REDIRECTS)
    for stop in stops:
        reports = iter(range(stop))

        def report(_, reports=reports):
            if next(reports, None) is None:
                raise Killed

        try:
            build_from_sources(folder / "wiki", [ONE, TWO], REDIRECTS, report=report)
        except Killed:
            assert not (folder / "wiki").exists()
        else:
            break
    else:
        build_from_sources(folder / "wiki", [ONE, TWO], REDIRECTS)
    assert content(folder / "wiki") == content(folder / "whole")


def test_a_build_that_goes_on_reads_nothing_twice(tmp_path):
    class Counting(Source):
        skipped = ()

        def records(self, skip):
            self.skipped = (*self.skipped, skip)
            return super().records(skip)

    source = Counting("a", [page for row in ONE.rows for page in row.pages])
    states = []

    def report(state):
        states.append(state)
        if state.pages >= 18:
            raise Killed

    with pytest.raises(Killed):
        build_from_sources(tmp_path / "wiki", [source], report=report)
    build_from_sources(tmp_path / "wiki", [source], report=states.append)
    assert source.skipped == (0, states[-1].pages and 6)
    assert [state.pages for state in states] == sorted(state.pages for state in states)
    assert states[-1].read == source.size


def test_a_process_killed_for_good_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "BATCH", 500)
    monkeypatch.setattr(index, "COMMIT", 25_000)
    rows = "".join(json.dumps({"title": f"Title {n}", "text": f"Text {n}."}) + "\n" for n in range(60_000))
    (tmp_path / "rows.jsonl").write_text(rows)
    code = (
        "import sys; from pathlib import Path; from pipeline.environments.wiki import build, sources\n"
        "build.BATCH = 500\n"
        "build.build_from_sources(Path(sys.argv[1]), sources.open_sources([sys.argv[2]]))"
    )
    command = [sys.executable, "-c", code, tmp_path / "wiki", tmp_path / "rows.jsonl"]
    running = subprocess.Popen(command)
    database = tmp_path / "wiki.partial" / "pages.sqlite-wal"
    while running.poll() is None and not (database.exists() and database.stat().st_size > 300_000):
        time.sleep(0.005)
    os.kill(running.pid, signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    assert not (tmp_path / "wiki").exists()
    first = []
    sources = open_sources([str(tmp_path / "rows.jsonl")])
    build_from_sources(tmp_path / "wiki", sources, report=first.append)
    assert 0 < first[0].pages < 60_000
    assert first[-1].pages == first[-1].indexed == 60_000
    build_from_sources(tmp_path / "again", sources)
    wikis = [LocalWiki.open(tmp_path / name) for name in ("wiki", "again")]
    assert wikis[0].version == wikis[1].version
    assert wikis[0].find("titel 4711") == wikis[1].find("titel 4711")
    for wiki in wikis:
        wiki.close()


def test_a_limit_is_of_pages_read(tmp_path):
    for limit in (1, 7, 10, 41):
        state = build_from_sources(tmp_path / f"w{limit}", [ONE, TWO], limit=limit)
        assert state.pages + state.repeated + state.empty == limit


def test_a_build_of_other_sources_is_not_gone_on_with(tmp_path):
    def stop(state):
        if state.pages:
            raise Killed

    with pytest.raises(Killed):
        build_from_sources(tmp_path / "wiki", [ONE], report=stop)
    for sources, limit in (([TWO], None), ([ONE], 9)):
        with pytest.raises(EnvironmentFault, match="was begun from other sources"):
            build_from_sources(tmp_path / "wiki", sources, limit=limit)


def test_the_version_follows_the_pages_and_redirects(tmp_path):
    versions = set()
    other = made("a", 41)
    for name, sources, redirects in (
        ("1", [ONE], []),
        ("2", [other], []),
        ("3", [ONE], REDIRECTS),
        ("4", [ONE], [("x", "Title 3 of a")]),
    ):
        build_from_sources(tmp_path / name, sources, redirects)
        wiki = LocalWiki.open(tmp_path / name)
        versions.add(wiki.version)
        wiki.close()
    assert len(versions) == 4


def test_sources_without_a_page(tmp_path):
    with pytest.raises(EnvironmentFault, match="hold no page"):
        build_from_sources(tmp_path / "wiki", [Source("a", [])])


def test_a_folder_that_is_there(tmp_path):
    with pytest.raises(EnvironmentFault, match="exists already"):
        build_from_sources(tmp_path, [ONE])


def test_two_builds_at_once(tmp_path):
    def report(state):
        if state.phase == "titles" and not state.indexed:
            with pytest.raises(EnvironmentFault, match="another process is building it"):
                build_from_sources(tmp_path / "wiki", [ONE])

    build_from_sources(tmp_path / "wiki", [ONE], report=report)


def test_a_full_disk(tmp_path, monkeypatch):
    create = store.create

    def small(path):
        connection = create(path)
        connection.execute("PRAGMA max_page_count = 8")
        return connection

    monkeypatch.setattr(store, "create", small)
    source = made("a", 2000)
    with pytest.raises(EnvironmentFault, match=r"disk is full.*kept in wiki\.partial.*same command again"):
        build_from_sources(tmp_path / "wiki", [source])
    monkeypatch.undo()
    states = []
    build_from_sources(tmp_path / "wiki", [source], report=states.append)
    assert states[0].pages > 0
    assert states[-1].pages == 2000


def test_a_damaged_partial_build(tmp_path):
    (tmp_path / "wiki.partial").mkdir()
    (tmp_path / "wiki.partial" / "pages.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(EnvironmentFault, match="not a database"):
        build_from_sources(tmp_path / "wiki", [ONE])


def test_a_wiki_in_a_read_only_folder(tmp_path):
    build_from_sources(tmp_path / "wiki", [ONE])
    for path in ((tmp_path / "wiki"), *(tmp_path / "wiki").rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    wiki = LocalWiki.open(tmp_path / "wiki")
    assert isinstance(wiki.find("Title 3 of a"), Page)
    assert isinstance(wiki.find("Titel 3"), list)
    wiki.close()
    for path in ((tmp_path / "wiki"), (tmp_path / "wiki" / "titles")):
        path.chmod(0o755)


@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=600))
def test_any_text_is_kept_but_for_what_no_page_shows(text):
    kept = store.unpack(store.pack(text))
    assert len(kept) == len(text)
    assert all(new in (old, " ") for old, new in zip(text, kept, strict=True))
    assert not any(0xD800 <= ord(char) < 0xE000 or char == "\0" for char in kept)


def test_long_texts_are_compressed():
    text = "It is a city in the north. " * 100
    assert len(store.pack(text)) < len(text) / 5
    assert store.unpack(store.pack(text)) == text
