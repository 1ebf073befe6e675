"""Every sign on an episode made by hand, in both wordings of the wiki."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.environments.wiki.backend import Page
from pipeline.environments.wiki.episode import WikiEpisode
from pipeline.environments.wiki.wording import wording_named
from pipeline.evaluation.evidence import FLAGS, gather
from pipeline.trajectories.schema import Grade, Outcome, Step, Task, Trajectory
from tests.evaluation.builders import episode, make_task

QUESTION = "In which city was Ada born?"
PAGES = {
    "Ada": "Ada Novak (born 5 June 1990) is a Czech painter. She was born in the city of Brno.",
    "Brno": "Brno is a city in the Czech Republic. It has some 400,000 inhabitants.",
}


class Pages:
    version = "1"

    def find(self, title):
        if title in PAGES:
            return Page(title, PAGES[title])
        return [] if title == "zzz" else sorted(PAGES)


def play(wording, *actions, gold="Brno", method="react", outcome=None, **fields):
    """An episode played for real: what it observes is the wiki's own wording."""
    task = Task(id="q", environment="e", split="test", instruction=QUESTION, gold=[gold])
    named = wording_named(wording)

    def grader(answer):
        return Grade(correct=answer == gold, reward=float(answer == gold))

    world = WikiEpisode(Pages(), grader, named.opening("Question", QUESTION), wording=named)
    opening = world.reset()
    seen = [world.step(action) for action in actions]
    steps = [
        Step(action=action, observation=one.text, invalid=one.invalid)
        for action, one in zip(actions, seen, strict=True)
    ]
    ended = bool(seen) and seen[-1].done
    return Trajectory(
        id="t",
        task=task,
        method=method,
        model="m",
        opening=opening,
        steps=steps,
        outcome=outcome or (Outcome.FINISHED if ended else Outcome.STEP_LIMIT),
        answer=world.answer(),
        grade=world.grade(),
        **fields,
    )


def signs(trajectory):
    return {finding.flag: finding.steps for finding in gather(trajectory).findings}


both = pytest.mark.parametrize("wording", ["default", "react2022"])


@both
def test_a_good_episode_shows_nothing(wording):
    found = gather(play(wording, "Search[Ada]", "Lookup[born]", "Finish[Brno]"))
    assert found.findings == []
    assert (found.verdict, found.support, found.looks, found.missed) == ("right", "supported", 2, 0)


@both
def test_the_same_again_at_once_is_a_loop(wording):
    assert signs(play(wording, "Search[Ada]", "search[Ada]", "Finish[Brno]")) == {"repeated_loop": [2]}


@both
def test_a_cycle_is_a_loop(wording):
    cycle = ["Search[Ada]", "Search[Brno]"]
    assert signs(play(wording, *cycle, *cycle, "Finish[Brno]")) == {"repeated_loop": [3, 4]}


@both
def test_to_open_a_page_again_is_none(wording):
    assert (
        signs(play(wording, "Search[Ada]", "Search[Brno]", "Search[Ada]", "Lookup[city]", "Finish[Brno]"))
        == {}
    )


@both
def test_the_same_three_times_is_a_loop_whatever_is_between(wording):
    actions = ["Search[Ada]", "Search[Brno]", "Search[Ada]", "Lookup[city]", "Search[Ada]", "Finish[Brno]"]
    assert signs(play(wording, *actions)) == {"repeated_loop": [3, 5]}


@both
def test_the_next_hit_of_a_lookup_is_no_loop(wording):
    # "Ada" and "is" stand in two sentences each; the third time there are no more.
    found = play(wording, "Search[Brno]", "Lookup[i]", "Lookup[i]", "Search[Ada]", "Finish[Brno]")
    assert signs(found) == {}
    stuck = play(wording, "Search[Brno]", "Lookup[i]", "Lookup[i]", "Lookup[i]", "Lookup[i]", "Finish[Brno]")
    assert signs(stuck)["repeated_loop"] == [5]


def test_unreadable_steps_are_no_actions():
    steps = [Step(action="", observation="Invalid action.", invalid=True)] * 3
    made = episode(make_task(1), outcome=Outcome.FORMAT_ERROR, metrics={}, steps=steps)
    assert signs(made) == {"unfinished": [3]}
    assert gather(made).looks == 0


@both
@pytest.mark.parametrize("miss", ["Search[Adah]", "Search[zzz]", "Lookup[x]", "Fly[there]"])
def test_each_kind_of_search_that_tells_nothing(wording, miss):
    found = gather(play(wording, miss, "Search[Ada]", "Finish[Brno]"))
    assert (found.looks, found.missed) == (2, 1)
    assert {finding.flag: finding.steps for finding in found.findings} == {"uninformative_search": [1]}


@both
def test_one_miss_of_three_is_no_sign(wording):
    found = gather(play(wording, "Search[Adah]", "Search[Ada]", "Search[Brno]", "Finish[Brno]"))
    assert (found.looks, found.missed, found.findings) == (3, 1, [])


@pytest.mark.parametrize("text", ["", " \n", "\\n"])
def test_an_empty_page_tells_nothing(text):
    steps = [
        Step(action="Search[x]", observation=text),
        Step(action="Finish[Paris]", observation="Episode finished."),
    ]
    assert signs(episode(make_task(1), "Paris", steps=steps))["uninformative_search"] == [1]


