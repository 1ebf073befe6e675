"""From beams to valid actions (specification 4.5)."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.methods.swiftsage.matching import Match, clean_beam, match, swift_valid, swiftsage_valid
from pipeline.methods.swiftsage.repair import repair

LOOK = "This room is called the kitchen. In it, you see: \n\ta red apple\n\tunknown substance B\n"
HELD = "In your inventory, you see:\n\tan Orange\n"


def test_what_swift_alone_may_do():
    valid = [
        "focus on agent",
        "focus on kitchen",
        "focus on red apple",
        "focus on orange in inventory",
        "focus on unknown substance B",
        "focus on dove",
        "close door to hallway",
        "close art studio door",
        "open door to hallway",
        "eat red apple",
        "wait",
    ]
    kept = swift_valid(valid, LOOK, HELD, ["wait", "a", "b", "eat red apple"])
    assert [action for action in kept if not action.startswith("open door")] == [
        "focus on red apple",
        "focus on orange in inventory",
        "focus on unknown substance B",
        "wait",
    ]
    assert "open door to foundry" in kept and kept.count("open door to hallway") == 1


def test_what_swiftsage_may_do():
    task = "Your task is to find an animal. Focus on the Dove."
    valid = ["focus on dove", "focus on cat", "examine dove", "examine cat", "close door", "use cat on dove"]
    kept = [action for action in swiftsage_valid(valid, "1-1", task) if not action.startswith("open")]
    assert kept == ["focus on dove", "examine dove", "use cat on dove", "wait", "wait1"]
    assert "focus on cat" in swiftsage_valid(valid, "4-4", task)
    assert "examine cat" not in swiftsage_valid(valid, "4-4", task)
    assert "examine cat" in swiftsage_valid(valid, "9-2", task)


def test_beams_lose_their_control_tokens():
    assert clean_beam("<pad> open door to kitchen</s><pad>") == "open door to kitchen"
    assert clean_beam("<extra_id_0>") == ""


class Table:
    """Vectors by text; unknown texts have none."""

    def __init__(self, vectors):
        self.vectors = vectors

    def encode(self, texts):
        return np.array([self.vectors.get(text, [0.0, 0.0]) for text in texts])


def test_first_valid_beam_wins():
    assert match(["x", " go to green house ", "wait"], ["wait", "go to greenhouse"]) == Match(
        "go to greenhouse", "exact"
    )
    assert match(["1", "2", "3", "4", "5", "wait"], ["wait"]).how == "none"


def test_the_best_sum_of_cosines_wins_not_any_of_the_best_five():
    # Cosines with the two beams (1,0) and (0,1): a 1+0, b 0+1, c 0.707+0.707, d −1+0, e and f 0.6+0.8.
    table = Table(
        {
            "p": [2, 0],
            "q": [0, 3],
            "a": [9, 0],
            "b": [0, 1],
            "c": [5, 5],
            "d": [-1, 0],
            "e": [3, 4],
            "f": [0.3, 0.4],
        }
    )
    for order in ("abcdef", "fedcba", "cabdef"):
        assert match(["p", "q"], list(order), table) == Match("c", "embedding")
    assert match(["p"], ["e", "f", "d"], table) == Match("e", "embedding")
    assert match(["?"], ["b", "a"], table).action == "a"


def test_words_stand_in_for_the_model():
    valid = ["move red apple to stove", "eat red apple", "wait"]
    assert match(["eat the red apple"], valid) == Match("eat red apple", "words")
    assert match(["sing"], valid) == Match("sing", "none")
    assert match(["sing"], []) == Match("sing", "none") and match([], ["wait"]) == Match("", "none")


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=8), max_size=6), st.lists(st.text(max_size=8), max_size=6, unique=True))
def test_what_is_found_is_valid_and_never_depends_on_order(beams, valid):
    table = Table({text: [len(text), 1.0] for text in [*beams, *valid]})
    for embedder in (None, table):
        found = match(beams, valid, embedder)
        assert found == match(beams, valid[::-1], embedder)
        assert found.how == "none" or found.action in valid


def test_repairs():
    look = "In it, you see:\n\ta glass jar (containing a substance called sodium chloride)\n"
    held = "In your inventory, you see:\n\ta substance called lead\n"

    def mended(action, *valid):
        return repair(action, valid, look, held)

    assert mended("wait 5 minutes") == "wait"
    assert mended("go to green house", "teleport to greenhouse") == "teleport to greenhouse"
    assert mended("go to kitchen", "open door to kitchen") == "open door to kitchen"
    assert mended("pick up sodium chloride", "pick up glass jar") == "pick up glass jar"
    assert mended("focus on lead", "focus on substance in inventory") == "focus on substance in inventory"
    assert mended("move lead to stove", "move substance in inventory to stove") == (
        "move substance in inventory to stove"
    )
    assert mended("pick up cup in kitchen", "pick up cup") == "pick up cup"
    assert mended("focus on unknown substance B in kitchen", "focus on unknown substance") == (
        "focus on unknown substance"
    )
    assert mended("focus on adult dove", "focus on adult adult dove") == "focus on adult adult dove"
    assert mended("eat  sun in art studio") == "eat sun"
