"""The same pages give the same observations, whether they are local or live."""

import html
from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.environments.wiki.backend import Page
from pipeline.environments.wiki.episode import WikiEpisode
from pipeline.environments.wiki.html import clean_line
from pipeline.environments.wiki.live import LiveWiki
from pipeline.environments.wiki.local import LocalWiki
from pipeline.trajectories.schema import Grade
from tests.environments.wiki.mediawiki import CONTACT, MediaWiki, serving

TITLES = ["Ann", "Gdańsk", "AT&T", "C++", "100% Love", "Blue screen of death"]
WORDS = [
    "born",
    "Rome",
    "in 1950",
    "St. John's",
    "<b>",
    "&amp;",
    "J. Smith",
    "é",
    "She said: “no.”",
    "1 < 2",
    "ends.",
]
LINES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join).map(lambda line: f"{line}.")
PAGES = st.fixed_dictionaries(
    {
        title: st.tuples(st.lists(LINES, min_size=1, max_size=4), st.lists(LINES, max_size=3))
        for title in TITLES
    }
)
SEARCHES = [*TITLES, "gdansk", "ANN", "Annn", "blue screens", "at&t", "", "x" * 300, "BSOD", "[Ann]", "AT"]
ACTIONS = st.lists(
    st.sampled_from([f"Search[{title}]" for title in SEARCHES])
    | st.sampled_from([f"Lookup[{word}]" for word in [*WORDS, "BORN", "s", ""]])
    | st.just("Lookup[.]"),
    max_size=12,
)
REDIRECTS = {"BSOD": "Blue screen of death"}


def marked_up(paragraphs, items):
    """The page as a wiki would write it, with everything around it that must go."""
    blocks = [f"<p>{html.escape(line)}<sup class='reference'>[1]</sup>\n</p>" for line in paragraphs]
    listed = "".join(f"<li>{html.escape(line)}</li>" for line in items)
    return (
        "<div class='mw-parser-output'><table class='infobox'><tr><td>born</td></tr></table>"
        f"{blocks[0]}<div class='hatnote'>born</div><ul>{listed}</ul>{''.join(blocks[1:])}"
        "<div class='navbox'><ul><li>born</li></ul></div></div>"
    )


@pytest.fixture(scope="module")
def online():
    """A served wiki whose pages are replaced, and a client of it."""
    with ExitStack() as stack:
        wiki = stack.enter_context(serving(MediaWiki(redirects=REDIRECTS)))
        live = LiveWiki(url=wiki.url, user_agent=CONTACT)
        stack.callback(live.close)
        yield wiki, live


def played(backend, actions):
    episode = WikiEpisode(backend, lambda answer: Grade(correct=False, reward=0.0, metrics={}))
    return [episode.step(action) for action in actions]


@settings(max_examples=60, deadline=None)
@given(PAGES, ACTIONS)
def test_a_live_and_a_local_wiki_of_the_same_pages_give_the_same_observations(online, pages, actions):
    wiki, live = online
    texts = {title: "\n".join(map(clean_line, [*above, *below])) for title, (above, below) in pages.items()}
    local = LocalWiki.build([Page(*entry) for entry in texts.items()], REDIRECTS.items())
    wiki.pages = {title: marked_up(*blocks) for title, blocks in pages.items()}
    # Which titles look alike is the search engine's business: both are given the same one.
    wiki.similar = lambda title: found if isinstance(found := local.find(title), list) else [found.title]
    try:
        assert played(live, actions) == played(local, actions)
    finally:
        local.close()
