"""The title index: what it finds, and that it finds the same however it was built."""

import random
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from pipeline.environments.wiki import index
from pipeline.environments.wiki.index import TitleIndex
from pipeline.environments.wiki.spelling import edits, nearest
from pipeline.environments.wiki.titles import fold
from pipeline.errors import EnvironmentFault

TITLES = [
    "Barack Obama",
    "Michelle Obama",
    "Obama",
    "Barrack (building)",
    "John Smith",
    "John Smith (politician)",
    "Jon Smit",
    "Spider-Man",
    "Gdańsk",
    "Valencia",
    "Valencia (Spain)",
    "1984",
    "1985",
    "Of",
    "Capital of Peru",
    "+++",
]


def built(titles, folder=None):
    made = TitleIndex.create(folder)
    made.add((fold(title), title, number) for number, title in enumerate(titles, start=1))
    return made


@pytest.fixture(scope="module")
def titles():
    return built(TITLES)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("barack obama president", "Barack Obama"),
        ("barrack obama", "Barack Obama"),
        ("obama barack", "Barack Obama"),
        ("obamma", "Obama"),
        ("jhon smith", "John Smith"),
        ("spiderman", "Spider-Man"),
        ("gdnask", "Gdańsk"),
        ("valenciano", "Valencia"),
        ("capital of lima peru", "Capital of Peru"),
    ],
)
def test_the_most_alike_comes_first(titles, query, first):
    assert titles.similar(query)[0] == first


def test_a_number_is_not_mended(titles):
    assert titles.similar("1986") == []


def test_words_that_no_title_is_like(titles):
    assert titles.similar("zzyzx qqqq") == titles.similar("") == titles.similar("((") == []


LETTERS = st.text(alphabet="abcd", min_size=3, max_size=7)


@given(LETTERS, LETTERS)
def test_edits_are_the_words_at_a_distance_of_one(one, other):
    assert (other in edits(one)) == (OSA.distance(one, other) == 1)


@pytest.mark.parametrize("word", ["", "a", "ab", "1984", "x" * 33])
def test_words_that_are_not_mended(word):
    assert edits(word) == []
    assert nearest(word, lambda _: [("abc", 1)]) == []


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(alphabet="abc ", min_size=1, max_size=8), max_size=12), LETTERS)
def test_what_is_named_exists_once(names, query):
    found = built(names).similar(fold(query))
    assert len(found) == len(set(found)) <= 5
    assert set(found) <= set(names)


def test_the_same_is_found_whatever_the_segments(tmp_path, monkeypatch):
    draw = random.Random(4)
    words = ["".join(draw.choices("aeioulnrst", k=draw.randrange(2, 7))) for _ in range(300)]
    names = list(dict.fromkeys(" ".join(draw.choices(words, k=draw.randrange(1, 4))) for _ in range(3000)))
    queries = [
        " ".join(draw.choices(words, k=draw.randrange(1, 4))) + draw.choice(("", "x")) for _ in range(300)
    ]
    answers = []
    for commit in (10_000, 997, 101):
        monkeypatch.setattr(index, "COMMIT", commit)
        (tmp_path / str(commit)).mkdir()
        made = built(names, tmp_path / str(commit))
        answers.append([made.similar(query) for query in queries])
        answers.append([TitleIndex.open(tmp_path / str(commit)).similar(query) for query in queries[:50]])
    assert answers[0] == answers[2] == answers[4]
    assert answers[0][:50] == answers[1] == answers[3] == answers[5]


def test_an_index_is_added_to_where_it_ended(tmp_path):
    rows = [(fold(title), title, number) for number, title in enumerate(TITLES, start=1)]
    first = TitleIndex.create(tmp_path)
    first.add(rows[:5])
    second = TitleIndex.create(tmp_path)
    assert second.size == 5
    sizes = []
    second.add(rows[5:], sizes.append)
    assert sizes == [len(TITLES)]
    assert second.similar("valenciano")[0] == "Valencia"


def test_many_threads_are_answered_the_same(titles):
    queries = ["barrack obama", "jhon smith", "valenciano", "gdnask"] * 20
    expected = [titles.similar(query) for query in queries]
    found = {}

    def ask(number):
        found[number] = [titles.similar(query) for query in queries]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[number] == expected for number in range(4))


def test_a_folder_without_an_index(tmp_path):
    with pytest.raises(EnvironmentFault, match="title index"):
        TitleIndex.open(tmp_path)
