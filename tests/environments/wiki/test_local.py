import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.environments.wiki.backend import Page
from pipeline.environments.wiki.local import LocalWiki
from pipeline.errors import EnvironmentFault
from tests.environments.cases import known_fault

PAGES = [
    Page("Blue screen of death", "A screen. It is blue."),
    Page("BSD", "A system."),
    Page("AT&T", "A firm."),
    Page("C++", "A language."),
    Page("#MeToo", "A movement."),
    Page("R&B singer", "A singer."),
    Page("100% Love", "A film."),
    Page("AC/DC", "A band."),
    Page("Gdańsk", "A city."),
    Page("Valencia (Spain)", "A city."),
    Page("Valencia (Venezuela)", "Another city."),
]
REDIRECTS = [
    ("BSOD", "Blue screen of death"),
    ("Danzig", "Gdańsk"),
    ("Valencia", "Valencia (Spain)"),
    ("Valencia", "Valencia (Venezuela)"),
    ("BSD", "AC/DC"),
    ("Nowhere", "No such page"),
]


@pytest.fixture(scope="module")
def wiki():
    wiki = LocalWiki.build(PAGES, REDIRECTS, version="7")
    yield wiki
    wiki.close()


def test_known_fault_of_redirects(wiki):
    given_case, expected = known_fault("W02")
    title = given_case["action"].removeprefix("Search[").removesuffix("]")
    assert wiki.find(title).title == expected["page"]


def test_known_fault_of_signs_in_titles(wiki):
    given_case, _ = known_fault("W04")
    assert [wiki.find(entity).title for entity in given_case["entities"]] == given_case["entities"]


@pytest.mark.parametrize("title", ["Gdańsk", "gdansk", " GDANSK ", "Danzig", "Gda\u0144sk", "Gdan\u0301sk"])
def test_a_page_by_any_of_its_titles(wiki, title):
    assert wiki.find(title) == Page("Gdańsk", "A city.")


def test_an_ambiguous_title_gives_what_it_may_mean(wiki):
    assert wiki.find("valencia") == ["Valencia (Spain)", "Valencia (Venezuela)"]


def test_a_redirect_never_hides_a_page_and_a_dead_one_leads_nowhere(wiki):
    assert wiki.find("BSD").title == "BSD"
    assert isinstance(wiki.find("Nowhere"), list)


def test_similar_titles_come_best_first(wiki):
    assert wiki.find("Gdnask")[0] == "Gdańsk"
    assert wiki.find("blue screens of the dead")[0] == "Blue screen of death"
    assert set(wiki.find("Valencia city")[:2]) == {"Valencia (Spain)", "Valencia (Venezuela)"}


def test_no_words_no_titles(wiki):
    assert wiki.find("") == wiki.find(" \x00 ") == wiki.find("((") == []


@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=50))
def test_any_string_may_be_searched(title):
    found = SHARED_WIKI.find(title)
    assert isinstance(found, Page) or len(found) <= 5


SHARED_WIKI = LocalWiki.build(PAGES, REDIRECTS)


@pytest.mark.parametrize(
    "title",
    [
        "x" * 100_000,
        "ab " * 40_000,
        "\ud800\udfff",
        "AND OR NOT",
        'title:"a" [b TO c}',
        "*",
        "a'; DROP TABLE pages; --",
    ],
)
def test_hostile_titles_give_a_list(wiki, title):
    assert isinstance(wiki.find(title), list)


def test_in_a_folder_it_answers_the_same(wiki, tmp_path):
    folder = tmp_path / "wiki"
    with_folder = LocalWiki.build(PAGES, REDIRECTS, version="7", folder=folder)
    opened = LocalWiki.open(folder)
    for title in ("BSOD", "Valencia", "Gdnask", "", "ac dc live"):
        assert with_folder.find(title) == opened.find(title) == wiki.find(title)
    assert opened.version == "7"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["wiki"]
    opened.close()
    with_folder.close()


def test_a_folder_is_never_overwritten(tmp_path):
    with pytest.raises(EnvironmentFault, match="exists already"):
        LocalWiki.build(PAGES, folder=tmp_path)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(EnvironmentFault, match="cannot be written"):
        LocalWiki.build(PAGES, folder=tmp_path / "file" / "wiki")


def test_a_folder_without_a_wiki(tmp_path):
    with pytest.raises(EnvironmentFault, match="holds no wiki"):
        LocalWiki.open(tmp_path)


def test_a_damaged_wiki(tmp_path):
    (tmp_path / "pages.sqlite").write_bytes(b"this is no database at all" * 100)
    with pytest.raises(EnvironmentFault, match="cannot be read"):
        LocalWiki.open(tmp_path)


def test_a_wiki_without_its_title_index(tmp_path):
    folder = tmp_path / "wiki"
    LocalWiki.build(PAGES, folder=folder).close()
    for path in (folder / "titles").iterdir():
        path.unlink()
    wiki = LocalWiki.open(folder)
    assert wiki.find("BSD").title == "BSD"
    with pytest.raises(EnvironmentFault, match="title index"):
        wiki.find("Gdnask")
    wiki.close()
    with pytest.raises(EnvironmentFault, match="cannot be read"):
        wiki.find("BSD")


def test_a_wiki_of_another_format(tmp_path, monkeypatch):
    folder = tmp_path / "wiki"
    monkeypatch.setattr("pipeline.environments.wiki.store.FORMAT", "0")
    LocalWiki.build(PAGES, folder=folder).close()
    monkeypatch.undo()
    with pytest.raises(EnvironmentFault, match="another wiki format"):
        LocalWiki.open(folder)
