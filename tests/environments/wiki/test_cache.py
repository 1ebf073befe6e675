import hashlib
import json
import multiprocessing
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.environments.wiki.backend import Page
from pipeline.environments.wiki.cache import AnswerCache, DamagedEntry
from pipeline.errors import EnvironmentFault

URL = "https://en.wikipedia.org/w/api.php"
TEXT = st.text(max_size=30)


@pytest.fixture
def cache(tmp_path):
    return AnswerCache(tmp_path / "cache", URL)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXT, st.builds(Page, TEXT, TEXT) | st.lists(TEXT, max_size=5))
def test_what_is_recorded_comes_back(cache, title, found):
    cache.put(title, found)
    assert cache.get(title) == found
    assert AnswerCache(cache.folder, URL).get(title) == found


def test_nothing_is_there_before_it_is_recorded(cache):
    assert cache.get("Ann") is None
    assert not cache.folder.exists()


def test_titles_and_wikis_are_kept_apart(cache):
    german = AnswerCache(cache.folder, "https://de.wikipedia.org/w/api.php")
    cache.put("Ann", Page("Ann", "English."))
    assert german.get("Ann") is None
    german.put("Ann", ["Anna"])
    assert cache.get("Ann") == Page("Ann", "English.")
    assert cache.get("ann") is None


def test_a_title_is_never_a_path(cache, tmp_path):
    for title in ("../../x", "/etc/passwd", "a" * 5000, "\x00", ""):
        cache.put(title, [title])
        assert cache.get(title) == [title]
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def change(path, **fields):
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **fields}))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-20]),
        lambda path: path.write_bytes(b"[" * 100_000),
        lambda path: path.write_bytes(b"\xff\xfe\x00"),
        lambda path: path.write_text("[]"),
        lambda path: path.write_text("null"),
        lambda path: path.write_text("{}"),
        lambda path: change(path, title="Bob"),
        lambda path: change(path, answer={"title": "Ann", "text": "changed"}),
        lambda path: change(path, answer=7),
        lambda path: change(path, answer=7, sha256=hashlib.sha256(b"7").hexdigest()),
        lambda path: (path.unlink(), path.mkdir()),
    ],
    ids=range(12),
)
def test_damage_is_seen_and_named(cache, spoil):
    cache.put("Ann", Page("Ann", "Born in 1950."))
    spoil(cache.path("Ann"))
    with pytest.raises(DamagedEntry, match=r"\.json is damaged: delete it"):
        cache.get("Ann")


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(EnvironmentFault, match="cannot be recorded"):
        AnswerCache(tmp_path / "file", URL).put("Ann", [])


def write_often(folder, number):
    for turn in range(20):
        AnswerCache(folder, URL).put("Ann", Page("Ann", f"{number} {turn} " * 500))


def test_writers_in_threads_and_processes_never_tear_an_answer(cache):
    cache.put("Ann", Page("Ann", "first " * 500))
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=write_often, args=(cache.folder, 0)),
        threading.Thread(target=write_often, args=(cache.folder, 1)),
        threading.Thread(target=write_often, args=(cache.folder, 2)),
    ]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert len(set(cache.get("Ann").text.split())) <= 2
    for writer in writers:
        writer.join()
    assert sum(path.is_file() for path in cache.folder.rglob("*")) == 1
