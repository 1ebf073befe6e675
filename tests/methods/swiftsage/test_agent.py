"""SwiftSage playing: who acts when, why, and what becomes of a plan, in a small world."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ContextLimitError, RecipeError
from pipeline.methods.registry import load_method
from pipeline.methods.swiftsage.agent import SwiftSage
from pipeline.methods.swiftsage.trace import acted, counted, in_vain, told
from pipeline.models.base import Completion
from pipeline.recipe.models import MethodRecipe, SwiftRecipe, SwitchRecipe
from pipeline.rendering.swift import swift_input
from pipeline.trajectories.schema import Outcome, Step
from tests.methods.swiftsage.fakes import TASK, Larder, Searching, Wise, acts, played, seat

PAPER = SwitchRecipe(rule="paper")


def swiftsage(sage, beams, environment=None, steps=30, rule="released", **switch):
    swift = beams if isinstance(beams, Searching) else Searching(beams)
    return played(
        "swiftsage", sage, swift, environment, steps=steps, switch=SwitchRecipe(rule=rule, **switch)
    )


def test_swift_acts_until_sage_is_needed_and_sage_plans_the_rest():
    sage = Wise("Action 1: FOCUS(apple) --> in focus\nAction 2: EAT(apple) --> eaten")
    made = swiftsage(sage, [["go to kitchen"], ["focus on apple"]], rule="paper")
    assert acts(made) == [
        ("go to kitchen", "swift"),
        ("focus on apple", "sage", "critical"),
        ("eat apple", "buffer", "valid"),
    ]
    assert made.grade.correct and sage.kinds == ["plan", "ground"]
    asked = made.steps[1]
    assert asked.thought == "1. An apple." and asked.completion.startswith("Action 1: FOCUS(apple)")
    assert asked.candidates == ["<pad> focus on apple</s>"]
    # Two calls of SAGE's and one of SWIFT's.
    assert (asked.usage.prompt_tokens, asked.usage.calls) == (207, 3)
    assert (made.steps[2].usage.calls, made.steps[2].completion, made.steps[2].thought) == (0, "", "")
    assert "A first impulse, perhaps wrong: focus on apple" in sage.asked[0]
    assert "1. An apple." in sage.asked[1]


def test_stuck_calls_sage_after_five_steps_without_reward():
    beams = [
        ["look around"],
        ["go to kitchen"],
        ["mix plum"],
        ["eat plum"],
        ["go to hallway"],
        ["go to kitchen"],
    ]
    made = swiftsage(Wise("Action 1: GO(kitchen)"), beams, rule="paper", steps=6)
    assert [flags for _, *flags in acts(made)] == [["swift"]] * 5 + [["sage", "stuck"]]


def test_an_invalid_action_calls_sage():
    made = swiftsage(Wise("Action 1: GO(kitchen)"), [["eat moon"]], rule="paper", steps=1)
    assert acts(made) == [("go to kitchen", "sage", "invalid")]


def test_an_unexpected_observation_calls_sage_and_is_told():
    world = Larder(go_to_kitchen="The door can't be opened.")
    sage = Wise("Action 1: WAIT()")
    made = swiftsage(sage, [["go to kitchen"]], world, rule="paper", steps=2)
    assert acts(made)[1] == ("wait", "sage", "unexpected")
    assert "in hallway: go to kitchen --> The door can't be opened." in sage.asked[0]


def test_the_released_rule_says_why_swift_passed():
    made = swiftsage(Wise("x"), [["go to kitchen"], ["look around"]], steps=2)
    assert acts(made) == [
        ("go to kitchen", "swift", "early", "fresh", "novel"),
        ("look around", "swift", "early", "fresh", "novel"),
    ]


def test_swift_may_not_focus_before_sage_has():
    sage = Wise("Action 1: FOCUS(apple) -->\nAction 2: EAT(apple)")
    made = swiftsage(sage, [["go to kitchen"], ["focus on plum"]])
    assert acts(made)[1:] == [
        ("focus on apple", "sage", "idle", "unplanned_focus", "vain:swift:focus"),
        ("eat apple", "buffer", "valid"),
    ]
    assert told(made.steps[1].flags) == "SAGE (idle, unplanned_focus); before, in vain: SWIFT (focus)"


def test_what_the_task_names_swift_may_focus_on():
    task = TASK.model_copy(update={"instruction": "Your task is to focus on the apple."})
    made = played(
        "swiftsage", Wise("x"), Searching([["go to kitchen"], ["focus on apple"]]), task=task, steps=2
    )
    assert acts(made)[1][:2] == ("focus on apple", "swift")


def test_a_tried_action_that_works_goes_on():
    sage = Wise("Action 1: EAT(moon) -->\nAction 2: WAIT()")
    made = swiftsage(sage, [["eat sun"]], Larder(eat_moon="You eat the moon."), rule="paper", steps=2)
    assert acts(made) == [("eat moon", "sage", "invalid", "tried"), ("wait", "buffer", "valid")]


def test_of_several_candidates_sage_chooses():
    sage = Wise("Action 1: MIX(strawberry)\nAction 2: EAT(plum)", choice="mix plum")
    made = swiftsage(sage, [["go to kitchen"], ["eat sun"]], rule="paper", steps=4)
    assert acts(made)[1:] == [
        ("mix strawberry", "sage", "invalid", "tried"),
        ("mix plum", "buffer", "chosen"),
        ("eat plum", "buffer", "valid"),
    ]
    assert sage.kinds == ["plan", "ground", "choice"]
    assert made.steps[2].completion == "mix plum" and made.steps[2].usage.calls == 1


def test_one_candidate_is_taken_unasked_and_none_is_dropped():
    sage = Wise("Action 1: LOOK(sun)\nAction 2: READ(sun)\nAction 3: WAIT()")
    made = swiftsage(sage, [["eat sun"]], rule="paper", steps=4)
    assert acts(made)[:2] == [
        ("look at sun", "sage", "invalid", "tried"),
        ("look around", "buffer", "replaced"),
    ]
    assert acts(made)[2:] == [("read sun", "buffer", "tried"), ("wait", "buffer", "valid")]
    assert sage.kinds == ["plan", "ground"]


def test_what_was_tried_in_vain_is_not_shown_to_swift():
    swift = Searching([["go to kitchen"], ["eat sun"], ["look around"]])
    made = swiftsage(Wise("Action 1: READ(sun)"), swift, steps=3, planned=0, consecutive=1)
    assert [flags[:1] for _, *flags in acts(made)] == [["swift"], ["sage"], ["swift"]]
    assert made.steps[1].observation.startswith("No known action")
    assert swift.inputs[2] == swift_input(TASK, made.opening, made.steps[:1])


def test_unreadable_answers_are_asked_for_once_more_then_swift_acts():
    sage = Wise("I cannot say.")
    made = swiftsage(sage, [["travel to the kitchen"]], rule="paper", steps=1)
    assert sage.kinds == ["plan", "ground", "retry"]
    assert acts(made) == [("go to kitchen", "swift", "unreadable", "vain:sage:invalid")]
    assert made.usage.calls == 4 and made.steps[0].completion == "<pad> travel to the kitchen</s>"


def test_a_second_answer_that_can_be_read_counts():
    sage = Wise("I cannot say.", "Action 1: GO(kitchen)")
    made = swiftsage(sage, [["eat sun"]], rule="paper", steps=1)
    assert acts(made) == [("go to kitchen", "sage", "invalid")]
    assert made.steps[0].completion == "Action 1: GO(kitchen)"


def test_a_first_wait_that_changed_nothing_is_followed_by_another():
    beams = [["go to kitchen"], ["mix plum"], ["look around"], ["wait"], ["eat plum"]]
    made = swiftsage(Wise("x"), beams, steps=6)
    assert acts(made)[3][:2] == ("wait", "swift") and acts(made)[4] == ("wait", "wait")
    assert acts(made)[5][:2] == ("eat plum", "swift") and made.steps[4].usage.calls == 0


def test_swift_does_not_wait_twice_where_it_wrote_more():
    beams = [["wait"], ["wait", "go to kitchen"]]
    assert acts(swiftsage(Wise("x"), beams, steps=2))[1][0] == "go to kitchen"


def test_an_ambiguous_request_is_answered_and_joined():
    world = Larder(focus_on_apple="Ambiguous request: Please enter the number for the action you intended")
    sage = Wise("Action 1: FOCUS(apple)\nAction 2: EAT(apple)")
    made = swiftsage(sage, [["go to kitchen"], ["focus on plum"]], world)
    assert acts(made)[1:] == [
        ("focus on apple", "sage", "idle", "unplanned_focus", "vain:swift:focus"),
        ("0", "ambiguous"),
        ("eat apple", "buffer", "valid"),
    ]
    assert made.steps[2].usage.calls == 0 and made.grade.correct


def test_an_episode_that_leads_nowhere_is_given_up():
    # 99 actions, the opening look the hundredth; of the last 30 none earned anything.
    words = ["go to kitchen", "mix plum", "look around", "go to hallway"]
    swift = Searching(lambda request: [words[len(swift.requests) % 4], *words])
    made = swiftsage(Wise("Action 1: GO(kitchen)"), swift, steps=300)
    assert made.outcome is Outcome.FINISHED and len(made.steps) == 99 and not made.grade.correct


def test_a_plan_of_nothing_useful_ends_with_swift_having_to_act():
    sage = Wise("Action 1: EXAMINE(kitchen)")
    for rule, answers in (("paper", 4), ("released", 2)):
        made = swiftsage(
            sage, [["eat sun", "eat moon", "go to kitchen"]], rule=rule, steps=1, planned=0, fresh=0
        )
        assert acts(made)[0][:3] == ("go to kitchen", "swift", "exhausted")
        assert sum(flag.startswith("vain:sage:") for flag in made.steps[0].flags) == answers
    made = swiftsage(sage, [["eat sun"]], rule="paper", steps=1)
    assert acts(made)[0][:3] == ("wait", "swift", "exhausted")


def test_a_story_too_long_is_told_shortened():
    class Small(Wise):
        async def generate(self, request):
            if (
                "look around --> Done" in (text := request.prompt.messages[1].content)
                and "Rooms seen before" in text
            ):
                raise ContextLimitError("too long")
            return await super().generate(request)

    sage = Small("Action 1: WAIT()")
    made = swiftsage(sage, [["go to kitchen"], ["look around"], ["eat sun"]], rule="paper", steps=3)
    assert acts(made)[2] == ("wait", "sage", "invalid") and "Rooms seen before" not in sage.asked[0]


def test_what_is_missing_is_refused():
    method = SwiftSage(MethodRecipe(name="swiftsage"))

    async def listing():
        return []

    with pytest.raises(RecipeError, match=r"method\.swift\.model"):
        method.agent(replace(seat(Wise("x")), valid_actions=listing))
    with pytest.raises(RecipeError, match="lists valid actions"):
        method.agent(seat(Wise("x"), swift=Searching([["a"]])))


def test_settings_hold_what_changes_an_episode():
    def of(**recipe):
        return SwiftSage(MethodRecipe(name="swiftsage", **recipe)).settings(Larder())

    assert of() == of(shots=0, max_tokens=500)
    assert of(swift=SwiftRecipe(beams=1)) != of() != of(switch=PAPER)
    made = load_method(MethodRecipe(name="swiftsage", max_tokens=500, temperature=1.0))
    assert (made.sampling.max_tokens, made.sampling.temperature) == (500, 0.0)
    assert made.trained_as(Larder())["renderer"] == "swift" and made.spec(Larder()).exemplars == ()


ODD = st.one_of(
    st.text(st.characters(codec=None, exclude_categories=()), max_size=30),
    st.text(st.sampled_from("Action1:MOVEFOCUS(a,b)-> \nrepeatuntil\x00\x1b\ud800"), max_size=60),
    st.sampled_from(["", "Action 1: FOCUS(", "Action 1: WAIT()\nrepeat", "))((", "<think>", "{" * 50]),
    st.lists(
        st.sampled_from(["FOCUS(plum)", "EAT(sun)", "GO(attic)", "MIX(x)", "FOCUS()", "EXAMINE(kitchen)"]),
        max_size=7,
    ).map("\nAction: ".join),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(ODD, min_size=1, max_size=4),
    st.lists(st.lists(ODD, min_size=1, max_size=3), min_size=1, max_size=4),
    ODD,
    st.sampled_from(["paper", "released"]),
)
def test_whatever_the_models_write_every_step_acts(answers, beams, choice, rule):
    made = swiftsage(Wise(*answers, choice=choice), beams, rule=rule, steps=8)
    assert made.outcome in (Outcome.STEP_LIMIT, Outcome.FINISHED) and made.error is None
    assert all(step.action.strip() and acted(step.flags) for step in made.steps)
    assert all(acted(step.flags).who in ("swift", "sage", "buffer", "wait") for step in made.steps)


def test_a_megabyte_of_answer_is_read_and_not_sent_back_whole():
    long = "Action 1: go\x1b" * 80_000
    sage = Wise(long)
    made = swiftsage(sage, [["eat sun"]], rule="paper", steps=1)
    assert made.steps and max(map(len, sage.asked)) < 20_000


def test_flags_are_read_back():
    assert told(["swift", "early", in_vain("sage", ["stuck", "invalid"])]) == (
        "SWIFT (early); before, in vain: SAGE (stuck, invalid)"
    )
    assert told(["swift"]) == "SWIFT (no condition holds)"
    assert acted([]) is None and acted(["no_action"]) is None and told(["truncated"]) == ""
    steps = [Step(flags=["swift", "early"]), Step(flags=["wait"]), Step(flags=["odd"])]
    assert counted(steps) == "SWIFT 1, SAGE 0, SAGE's plan 0, a second wait 1"


def test_completions_are_asked_greedily():
    method = SwiftSage(MethodRecipe(name="swiftsage", max_tokens=321, switch=PAPER))
    seen = []

    class Model(Wise):
        async def generate(self, request):
            seen.append(request)
            return Completion("Action 1: WAIT()")

    async def listing():
        return ["wait"]

    at = replace(
        seat(Model("x"), swift=Searching([["eat"]])), valid_actions=listing, sampling=method.sampling
    )
    asyncio.run(method.agent(at).propose(()))
    assert {(request.sampling.temperature, request.sampling.max_tokens) for request in seen} == {(0.0, 321)}
    assert len({request.seed for request in seen}) == len(seen) == 2