@both
def test_an_answer_that_nobody_saw(wording):
    wrong = play(wording, "Search[Ada]", "Finish[Prague]")
    assert signs(wrong) == {"unsupported_answer": [2]}
    right = gather(play(wording, "Search[Adah]", "Search[Brno]", "Finish[Ostrava]", gold="Ostrava"))
    assert right.suspect
    assert "unsupported_answer" in right.flags


@both
def test_neither_question_nor_ones_own_words_are_observed(wording):
    # The wiki repeats what was asked for, and the published opening repeats the question.
    echoed = play(wording, "Search[Prague]", "Search[Prague's castle]", "Fly[Prague]", "Finish[Prague]")
    assert "unsupported_answer" in signs(echoed)
    asked = play(wording, "Search[Brno]", "Finish[Ada]")
    assert "unsupported_answer" in signs(asked)


@both
def test_titles_that_a_miss_names_are_observed(wording):
    assert gather(play(wording, "Search[Adah]", "Finish[Brno]")).support == "supported"


@both
@pytest.mark.parametrize("answer", ["June 5, 1990", "a Czech painter in Brno, the city", "painter, czech"])
def test_long_answers_and_dates_may_be_put_otherwise(wording, answer):
    found = gather(play(wording, "Search[Ada]", f"Finish[{answer}]"))
    assert found.support == ("unsupported" if answer == "painter, czech" else "supported")


@both
@pytest.mark.parametrize("gold", ["yes", "No", "SUPPORTS", "NOT ENOUGH INFO"])
def test_labels_are_not_looked_for(wording, gold):
    found = gather(play(wording, "Search[Ada]", f"Finish[{gold}]", gold=gold))
    assert (found.support, found.findings) == ("closed", [])


@pytest.mark.parametrize(
    "fields",
    [
        {"method": "cot"},
        {"method": "standard"},
        {"method": "cot_sc"},
        {"method": "mine", "settings": {"max_steps": 1}},
    ],
)
def test_methods_that_answer_at_once_are_not_judged(fields):
    found = gather(play("default", "Finish[Prague]", **fields))
    assert (found.support, found.findings) == ("nothing_observed", [])


def test_the_answer_of_a_vote_is_not_judged_but_react_without_a_look_is():
    voted = play("default", "Search[Ada]", "Finish[Prague]", method="react_then_cot_sc")
    voted.steps[-1].votes = ["Prague", "Prague", ""]
    assert gather(voted).support == "nothing_observed"
    assert gather(play("default", "Finish[Prague]")).support == "unsupported"


@both
def test_a_wrong_answer_that_may_be_right(wording):
    assert signs(play(wording, "Search[Ada]", "Finish[city of Brno]")) == {"label_ambiguity": [2]}
    assert signs(play(wording, "Search[Brno]", "Finish[400,000]", gold="400 thousand")) == {
        "label_ambiguity": [2]
    }


@both
def test_endings(wording):
    assert signs(play(wording, "Search[Ada]", "Search[Brno]")) == {"unfinished": [2]}
    for outcome in (Outcome.CONTEXT_LIMIT, Outcome.FORMAT_ERROR):
        assert signs(play(wording, "Search[Ada]", outcome=outcome)) == {"unfinished": [1]}
    for outcome in (Outcome.MODEL_ERROR, Outcome.ENVIRONMENT_ERROR):
        found = gather(play(wording, outcome=outcome))
        assert found.verdict == "errored"
        assert [(one.flag, one.steps) for one in found.findings] == [("errored", [])]


@both
def test_an_empty_answer_is_wrong_and_shows_no_ambiguity(wording):
    found = gather(play(wording, "Search[Ada]", "Finish[]", gold="The The"))
    assert (found.verdict, found.support, found.findings) == ("wrong", "no_answer", [])


texts = st.text(max_size=40) | st.sampled_from(
    [
        "\x1b[2J\ud800",
        "Could not find x. Similar: [",
        "Could not find  Similar: [] Similar: []",
        "Search[",
        "Finish[x]",
        "\u2028[]",
        "١٢٣",
        "9" * 500,
        "yes",
        "May 99",
    ]
)
steps = st.builds(
    Step,
    action=texts,
    observation=texts,
    invalid=st.booleans(),
    votes=st.lists(texts, max_size=2),
)


@given(
    st.lists(steps, max_size=12),
    st.sampled_from(list(Outcome)),
    texts | st.none(),
    st.lists(texts, max_size=3),
    texts,
    st.booleans(),
)
def test_no_episode_makes_it_raise(made, outcome, answer, gold, opening, correct):
    trajectory = Trajectory(
        id="t",
        task=Task(id="q", environment="e", split="test", instruction="", gold=gold),
        method="react",
        model="m",
        opening=opening,
        steps=made,
        outcome=outcome,
        answer=answer,
        grade=Grade(correct=correct),
    )
    found = gather(trajectory)
    assert found == gather(trajectory)
    assert found.missed <= found.looks <= len(made)
    assert found.flags <= set(FLAGS)
    assert ("errored" in found.flags) == (found.verdict == "errored")
    assert all(1 <= number <= len(made) for finding in found.findings for number in finding.steps)
