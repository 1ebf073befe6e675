"""Which tasks rounds play, when they end, and which rationalised trajectories they keep."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.bootstrap.rationalize import failed_tasks, grounded, hint_fault, silent
from pipeline.bootstrap.rounds import best_round, round_panels, round_recipe, rounds_of, stops, union
from pipeline.errors import RecipeError
from pipeline.recipe.models import MethodRecipe, PanelRecipe, Recipe, RoundsRecipe
from pipeline.trajectories.panels import normal_text
from pipeline.trajectories.schema import Grade, Step, Trajectory
from tests.bootstrap.making import make_task, make_trajectory

REACT = MethodRecipe(name="react", shots=0)
WHOLE = {
    "name": "star",
    "environment": {"name": "atlas"},
    "models": {"base": {"address": "b"}},
    "generate": {"panel": {"split": "train", "size": 4}},
    "select": {"target": 7, "per_task": 2, "exclude": [{"split": "test", "size": 3}]},
    "export": {"format": "text"},
    "train": {"model": "base"},
    "rounds": {"tasks": 5, "method": {"name": "react", "shots": 0}},
    "evaluate": {
        "entries": [
            {"model": "base", "method": {"name": "react"}},
            {"model": "student", "method": {"name": "react", "shots": 0}},
        ],
    },
}


@given(
    numbers=st.lists(st.integers(0, 60), min_size=20, max_size=60),
    taken=st.sets(st.integers(0, 60), max_size=10),
    most=st.integers(1, 4),
    size=st.integers(1, 4),
    seed=st.integers(0, 9),
    data=st.data(),
)
@settings(max_examples=100, deadline=None)
def test_round_panels_share_nothing_with_each_other_or_with_what_is_taken(
    numbers, taken, most, size, seed, data
):
    # Tasks 0 to 60; every third asks what the one before it asks, in other letters.
    tasks = [
        make_task(n, instruction=f"City number {n - 1}!" if n % 3 == 2 else f"city Number {n}")
        for n in set(numbers)
    ]
    words = [word for n in taken for word in (f"t{n}", f"City number {n}")]
    recipe = RoundsRecipe(tasks=size, most=most, method=REACT)
    left = {normal_text(t.problem) for t in tasks if t.id not in words}
    left -= {normal_text(word) for word in words}
    if len(left) < most * size:
        with pytest.raises(RecipeError, match=r"lower rounds\.most"):
            round_panels(tasks, recipe, seed, words)
        return
    panels = round_panels(tasks, recipe, seed, words)
    assert [len(panel) for panel in panels] == [size] * most
    problems = [normal_text(task.problem) for panel in panels for task in panel.tasks]
    assert len(set(problems)) == most * size and set(problems) <= left
    assert not {name for panel in panels for name in panel.ids} & set(words)
    again = data.draw(st.permutations(tasks))
    fewer = RoundsRecipe(tasks=size, most=1, method=REACT)
    assert round_panels(again, fewer, seed, words) == panels[:1]


scores = st.lists(st.floats(0, 1), min_size=1, max_size=8)


@given(dev=scores, gain=st.floats(-1, 1))
def test_a_round_goes_on_only_above_the_best_before(dev, gain):
    if len(dev) == 1:
        assert not stops(dev, gain), "round 1 is always played"
    else:
        assert stops(dev, gain) == any(dev[-1] <= before + gain for before in dev[:-1])


@given(dev=scores)
def test_with_no_gain_asked_for_every_round_that_went_on_was_the_best_so_far(dev):
    played = 1
    while played < len(dev) and not stops(dev[:played], 0.0):
        played += 1
    assert all(dev[n] > max(dev[:n]) for n in range(1, played - 1))
    assert best_round(dev[:played]) >= played - 2


@given(dev=scores)
def test_the_best_round_is_the_first_of_the_highest(dev):
    assert best_round(dev) == dev.index(max(dev))


@pytest.mark.parametrize(
    ("dev", "gain", "ends"),
    [
        ([0.5], 0.0, False),
        ([0.5, 0.5], 0.0, True),
        ([0.5, 0.6], 0.0, False),
        ([0.5, 0.6], 0.2, True),
        ([0.5, 0.8, 0.6], 0.0, True),
        ([0.5, 0.5], -1.0, False),
    ],
)
def test_when_rounds_end(dev, gain, ends):
    assert stops(dev, gain) is ends


def hinted(
    *steps: tuple[str, str, str], answer: str | None = "Lima", instruction: str = "Which city?"
) -> Trajectory:
    return make_trajectory(
        task=make_task(instruction=instruction),
        steps=[Step(thought=t, action=a, observation=o) for t, a, o in steps],
        answer=answer,
        settings={"hinted": True},
    )


FINISH = ("So it is Lima.", "Finish[Lima]", "Episode finished.")


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        ([("I look up Peru.", "Search[Peru]", "Peru's capital is Lima."), FINISH], True),
        ([("I look up Peru.", "Search[Peru]", "Its capital is LIMA, a port."), FINISH], True),
        ([FINISH], False),
        ([("I look up Peru.", "Search[Peru]", "Peru is a country."), FINISH], False),
        ([("I look up Peru.", "Search[Peru]", "The Limas live in Limatambo."), FINISH], False),
        # The answer is looked up because it was given, and of course it is found.
        ([("I look up Lima.", "Search[Lima]", "Lima is the capital of Peru."), FINISH], False),
        ([("It must be Lima.", "Search[Peru]", "Peru's capital is Lima."), FINISH], False),
        (
            [("I look.", "Search[Peru]", "Peru: Lima."), ("Lima.", "Search[Lima]", "A city."), FINISH],
            True,
        ),
        # The last observation is the verdict: nobody acts on it.
        ([("I look up Peru.", "Search[Peru]", "Nothing."), ("So.", "Finish[Lima]", "Lima is right.")], False),
    ],
)
def test_an_answer_is_seen_before_it_is_spoken_of(steps, kept):
    assert grounded(hinted(*steps)) is kept
    assert hint_fault(hinted(*steps)) == (None if kept else "grounded")


def test_what_the_question_names_may_be_looked_up():
    steps = [("I look up Lima.", "Search[Lima]", "Lima has 10 million people."), FINISH]
    assert grounded(hinted(*steps, instruction="Which is larger, Lima or Cusco?"))
    blind = [("I look up Cusco.", "Search[Cusco]", "It is small."), FINISH]
    assert not grounded(hinted(*blind, instruction="Which is larger, Lima or Cusco?"))


@pytest.mark.parametrize("answer", ["yes", "No", "SUPPORTS", "NOT ENOUGH INFO"])
def test_a_label_stands_in_no_text(answer):
    assert grounded(
        hinted(("I look.", "Search[Peru]", "Peru."), ("So.", f"Finish[{answer}]", ""), answer=answer)
    )


def test_a_world_without_answers_has_nothing_to_copy():
    assert grounded(hinted(("", "open door", "It is open."), answer=None))
    assert not grounded(hinted(("I look.", "Search[Peru]", "Peru."), ("", "Finish[?]", ""), answer="?"))


@pytest.mark.parametrize(
    "thought",
    [
        "The hint says Lima.",
        "As hinted, it is Lima.",
        "The given answer is Lima.",
        "I was told the answer.",
        "I already know the answer.",
        "The answer that was given is Lima.",
        "The answer is already known.",
    ],
)
def test_whoever_speaks_of_a_hint_is_not_trained_on(thought):
    steps = [("I look up Peru.", "Search[Peru]", "Peru's capital is Lima."), (thought, "Finish[Lima]", "")]
    assert not silent(hinted(*steps)) and hint_fault(hinted(*steps)) == "silent"
    plain = hinted(*steps).model_copy(update={"settings": {}})
    assert hint_fault(plain) is None, "without a hint the rules do not apply"


@pytest.mark.parametrize("thought", ["So the answer is Lima.", "I know of Hinton.", "That is known."])
def test_other_words_are_free(thought):
    assert silent(hinted((thought, "Finish[Lima]", "")))


def test_a_union_is_read_as_often_as_it_is_asked_for():
    good = make_trajectory(1)
    copied = hinted(FINISH)
    read = union(lambda: [good], lambda: iter([copied, make_trajectory(2)]))
    assert [t.id for t in read()] == [t.id for t in read()] == ["id1", "id2"]


def test_failed_are_the_tasks_without_a_correct_episode_and_with_an_answer():
    tasks = [make_task(1), make_task(2), make_task(3, gold=[]), make_task(4)]
    wrong = make_trajectory(2, grade=Grade())
    played = [wrong, make_trajectory(4, grade=Grade()), make_trajectory(4), make_trajectory(3, grade=Grade())]
    assert [t.id for t in failed_tasks(tasks, played)] == ["t1", "t2"]


def test_a_rounds_recipe_trains_the_same_base_on_more():
    whole = Recipe.model_validate(WHOLE)
    recipe = round_recipe(whole, 2, [PanelRecipe(split="dev")])
    assert recipe.name == "star-round-2" and recipe.rounds is None and recipe.generate is None
    assert recipe.train == whole.train and recipe.models == whole.models and recipe.export == whole.export
    assert recipe.select and recipe.select.target == 7 + 2 * 5 * 2
    assert [panel.split for panel in recipe.select.exclude] == ["test", "dev"]
    assert recipe.evaluate and [entry.model for entry in recipe.evaluate.entries] == ["student"]
    assert Recipe.model_validate(recipe.model_dump(mode="json")) == recipe


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"generate": None}, "'generate'"),
        ({"select": None}, "'select'"),
        ({"evaluate": None}, "'evaluate'"),
        ({"train": {"model": "base", "run": "other"}}, "train.run"),
        ({"train": {"model": "base", "dpo": {}}}, "train.dpo"),
        ({"export": {"format": "text", "pairs": {}}}, "export.pairs"),
        ({"evaluate": {"entries": WHOLE["evaluate"]["entries"][:1]}}, "must be student"),
        ({"evaluate": {**WHOLE["evaluate"], "checkpoints": "checkpoints"}}, r"evaluate\.checkpoints"),
    ],
)
def test_what_rounds_cannot_do_is_refused(change, message):
    with pytest.raises(RecipeError, match=message):
        rounds_of(Recipe.model_validate({**WHOLE, **change}))
