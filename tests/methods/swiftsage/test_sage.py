"""SAGE's side: action templates, reading its answers, the buffer, and what it is asked."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.methods.swiftsage import prompts
from pipeline.methods.swiftsage.buffer import ActionBuffer, View, candidates
from pipeline.methods.swiftsage.grounding import Planned, read_plan
from pipeline.methods.swiftsage.prompts import Past, SageState
from pipeline.rendering.formal import TYPES, formal_action, raw_action

FORMS = {
    "wait": "WAIT()",
    "teleport to kitchen": "TELEPORT(kitchen)",
    "look at stove": "LOOK(stove)",
    "read recipe": "READ(recipe)",
    "pick up thermometer": "PICK(thermometer)",
    "open freezer": "OPEN(freezer)",
    "activate stove": "ACTIVATE(stove)",
    "deactivate stove": "DEACTIVATE(stove)",
    "examine lead": "EXAMINE(lead)",
    "connect battery anode to red wire terminal 1": "CONNECT(battery anode, red wire terminal 1)",
    "move lead to metal pot": "MOVE(lead, metal pot)",
    "use thermometer in inventory on lead": "USE(thermometer in inventory, lead)",
    "mix cup containing blue paint and red paint": "MIX(cup containing blue paint and red paint)",
    "dunk cup into water": "DUNK(cup, water)",
    "drop sodium chloride": "DROP(sodium chloride)",
    "pour cup containing mercury into metal pot": "POUR(cup containing mercury, metal pot)",
    "focus on dove": "FOCUS(dove)",
    "open door to hallway": "OPEN_DOOR(hallway)",
    "look around": "SEE()",
    "go to hallway": "GO(hallway)",
    "drop cup in jug": "DROP(cup, jug)",
    "eat apple": "EAT(apple)",
    "0": "CHOOSE(0)",
}


def test_every_type_goes_both_ways():
    assert {formal: raw_action(formal) for formal in FORMS.values()} == {b: a for a, b in FORMS.items()}
    assert {raw: formal_action(raw) for raw in FORMS} == FORMS
    assert len(TYPES) == 17 and all(
        any(form.startswith(kind.name) for form in FORMS.values()) for kind in TYPES
    )


def test_forms_that_mean_the_same():
    assert formal_action("wait1") == "WAIT()" and raw_action("turn_on( sink )") == "activate sink"
    assert raw_action("MOVE(jug with a, b, pot)") == "move jug with a, b to pot"
    assert [raw_action(text) for text in ("MOVE(a)", "SING(a)", "FOCUS()", "go on", "")] == [None] * 5
    assert formal_action("sing") is None


@pytest.mark.parametrize(
    "line",
    [
        "Action 1: MOVE(lead, metal pot) --> The lead is moved.",
        "- **Action 1:** `MOVE(lead, metal pot)` → the lead is moved",
        "1. move(lead, metal pot) => The lead is moved.",
        'Action 1: [MOVE("lead", "metal pot")] -> the lead is moved',
        "action 1: move lead to metal pot --> The lead is moved",
        "Action 1：MOVE（lead， metal pot） --> The lead is moved",
        "> Action 1 - Place( lead , metal pot ) --> The lead is moved",
    ],
)
def test_a_line_in_any_dress(line):
    assert read_plan(f"Here is what to do:\n```\n{line}\n```\nGood luck (really).") == [
        Planned("move lead to metal pot", "lead is moved")
    ]


def test_without_arrow_and_with_inner_brackets():
    assert read_plan("Action 1: PICK(cup (containing water))") == [Planned("pick up cup (containing water)")]
    assert read_plan("Action 1: PICK(cup)\n\nAction 2: MOVE(cup, sink)  \n") == [
        Planned("pick up cup"),
        Planned("move cup to sink"),
    ]


def test_five_lines_repeats_and_until():
    many = "\n".join(f"Action {n}: PICK(cup {n}) -->" for n in range(9))
    assert [planned.action for planned in read_plan(many)] == [f"pick up cup {n}" for n in range(5)]
    a, b, wait = "Action: PICK(a)", "Action: ACTIVATE(b)", "Action: WAIT()"
    assert [p.action for p in read_plan(f"{a}\n{b}\nRepeat the above\n{a}")] == [
        *["pick up a", "activate b"] * 6,
        "pick up a",
    ]
    waited = read_plan(f"{a}\n{b}\n{wait}\nRepeat until it boils.\n{a}")
    assert [p.action for p in waited] == ["pick up a", "activate b", "wait"] * 6
    assert read_plan("Repeat everything.\nI do not know.") == []


@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from("Action1:MOVE(a,b)-> \nrepeatuntil*`\ud800"), max_size=300))
def test_reading_never_fails_and_stays_small(text):
    plan = read_plan(text)
    assert len(plan) <= 5 * 16 and all(planned.action.strip() for planned in plan)


def plan(*actions):
    return [Planned(action) for action in actions]


def filled(*actions):
    buffer = ActionBuffer()
    buffer.replace(plan(*actions))
    return buffer


def test_in_order_while_valid():
    buffer = filled("pick up cup", "go to kitchen")
    first = buffer.next(View(["pick up cup"]))
    second = buffer.next(View(["open door to kitchen"]))
    assert (first.action, first.how) == ("pick up cup", "valid")
    assert (second.action, second.how) == ("open door to kitchen", "valid")
    assert buffer.next(View([])) is None and len(buffer) == 0


def test_expected_answer_as_an_action():
    buffer = ActionBuffer()
    buffer.replace([Planned("take cup", "pick up cup")])
    pick = buffer.next(View(["pick up cup"]))
    assert (pick.action, pick.how) == ("pick up cup", "expected")


def test_two_misses_and_the_plan_is_given_up():
    buffer = filled("eat sun", "eat moon", "wait")
    view = View(["eat apple", "eat big moon", "wait"])
    assert buffer.next(view).how == "tried"
    assert buffer.settle(view, worked=False) == ["eat apple", "eat big moon"]
    assert buffer.next(view).action == "eat moon"
    assert buffer.settle(view, worked=False) == ["eat big moon", "eat apple"]
    assert buffer.next(view) is None and len(buffer) == 0


def test_one_miss_before_a_focus():
    buffer = filled("eat sun", "focus on dove")
    view = View(["focus on dove"])
    buffer.next(view)
    buffer.settle(view, worked=False)
    assert buffer.next(view) is None and len(buffer) == 0


def test_success_forgives():
    buffer = filled("eat sun", "eat moon", "eat star", "wait")
    view = View(["wait"])
    buffer.next(view)
    assert buffer.settle(view, worked=True) == []
    buffer.next(view)
    buffer.settle(view, worked=False)
    buffer.chose()
    buffer.next(view)
    buffer.settle(view, worked=False)
    assert buffer.next(view).action == "wait"


def test_what_is_dropped():
    buffer = filled("focus on dove", "examine kitchen", "wait")
    assert buffer.next(View(["focus on dove", "examine kitchen", "wait"], focus_done=True)) is None
    buffer = filled("examine kitchen", "wait")
    assert buffer.next(View(["examine kitchen", "wait"])).action == "wait"
    buffer = filled("focus on dove")
    assert buffer.next(View([])).how == "tried" and buffer.settle(View(["focus on cat"]), worked=False) == []


def test_three_failures_are_enough():
    buffer = filled(*["eat sun"] * 4, "wait")
    view = View(["wait"])
    for _ in range(3):
        assert buffer.next(view).action == "eat sun"
        buffer.settle(view, worked=False)
        buffer.chose()
    assert buffer.next(view).action == "wait"


def test_a_new_answer_replaces_the_old():
    buffer = filled("eat sun", "eat moon")
    buffer.next(View([]))
    buffer.replace(plan("wait"))
    assert len(buffer) == 1 and buffer.settle(View(["eat apple"]), worked=False) == []
    assert buffer.next(View(["wait"])).action == "wait"


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_no_entry_is_handed_out_twice(data):
    actions = [f"{verb} thing {n}" for n in range(8) for verb in ("eat", "focus on", "move")]
    chosen = data.draw(st.lists(st.sampled_from(actions), max_size=8, unique=True))
    buffer, seen = filled(*chosen), []
    for _ in range(20):
        view = View(
            data.draw(st.lists(st.sampled_from(actions), max_size=5)), focus_done=data.draw(st.booleans())
        )
        pick = buffer.next(view)
        if pick is None:
            break
        seen.append(pick.planned.action)
        if pick.how == "tried":
            buffer.settle(view, worked=data.draw(st.booleans()))
        else:
            assert pick.action in view.valid
    assert len(set(seen)) == len(seen) and seen == [action for action in chosen if action in seen]
    assert pick is None


def test_at_most_thirty_candidates():
    valid = [f"eat apple {n}" for n in range(40)] + ["wait"]
    assert len(candidates("eat apple 7 now", valid)) == 30
    assert candidates("eat apple 7 now", valid)[0] == "eat apple 7"
    assert candidates("", valid) == []


STATE = SageState(
    task="Your task is to find an animal. First, focus on the dove. Then move it to the red box.",
    look="This room is called the kitchen. In it, you see: a stove.",
    inventory="In your inventory, you see: an orange.",
    past=(
        Past("hallway", "go to kitchen", "You move to the kitchen."),
        Past("kitchen", "go to hallway", "You move to the hallway."),
        Past("kitchen", "wait", "Time passes."),
        Past("kitchen", "wait", "Time passes."),
    ),
    looks={"kitchen": "here", "hallway": "This room is called the hallway."},
    suggestion="eat orange",
    errors=("Too far.", "Too far."),
)


def test_the_plan_is_asked_for_with_five_questions():
    system, user = prompts.planning_messages(STATE)
    assert (system.role, user.role) == ("system", "user")
    assert [f"\n{n}. " in user.content for n in range(1, 7)] == [True] * 5 + [False]
    for words in (
        STATE.task,
        STATE.look,
        STATE.inventory,
        "eat orange",
        "'focus on' for dove",
        "hallway: This",
    ):
        assert words in user.content
    assert user.content.count("Too far.") == 1 and "kitchen: here" not in user.content
    assert "go to kitchen" not in user.content and user.content.count("Time passes.") == 1


def test_actions_are_asked_for_in_the_form_that_is_read():
    system, user = prompts.grounding_messages(STATE, "First the dove.")
    assert "First the dove." in user.content and "WAIT() --> Time passes. (repeated 2 times)" in user.content
    assert all(f"- {kind.name}(" in user.content for kind in TYPES)
    assert "FOCUS only on dove" in user.content
    retry = prompts.retry_messages((system, user), "I cannot.")
    assert [message.role for message in retry] == ["system", "user", "assistant", "user"]
    # The worked example can itself be read.
    shown = [line.split("in workshop: ")[1] for line in user.content.split("\n") if "in workshop: " in line]
    assert [planned.action for line in shown for planned in read_plan(line)] == [
        "focus on nail",
        "connect battery anode to nail terminal 1",
        "move nail to blue box",
    ]


@pytest.mark.parametrize(
    ("answer", "chosen"),
    [
        ("eat apple", "eat apple"),
        ("2", "eat apple pie"),
        ("I choose **eat apple pie**.", "eat apple pie"),
        ("none", None),
        ("9", None),
        ("", None),
    ],
)
def test_choices(answer, chosen):
    assert prompts.read_choice(answer, ["eat apple", "eat apple pie"]) == chosen


def test_a_choice_shows_what_there_is():
    user = prompts.choice_messages("eat sun", ["eat apple"], "a look", "a list", "full")[1].content
    assert "1: eat apple" in user and "'eat sun'" in user and "so that: full" in user
