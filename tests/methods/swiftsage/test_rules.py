"""The switch: each condition by name, and both rules clause by clause (specification 4.6)."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.methods.swiftsage import rules
from pipeline.methods.swiftsage.loops import in_loop, leads_nowhere
from pipeline.methods.swiftsage.rules import SwitchState, decide
from pipeline.methods.swiftsage.world import failed, focus_limit, focus_targets, room_of
from pipeline.recipe.models import SwitchRecipe

PAPER = SwitchRecipe(rule="paper")
RELEASED = SwitchRecipe()
VALID = frozenset({"wait", "activate stove", "focus on dove", "go to kitchen"})


def state(proposal="activate stove", **changes):
    return SwitchState(proposal=proposal, valid=VALID, **changes)


def played(*actions, rewards=None):
    return {"actions": actions, "rewards": tuple(rewards or [0.0] * len(actions))}


LONG = played(*[f"do {n}" for n in range(12)])
"""Twelve actions, no reward."""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (played(*"abcde"), "stuck"),
        ({"proposal": "activate sun"}, "invalid"),
        ({"proposal": "focus on dove"}, "critical"),
        ({"observation": "The stove doesn't work."}, "unexpected"),
    ],
)
def test_each_condition_of_the_paper_calls_sage_alone(changes, reason):
    assert decide(state(**changes), PAPER) == rules.Decision("sage", (reason,))


def test_the_paper_leaves_the_rest_to_swift():
    assert decide(state(**played(*"abcd")), PAPER) == rules.Decision("swift", ())
    assert decide(state(**played(*"abcde", rewards=[0, 0, 0, 0, 0.1])), PAPER).who == "swift"
    both = state("focus on sun", observation="No known action matches that input.")
    assert decide(both, PAPER).reasons == ("invalid", "critical", "unexpected")


def test_thresholds_are_the_recipes():
    assert decide(state(**played(*"abc")), SwitchRecipe(rule="paper", stuck=3)).reasons == ("stuck",)
    reading = SwitchRecipe(rule="paper", critical=["activate"])
    assert decide(state(), reading).reasons == ("critical",)


@pytest.mark.parametrize(
    ("changes", "who", "reasons", "fallback"),
    [
        # Nothing speaks for SWIFT: a valid action that is repeated, late, long after SAGE, without reward.
        (
            {**LONG, "proposal": "go to kitchen", "actions": (*LONG["actions"][:11], "go to kitchen")},
            "sage",
            ("repeated",),
            False,
        ),
        ({**LONG}, "swift", ("novel",), False),
        ({**LONG, "sage_at": 8}, "swift", ("fresh", "novel"), False),
        ({**LONG, "rewards": (0.0,) * 11 + (0.1,)}, "swift", ("rewarded", "novel"), False),
        ({"actions": ("a",) * 8, "rewards": (0.0,) * 8}, "swift", ("early", "novel"), False),
        ({"actions": ("a",) * 9, "rewards": (0.0,) * 9}, "swift", ("novel",), False),
        ({**LONG, "proposal": "eat sun"}, "sage", ("invalid",), False),
        ({**LONG, "proposal": "eat sun", "sage_at": 10}, "swift", ("invalid", "planned"), True),
        ({**LONG, "proposal": "eat sun", "sage_at": 9}, "sage", ("invalid",), False),
        ({**LONG, "idle": 2}, "sage", ("idle",), False),
        ({**LONG, "failures": 2}, "sage", ("failing",), False),
        ({**LONG, "focus_tries": 1}, "sage", ("unplanned_focus",), False),
        ({**LONG, "focus_tries": 1, "sage_focused": True}, "swift", ("novel",), False),
        ({**LONG, "idle": 2, "sage_runs": 2}, "swift", ("novel",), False),
        ({**LONG, "proposal": "eat sun", "sage_runs": 2}, "swift", ("exhausted",), True),
        ({**LONG, "proposal": "focus on dove", "focus_done": True}, "sage", ("invalid",), False),
    ],
)
def test_the_released_rule(changes, who, reasons, fallback):
    assert decide(state(**changes), RELEASED) == rules.Decision(who, reasons, fallback)


STATES = st.builds(
    lambda proposal, actions, observation, **rest: SwitchState(
        proposal, VALID, tuple(actions), tuple(0.1 * (a == "wait") for a in actions), observation, **rest
    ),
    st.sampled_from(["wait", "focus on dove", "eat sun", ""]),
    st.lists(st.sampled_from(["wait", "eat sun", "go to kitchen"]), max_size=15),
    st.sampled_from(["", "It can't.", "nothing"]),
    idle=st.integers(0, 3),
    failures=st.integers(0, 3),
    sage_at=st.integers(-1, 15),
    sage_runs=st.integers(0, 3),
    sage_focused=st.booleans(),
    focus_tries=st.integers(0, 3),
    focus_done=st.booleans(),
)


@settings(max_examples=100, deadline=None)
@given(STATES, st.sampled_from([PAPER, RELEASED]))
def test_every_state_has_one_decision_with_reasons(given_state, recipe):
    made = decide(given_state, recipe)
    assert made.who in ("swift", "sage") and made == decide(given_state, recipe)
    assert made.reasons or (made.who == "swift" and recipe is PAPER)
    assert not (made.fallback and made.who == "sage")
    if recipe is RELEASED and given_state.sage_runs >= 2 and not rules.invalid(given_state, recipe):
        assert made.who == "swift"
    if made == rules.Decision("swift", made.reasons) and recipe is RELEASED:
        assert not rules.invalid(given_state, recipe)


def test_what_swift_does_when_it_must():
    beams = ["focus on dove", "eat sun", "go to kitchen", "activate stove"]
    assert rules.fallback_action(beams, VALID) == "go to kitchen"
    assert rules.fallback_action(["eat sun", "eat moon", "eat star", "activate stove"], VALID) == "wait"
    assert rules.fallback_action([], VALID) == "wait"


def test_waiting():
    assert rules.without_second_wait(["wait1", "go"], ["wait"]) == ["go"]
    assert rules.without_second_wait(["wait"], ["wait"]) == ["wait"]
    assert rules.without_second_wait(["wait", "go"], ["go"]) == ["wait", "go"]
    assert rules.must_wait_again(["a", "b", "c", "wait"], ["x", "x"])
    assert not rules.must_wait_again(["a", "b", "c", "wait"], ["x", "y"])
    assert not rules.must_wait_again(["a", "b", "wait", "wait"], ["x", "x"])
    assert not rules.must_wait_again(["a", "b", "wait"], ["x", "x"])


def test_focus_waits_for_sage_unless_the_task_names_the_thing():
    text = "Find a(n) animal. First, focus on the thing. Then move it."
    assert focus_targets(text) == ["thing"]
    one = state("focus on dove", focus_tries=1)
    assert rules.is_focus_blocked("focus on dove", text, one, RELEASED)
    assert not rules.is_focus_blocked("focus on dove", text, replace(one, focus_tries=3), RELEASED)
    assert not rules.is_focus_blocked("focus on dove", text, replace(one, sage_focused=True), RELEASED)
    assert not rules.is_focus_blocked("go to kitchen", text, one, RELEASED)
    named = "First, focus on the unknown substance B."
    assert not rules.is_focus_blocked("focus on unknown substance", named, one, RELEASED)


def test_how_often_a_task_wants_focus():
    assert (focus_limit("8-1", ""), focus_limit("1-1", ""), focus_limit("1-1", "focus, focus")) == (4, 1, 2)


@pytest.mark.parametrize(
    ("text", "whole", "published"),
    [
        ("No known action matches that input.", True, True),
        ("On the stove is: nothing.", False, True),
        ("It's not clear how to do that.", True, True),
        ("The door can't be opened.", True, True),
        ("You cannot.", True, True),
        ("The cup doesn't fit.", True, True),
        ("You move to the kitchen.", False, False),
    ],
)
def test_failure_is_read_from_whole_words(text, whole, published):
    assert (failed(text), failed(text, whole_words=False)) == (whole, published)


def test_loops_and_ends():
    assert in_loop(["x", "a", "b", "a", "b", "a"])
    assert not in_loop(["a", "b", "a", "b"])
    assert not in_loop(["a"] * 5) and not in_loop(["a", "b", "c", "a", "b"])
    assert leads_nowhere(-1.0, [])
    assert leads_nowhere(0.5, [0.5] * 69 + [0.0] * 30)
    assert not leads_nowhere(0.5, [0.5] * 68 + [0.0] * 30)
    assert not leads_nowhere(0.5, [0.0] * 98 + [0.1])


def test_rooms():
    assert room_of("This room is called the art studio. In it, you see: a kitchen") == "art studio"
    assert room_of("This outside location is called the outside. Here") == "outside"
    assert room_of("") == ""
