import statistics

import pytest

from pipeline.environments.atlas.environment import load_wiki
from pipeline.environments.atlas.pages import pages, redirects
from pipeline.environments.atlas.wording import amount, listing
from pipeline.environments.atlas.world import load_world
from pipeline.environments.wiki.sentences import split_sentences


@pytest.fixture(scope="module")
def world():
    return load_world()


def test_every_page_is_found_by_its_title(world):
    wiki = load_wiki()
    every = list(pages(world))
    assert len(every) > 3000
    assert len({page.title for page in every}) == len(every)
    assert all(wiki.find(page.title) == page for page in every)


def test_pages_are_short_sentences(world):
    lengths = []
    for page in pages(world):
        sentences = split_sentences(page.text)
        assert 3 <= len(sentences) <= 7, page
        assert " ".join(sentences) == page.text
        lengths.append(len(" ".join(sentences[:5]).split()))
    assert statistics.mean(lengths) < 45


def test_redirects_lead_to_pages(world):
    titles = {page.title for page in pages(world)}
    assert {target for _, target in redirects(world)} <= titles


def test_other_titles_and_ambiguous_ones():
    wiki = load_wiki()
    for title, page in {
        "USA": "United States",
        "gdansk": "Gdańsk",
        "Holland": "Netherlands",
        "the netherlands": "Netherlands",
        "Aluminium": "Aluminum",
        "Hf": "Hafnium",
        "Coster": "Dirk Coster",
        "PLN": "Polish zloty",
        "Polish": "Polish language",
        "London": "London",
    }.items():
        assert wiki.find(title).title == page
    assert wiki.find("Barcelona") == ["Barcelona (Spain)", "Barcelona (Venezuela)"]
    assert wiki.find("Congo") == ["Democratic Republic of the Congo", "Republic of the Congo"]
    assert wiki.find("Korea") == ["North Korea", "South Korea"]


def test_a_country_a_city_and_an_element_in_words():
    wiki = load_wiki()
    assert wiki.find("Netherlands").text == (
        "The Netherlands is a country in Western Europe with 17.2 million people. Its capital is Amsterdam. "
        "Its currency is the euro. Its main language is Dutch. It borders Belgium and Germany. "
        "It covers an area of 41,850 square kilometres. "
        "Its internet domain is .nl and its calling code is +31."
    )
    assert "Its latitude is 54.4 degrees north." in wiki.find("Gdańsk").text
    assert "Warsaw is the capital of Poland." in wiki.find("Warsaw").text
    assert "It was discovered in Denmark in 1923. Its discoverers were Dirk Coster and George de Hevesy." in (
        wiki.find("Hafnium").text
    )


def test_amounts_and_lists():
    assert [amount(n) for n in (820, 999, 1_499, 461_400, 999_499, 999_500, 2_345_000, 1_411_778_724)] == [
        "820",
        "999",
        "1 thousand",
        "461 thousand",
        "999 thousand",
        "1.0 million",
        "2.3 million",
        "1.4 billion",
    ]
    assert [listing(items) for items in (["A"], ["A", "B"], ["A", "B", "C"])] == [
        "A",
        "A and B",
        "A, B and C",
    ]
