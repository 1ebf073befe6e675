"""SWIFT alone: what it is shown, what is made of its beams, when it stops."""

import asyncio
import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import RecipeError
from pipeline.methods.registry import load_method
from pipeline.methods.swift import Swift
from pipeline.recipe.models import MethodRecipe, SwiftRecipe
from pipeline.rendering.swift import swift_input
from pipeline.trajectories.schema import Outcome, Step
from tests.methods.swiftsage.fakes import TASK, Larder, Searching, acts, played, scripted, seat

LOOK = "This room is called the kitchen. In it, you see:\n\tan apple"
OPENING = f"{LOOK}\nIn your inventory, you see:\n\tnothing"


def proposed(model, valid, steps=(), **swift):
    async def listing():
        return valid

    method = Swift(MethodRecipe(name="swift", swift=SwiftRecipe(**swift)))
    at = replace(seat(model), opening=OPENING, valid_actions=listing)
    return asyncio.run(method.agent(at).propose(steps))


def test_an_episode_is_solved_by_beams():
    swift = Searching([["go to moon", "go to kitchen"], ["focus on apple"], ["eat apple"]])
    made = played("swift", swift)
    assert acts(made) == [("go to kitchen",), ("focus on apple",), ("eat apple",)]
    assert made.outcome is Outcome.FINISHED and made.grade.correct
    assert made.steps[0].candidates == ["<pad> go to moon</s>", "<pad> go to kitchen</s>"]
    assert made.steps[0].completion == "<pad> go to moon</s>"
    assert (made.usage.prompt_tokens, made.usage.calls) == (21, 3)
    # The wire format, to the letter, from what the trajectory holds.
    assert swift.inputs == [swift_input(TASK, made.opening, made.steps[:n]) for n in range(3)]
    assert [request.sampling.max_tokens for request in swift.requests] == [16] * 3
    assert {request.sampling.temperature for request in swift.requests} == {0.0}


def test_beams_and_history_are_the_recipes():
    swift = Searching([["a", "b", "c"]])
    steps = [Step(action=f"go {n}", observation="x") for n in range(4)]
    made = proposed(swift, ["wait"], steps, beams=2, history=3)
    assert (
        len(made.candidates) == 2 and "<extra_id_3> go 1" in swift.inputs[0] and "go 0" not in swift.inputs[0]
    )


def test_a_model_that_cannot_search_has_one_beam():
    made = proposed(scripted("look at the apple"), ["look at apple", "wait"])
    assert (made.action, made.flags, made.candidates) == (
        "look at apple",
        ("matched_words",),
        ("look at the apple",),
    )


@pytest.mark.parametrize("answered", [("Ambiguous request: Please enter the number for the action you", "0")])
def test_an_ambiguous_request_is_answered_with_the_first_meaning(answered):
    text, number = answered
    swift = Searching([["eat apple"]])
    made = proposed(swift, ["0", "1"], [Step(action="eat fruit", observation=text)])
    assert (made.action, made.flags, swift.requests) == (number, ("ambiguous",), [])


def test_it_stops_in_loops_unless_told_not_to():
    steps = [Step(action=action, observation="") for action in "abaab"]
    made = proposed(Searching([["wait"]]), ["wait"], steps)
    assert made.gives_up and made.flags == ("loop",) and made.action == ""
    assert proposed(Searching([["wait"]]), ["wait"], steps, stops_in_loops=False).action == "wait"
    assert not proposed(Searching([["wait"]]), ["wait"], steps[:4]).gives_up


def test_a_loop_ends_the_episode_with_the_score_it_has():
    turns = [["go to kitchen"], ["focus on apple"], *[["xyzzy"], ["plugh"]] * 9]
    made = played("swift", Searching(turns))
    assert acts(made)[2:] == [
        *((word, "matched_none") for word in ("xyzzy", "plugh", "xyzzy", "plugh")),
        ("xyzzy", "matched_none", "gives_up", "loop"),
    ]
    assert made.outcome is Outcome.FINISHED and made.grade.reward == 0.5 and not made.grade.correct


def test_the_last_three_actions_are_not_valid_again():
    steps = [Step(action=action, observation="") for action in ("eat apple", "wait", "look around")]
    made = proposed(
        Searching([["wait", "eat apple", "go to hall"]]), ["wait", "eat apple", "go to hall"], steps
    )
    assert made.action == "go to hall"


def test_the_sentence_model_is_asked_only_where_no_beam_is_valid(monkeypatch):
    module, loaded = ModuleType("pipeline.models.embedding"), []

    class Model:
        def encode(self, texts):
            return np.array(
                [[1.0, 0.0] if text in ("devour fruit", "eat apple") else [0.0, 1.0] for text in texts]
            )

    module.load_embedder = lambda address: loaded.append(address) or Model()
    monkeypatch.setitem(sys.modules, "pipeline.models.embedding", module)
    assert proposed(Searching([["wait"]]), ["wait"], embedder="minilm").flags == () and loaded == []
    made = proposed(Searching([["devour fruit"]]), ["wait", "eat apple"], embedder="minilm")
    assert (made.action, made.flags, loaded) == ("eat apple", ("matched_embedding",), ["minilm"])


TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=6), st.lists(TEXT, max_size=5))
def test_it_never_proposes_nothing(beams, valid):
    made = proposed(Searching([beams]), valid)
    assert made.action.strip()


def test_a_world_that_cannot_list_is_refused():
    with pytest.raises(RecipeError, match="'swift' needs an environment that lists valid actions"):
        Swift(MethodRecipe(name="swift")).agent(seat(Searching([["a"]])))


def test_settings_hold_what_changes_an_episode():
    def of(**swift):
        return Swift(MethodRecipe(name="swift", swift=SwiftRecipe(**swift))).settings(Larder())

    base = of()
    assert base["renderer"] == "swift/1" and base["max_tokens"] == 16
    assert base == Swift(MethodRecipe(name="swift", shots=0, max_tokens=99)).settings(Larder())
    for changed in ({"beams": 1}, {"history": 3}, {"embedder": "x"}, {"stops_in_loops": False}):
        assert of(**changed) != base


def test_it_is_trained_on_what_the_export_writes():
    from pipeline.cli.collect import _student_spec
    from pipeline.rendering.digest import spec_digest

    method, world = load_method(MethodRecipe(name="swift")), Larder()
    assert method.trained_as(world) == {
        "renderer": "swift",
        "style": "act",
        "spec_digest": spec_digest(_student_spec(world, "act", "swift")),
        "history": 10,
    }
