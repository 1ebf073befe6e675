"""Disambiguation pages, titles that fall together, threads, and how a wiki is stored."""

import sqlite3
import threading

import pytest

from pipeline.environments.wiki import store
from pipeline.environments.wiki.backend import Page
from pipeline.environments.wiki.local import LocalWiki
from pipeline.errors import EnvironmentFault

PAGES = [
    Page(
        "Mercury",
        "Mercury most commonly refers to:\nMercury (planet), the planet nearest the Sun\n"
        "* Mercury (element) – a metal\nMercury may also refer to:\nA line that names no page\n"
        "Freddie Mercury (1946–1991), singer\nMercury\nMercury, Nevada, a town\n"
        "Hg (symbol): a symbol\nToo many",
    ),
    Page("Mercury (planet)", "A planet."),
    Page("Mercury (element)", "A metal."),
    Page("Freddie Mercury", "A singer."),
    Page("Mercury, Nevada", "A town."),
    Page("Hg (symbol)", "A symbol."),
    Page("Too many", "One more."),
    Page("Pluto", "Pluto may refer to:"),
    Page("Pluto (dog)", "A dog."),
    Page("Essay", "An essay.\nIn law, may refer to: nothing."),
    Page("US", "A country."),
    Page("Us", "A film."),
    Page("Line\u2028title\ud800", "Odd\x00 text\ud800."),
    Page("Long", "A long text. " * 400),
]


@pytest.fixture(scope="module")
def wiki():
    wiki = LocalWiki.build(PAGES, [("Quicksilver", "Mercury (element)"), ("Mercurius", "Mercury")])
    yield wiki
    wiki.close()


def test_a_disambiguation_page_answers_with_what_it_lists(wiki):
    listed = ["Mercury (planet)", "Mercury (element)", "Freddie Mercury", "Mercury, Nevada", "Hg (symbol)"]
    assert wiki.find("Mercury") == wiki.find("mercury") == wiki.find("Mercurius") == listed


def test_a_disambiguation_page_without_a_list_answers_with_similar_titles(wiki):
    assert wiki.find("Pluto") == ["Pluto (dog)"]


def test_only_a_first_line_makes_a_page_ambiguous(wiki):
    assert wiki.find("Essay") == Page("Essay", "An essay.\nIn law, may refer to: nothing.")


def test_titles_that_fall_together(wiki):
    assert wiki.find("US").text == "A country."
    assert wiki.find("Us").text == "A film."
    assert wiki.find("us") == wiki.find("uS") == ["US", "Us"]


def test_a_title_and_a_text_of_odd_characters(wiki):
    assert wiki.find("line title\ufffd") == Page("Line title\ufffd", "Odd  text .")


def test_a_long_text_is_whole(wiki):
    assert wiki.find("long") == PAGES[-1]


def test_many_threads(wiki):
    titles = ["Mercury", "mercury element", "Quicksilver", "Plto", "US", "long", "xyz"] * 10
    expected = [wiki.find(title) for title in titles]
    found = []
    threads = [
        threading.Thread(target=lambda: found.append([wiki.find(t) for t in titles])) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_a_damaged_text_is_said_to_be(tmp_path):
    LocalWiki.build(PAGES, folder=tmp_path / "wiki").close()
    connection = sqlite3.connect(tmp_path / "wiki" / store.PAGES)
    connection.execute("UPDATE pages SET text = x'00112233' WHERE title = 'Long'")
    connection.commit()
    connection.close()
    wiki = LocalWiki.open(tmp_path / "wiki")
    with pytest.raises(EnvironmentFault, match="is damaged"):
        wiki.find("Long")
    wiki.close()
