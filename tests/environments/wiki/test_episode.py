import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.environments.answers import exact_match
from pipeline.environments.wiki.backend import Page
from pipeline.environments.wiki.episode import WikiEpisode
from pipeline.environments.wiki.local import LocalWiki
from pipeline.environments.wiki.wording import QUOTED, parse_action
from pipeline.trajectories.schema import Grade
from tests.environments.cases import known_fault

LONG = "One is first. Two is next. Three comes then. Four follows. Five is last shown. Six is hidden."
WIKI = LocalWiki.build(
    [
        Page("Ann", "Ann was born in 1950. She moved to Rome. She was born again in faith."),
        Page("Long", LONG),
    ]
)


def grade(answer):
    right = exact_match(answer or "", "Rome")
    return Grade(correct=bool(right), reward=right, metrics={"em": right})


@pytest.fixture
def episode():
    return WikiEpisode(WIKI, grade, opening="Go.")


def test_known_fault_of_the_look_up_cycle(episode):
    given_case, expected = known_fault("W11")
    page = LocalWiki.build([Page("Page", given_case["page"])])
    episode = WikiEpisode(page, grade)
    episode.step("Search[Page]")
    assert [episode.step(action).text for action in given_case["actions"]] == expected


def test_known_fault_of_brackets_in_an_answer(episode):
    given_case, expected = known_fault("P17")
    action = given_case["completion"].split("Action: ")[1]
    observation = episode.step(action)
    assert observation.done
    assert episode.answer() == expected["argument"]


def test_a_search_shows_the_first_five_sentences(episode):
    assert episode.reset() == "Go."
    assert episode.step("Search[long]").text == LONG.removesuffix(" Six is hidden.")
    assert episode.step("Lookup[SIX]").text == "(Result 1 / 1) Six is hidden."


def test_a_look_up_before_any_search(episode):
    observation = episode.step("Lookup[born]")
    assert observation.invalid
    assert observation.text == "There is no page to look in: search for one first."


def test_a_miss_keeps_the_page_and_the_place_of_the_look_up(episode):
    episode.step("Search[Ann]")
    assert episode.step("Lookup[born]").text == "(Result 1 / 2) Ann was born in 1950."
    missed = episode.step("Search[Annn]")
    assert missed.text == "Could not find Annn. Similar: ['Ann']."
    assert not missed.invalid
    assert episode.step("lookup[Born]").text == "(Result 2 / 2) She was born again in faith."
    assert episode.step("Lookup[born]").text == "No more results."
    assert episode.step("Lookup[born]").text == "No more results."


def test_a_new_page_starts_a_new_look_up(episode):
    episode.step("Search[Ann]")
    episode.step("Lookup[born]")
    episode.step("Search[Ann]")
    assert episode.step("Lookup[born]").text == "(Result 1 / 2) Ann was born in 1950."


def test_the_end_tells_no_verdict_and_repeats_itself(episode):
    right = episode.step("finish [the Rome.]")
    assert (right.text, right.done, right.reward) == ("Episode finished.", True, 1.0)
    assert episode.grade() == Grade(correct=True, reward=1.0, metrics={"em": 1.0})
    again = episode.step("Search[Ann]")
    assert (again.text, again.done, again.reward) == ("Episode finished.", True, 0.0)
    wrong = WikiEpisode(WIKI, grade)
    assert wrong.step("Finish[Oslo]").text == "Episode finished."
    assert wrong.grade().reward == 0.0


def test_an_unanswered_episode_is_not_correct(episode):
    assert episode.answer() is None
    assert not episode.grade().correct
    episode.step("Finish[]")
    assert episode.answer() == ""
    assert not episode.grade().correct
    episode.close()


@pytest.mark.parametrize(
    "action", ["", "   ", "Search", "Search[", "Find[Ann]", "Search[Ann] now", "]Search[", "Rome"]
)
def test_invalid_actions_count_as_steps(episode, action):
    observation = episode.step(action)
    assert observation.invalid
    assert not observation.done
    assert observation.text.startswith("Invalid action: ")
    assert episode.steps == 1


def test_an_empty_look_up_is_invalid_and_thinking_is_polite(episode):
    episode.step("Search[Ann]")
    assert episode.step("Lookup[]").invalid
    assert episode.step("think[hm]").text == "Nice thought."


@pytest.mark.parametrize(
    ("action", "parsed"),
    [
        ("Search[Ann]", ("search", "Ann")),
        ("SEARCH [Ann].", ("search", "Ann")),
        ("finish[a [b] c]", ("finish", "a [b] c")),
        ("  lookup[x]  \nObservation: y]", ("lookup", "x")),
        ("Finish[a\nb]", None),
    ],
)
def test_reading_actions(action, parsed):
    assert parse_action(action) == parsed


def test_what_the_agent_wrote_is_quoted_on_one_short_line(episode):
    text = episode.step("Search[" + "x\x00y\u2028Observation: z\ud800" * 20_000 + "]").text
    assert "\u2028" not in text
    assert len(text) < QUOTED + 60
    text.encode("utf-8")


@settings(max_examples=200)
@given(st.lists(st.text(alphabet=st.characters(exclude_categories=[]), max_size=30), max_size=6))
def test_no_action_ever_raises(arguments):
    episode = WikiEpisode(WIKI, grade)
    for argument in arguments:
        for action in (argument, f"Search[{argument}]", f"Lookup[{argument}]"):
            observation = episode.step(action)
            observation.text.encode("utf-8")
            assert not observation.done or episode.answer() is not None
