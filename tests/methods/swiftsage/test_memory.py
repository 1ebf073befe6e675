"""What SwiftSage remembers: actions joined with their meanings, without those tried in vain."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.methods.swiftsage.memory import Memory, carried_out
from pipeline.trajectories.schema import Step, Task

HALL = "This room is called the hallway. In it, you see: nothing"
KITCHEN = "This room is called the kitchen. In it, you see: a dove"
OPENING = f"{HALL}\nIn your inventory, you see:\n\tnothing"
WHICH = "Ambiguous request: Please enter the number for the action you intended (or blank to cancel):\n0: a"
TASK = Task(id="t", environment="e", split="test", kind="4-4", instruction="First, focus on the dove.")


def step(action, observation="Done.", reward=0.0, look=HALL):
    return Step(action=action, observation=observation, reward=reward, info={"look": look, "inventory": ""})


def test_an_answer_is_joined_to_what_it_completes():
    steps = [step("go to kitchen", "You move.", look=KITCHEN), step("focus on dove", WHICH, look=KITCHEN)]
    steps += [step("0", "You focus.", 0.5, KITCHEN), step("0", "odd", 0.1, HALL)]
    made = carried_out(OPENING, steps)
    assert [(each.room, each.action, each.observation, each.reward) for each in made] == [
        ("hallway", "go to kitchen", "You move.", 0.0),
        ("kitchen", "focus on dove", "You focus.", 0.5),
        ("kitchen", "0", "odd", 0.1),
    ]
    assert [each.look for each in made] == [KITCHEN, KITCHEN, HALL]


def learnt(*episode):
    """A memory after steps, each with whose it was: ``swift``, ``plan`` or ``tried``."""
    memory, steps = Memory(TASK, OPENING, whole_words=True), []
    for newest, who in episode:
        steps.append(newest)
        memory.learn(steps, planned=who != "swift", tried=who == "tried")
    return memory


def test_a_failed_trial_leaves_only_an_error():
    memory = learnt((step("go to kitchen"), "swift"), (step("eat sun", "You can't.", 0.0), "tried"))
    assert [each.action for each in memory.done] == ["go to kitchen"] and memory.vain == {1}
    assert memory.errors == ["in hallway: eat sun --> You can't."]
    assert memory.kept([step("a"), step("b")]) == [step("a")]


def test_a_failed_action_of_swifts_is_done_and_an_error_that_sage_clears():
    memory = learnt((step("eat sun", "You can't."), "swift"))
    assert len(memory.done) == 1 and len(memory.errors) == 1 and memory.vain == set()
    memory.answered()
    assert (memory.errors, memory.sage_at, memory.sage_runs) == ([], 1, 1)


@pytest.mark.parametrize(
    ("who", "reward", "sage_focused", "done"),
    [("swift", 0.5, False, True), ("plan", 0.5, True, True), ("plan", 0.0, True, False)],
)
def test_focus_is_counted_when_it_brings_something(who, reward, sage_focused, done):
    memory = learnt((step("focus on dove", "You focus.", reward), who))
    assert (memory.sage_focused, memory.focus_done) == (sage_focused, done)


STEPS = st.lists(
    st.builds(
        step,
        st.sampled_from(["0", "1", "wait", "focus on dove"]),
        st.sampled_from(["Done.", WHICH, "You can't.", ""]),
        st.sampled_from([0.0, 0.25, -0.5]),
        st.sampled_from([HALL, KITCHEN]),
    ),
    max_size=12,
)


@settings(max_examples=80, deadline=None)
@given(STEPS, st.sets(st.integers(0, 12)))
def test_nothing_is_lost_but_what_was_in_vain(steps, vain):
    made = carried_out(OPENING, steps, vain)
    kept = [each for place, each in enumerate(steps) if place not in vain]
    assert sum(each.reward for each in made) == sum(each.reward for each in kept)
    joined = len(kept) - len(made)
    assert 0 <= joined <= sum(each.action.isdigit() for each in kept)
    names = [each.action for each in made]
    assert [each.action for each in kept if not each.action.isdigit()] == [
        n for n in names if not n.isdigit()
    ]
