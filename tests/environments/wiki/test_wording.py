"""The published wording to the letter: all that is expected is derived by hand from specs, section 1.1."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.environments.answers import exact_match
from pipeline.environments.wiki.backend import Meanings, Page
from pipeline.environments.wiki.episode import WikiEpisode
from pipeline.environments.wiki.local import LocalWiki
from pipeline.environments.wiki.wording import wording_named
from pipeline.errors import RecipeError
from pipeline.trajectories.schema import Grade

ISLAND = "\n".join(
    [
        "Tern Island",  # two words: dropped
        "Tern Island lies off Norway. It has a lighthouse. Nobody lives there.",
        "  The lighthouse was built in 1903. It burned down. A new Lighthouse shines since 1950.  ",
        "See also",
    ]
)
# Paragraphs are cut at ". " and each piece gets a stop, so that the last of a paragraph has two.
ISLAND_SHOWN = (
    "Tern Island lies off Norway. It has a lighthouse. Nobody lives there.."
    " The lighthouse was built in 1903. It burned down."
)
ISLAND_HITS = [
    "(Result 1 / 3) It has a lighthouse.",
    "(Result 2 / 3) The lighthouse was built in 1903.",
    "(Result 3 / 3) A new Lighthouse shines since 1950..",
]
MANY = ["Tern", "Arctic tern", "Little tern", "Tern Isle", "Ternopil", "Ternate"]


class Shelf:
    """A wiki whose answers are written down."""

    version = "1"

    def __init__(self, answers):
        self.answers = answers
        self.asked = []

    def find(self, title):
        self.asked.append(title)
        return self.answers.get(title, MANY[:2])

    def close(self):
        pass


ANSWERS = {
    "Tern Island": Page("Tern Island", ISLAND),
    "Short": Page("Short", "One sentence is all"),
    "terns": MANY,
    "Mercury": Page("Mercury", "Mercury may refer to:\nMercury (planet), the first planet\nOther uses"),
    "[Mercury]": ["Mercury (planet)", "Freddie Mercury's voice"],
    "Loop": Page("Loop", "Loop may refer to:"),
    "[Loop]": Page("Loop", "It may refer to: nothing"),
    "[[Loop]]": Page("Loop", "It may refer to: nothing"),
    "nothing": [],
    "Escaped": Page(
        "Escaped", "It has \\x41 in it. Its sign is \\xc3\\xa9 here.\nThe path C:\\users\\u00e9 breaks it."
    ),
}


def grade(answer):
    official = exact_match(answer or "", "The Rome", "official")
    return Grade(correct=False, reward=0.0, metrics={"em_official": official})


def episode():
    return WikiEpisode(Shelf(ANSWERS), grade, wording=wording_named("react2022"))


TABLE = {
    "hit": [("Search[Tern Island]", ISLAND_SHOWN)],
    "hit of one sentence": [("search[Short]", "One sentence is all.")],
    "miss": [
        ("Search[Atlantis]", "Could not find Atlantis. Similar: ['Tern', 'Arctic tern']."),
        # The argument is not stripped.
        ("Search[ Atlantis ]", "Could not find  Atlantis . Similar: ['Tern', 'Arctic tern']."),
    ],
    "miss with more than five titles": [
        (
            "Search[terns]",
            "Could not find terns. Similar: ['Tern', 'Arctic tern', 'Little tern', 'Tern Isle', 'Ternopil'].",
        )
    ],
    "disambiguation": [
        (
            "Search[Mercury]",
            "Could not find [Mercury]. Similar: ['Mercury (planet)', \"Freddie Mercury's voice\"].",
        )
    ],
    "look-up cycle": [
        ("Search[Tern Island]", ISLAND_SHOWN),
        *[("Lookup[lighthouse]", hit) for hit in ISLAND_HITS],
        ("Lookup[lighthouse]", "No more results.\n"),
        ("Lookup[lighthouse]", "No more results.\n"),
    ],
    "repeated keyword after another, and in another case": [
        ("Search[Tern Island]", ISLAND_SHOWN),
        ("Lookup[lighthouse]", ISLAND_HITS[0]),
        ("Lookup[Norway]", "(Result 1 / 1) Tern Island lies off Norway."),
        ("Lookup[lighthouse]", ISLAND_HITS[0]),
        ("Lookup[lighthouse]", ISLAND_HITS[1]),
        ("Lookup[LIGHTHOUSE]", ISLAND_HITS[0]),
    ],
    "a miss and a disambiguation keep the page and the place of the look-up": [
        ("Search[Tern Island]", ISLAND_SHOWN),
        ("Lookup[lighthouse]", ISLAND_HITS[0]),
        ("Search[Atlantis]", "Could not find Atlantis. Similar: ['Tern', 'Arctic tern']."),
        ("Lookup[lighthouse]", ISLAND_HITS[1]),
    ],
    "a hit clears the look-up": [
        ("Search[Tern Island]", ISLAND_SHOWN),
        ("Lookup[lighthouse]", ISLAND_HITS[0]),
        ("Search[Tern Island]", ISLAND_SHOWN),
        ("Lookup[lighthouse]", ISLAND_HITS[0]),
    ],
    "no page": [("Lookup[lighthouse]", "No more results.\n")],
    "empty keyword": [
        ("Search[Short]", "One sentence is all."),
        ("Lookup[]", "(Result 1 / 1) One sentence is all."),
    ],
    "no hit at all": [
        ("Search[nothing]", "There were no results matching the query.."),
        ("Lookup[results]", "(Result 1 / 1) There were no results matching the query.."),
    ],
    "right": [("Finish[rome]", "Episode finished, reward = 1\n")],
    "wrong, and after the end": [
        ("Finish[Oslo]", "Episode finished, reward = 0\n"),
        ("Search[Tern Island]", "Episode finished, reward = 0\n"),
    ],
    "thought": [("Think[hm]", "Nice thought.")],
    "invalid": [
        ("Jump[x]", "Invalid action: jump[x]"),
        ("SEARCH[x]", "Invalid action: sEARCH[x]"),
        ("Search [x]", "Invalid action: search [x]"),
        ("  Search[x]. ", "Invalid action: search[x]."),
        ("Rome", "Invalid action: rome"),
        ("", "Invalid action: "),
    ],
}


@pytest.mark.parametrize("name", TABLE)
def test_observations_to_the_letter(name):
    playing = episode()
    for number, (action, expected) in enumerate(TABLE[name], start=1):
        assert playing.step(action).text == expected, action
        assert playing.steps == (number if playing.answer() is None else 1)


def test_the_page_is_asked_for_again_in_brackets_but_not_for_ever():
    shelf = Shelf(ANSWERS)
    playing = WikiEpisode(shelf, grade, wording=wording_named("react2022"))
    playing.step("Search[Loop]")
    assert shelf.asked == ["Loop", "[Loop]", "[[Loop]]"]


def test_escapes_are_decoded_where_that_is_possible():
    # The second paragraph would end the published environment's run.
    assert episode().step("Search[Escaped]").text == (
        "It has A in it. Its sign is é here.. The path C:\\users\\u00e9 breaks it.."
    )


def test_openings():
    assert wording_named("react2022").opening("Claim", "All is well.") == "Claim: All is well."
    assert wording_named("default").opening("Claim", "All is well.") == ""


def test_unknown_wordings_are_refused():
    with pytest.raises(RecipeError, match="'react' is not a wording; known are: default, react2022"):
        wording_named("react")


def test_the_official_score_decides_what_is_told():
    def claims(answer):
        return Grade(correct=True, reward=1.0, metrics={"accuracy": 1.0, "accuracy_official": 0.0})

    playing = WikiEpisode(Shelf(ANSWERS), claims, wording=wording_named("react2022"))
    seen = playing.step("Finish[NEI]")
    assert (seen.text, seen.reward) == ("Episode finished, reward = 0\n", 1.0)
    plain = WikiEpisode(Shelf({}), lambda _: Grade(reward=1.0), wording=wording_named("react2022"))
    assert plain.step("Finish[x]").text == "Episode finished, reward = 1\n"


@settings(max_examples=150)
@given(st.lists(st.text(alphabet=st.characters(exclude_categories=[]), max_size=30), max_size=6))
def test_no_action_ever_raises(arguments):
    playing = episode()
    for argument in arguments:
        for action in (argument, f"Search[{argument}]", f"Lookup[{argument}]"):
            assert isinstance(playing.step(action).text, str)


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_any_page_can_be_read(text):
    for sentence in wording_named("react2022").sentences(text):
        assert sentence.endswith(".")
        assert ". " not in sentence


def test_an_ambiguous_title_of_a_real_wiki_is_searched_again_in_brackets():
    pages = [Page("Mercury (planet)", "It orbits."), Page("Mercury (element)", "It is a metal.")]
    redirects = [("Mercury", "Mercury (planet)"), ("Mercury", "Mercury (element)")]
    wiki = LocalWiki.build(pages, redirects)
    assert wiki.find("mercury") == ["Mercury (planet)", "Mercury (element)"]
    assert isinstance(wiki.find("mercury"), Meanings)
    published = WikiEpisode(wiki, lambda _: Grade(), wording=wording_named("react2022"))
    published.reset()
    shown = published.step("Search[Mercury]").text
    assert shown.startswith("Could not find [Mercury]. Similar: ['Mercury (")
    ours = WikiEpisode(wiki, lambda _: Grade())
    ours.reset()
    assert ours.step("Search[Mercury]").text == (
        "Could not find Mercury. Similar: ['Mercury (planet)', 'Mercury (element)']."
    )
