"""Random valid actions: always valid, drawn by the episode's seed and the step alone."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import RecipeError
from pipeline.methods.random_valid import RandomValid
from pipeline.models.expert import ExpertModel
from pipeline.recipe.models import MethodRecipe
from pipeline.trajectories.schema import Step, Usage
from tests.methods.swiftsage.fakes import Larder, played, seat

METHOD = RandomValid(MethodRecipe(name="random_valid"))


def drawn(valid, seed=5, steps=()):
    async def listing():
        return valid

    at = replace(seat(ExpertModel()), seed=seed, valid_actions=listing)
    return asyncio.run(METHOD.agent(at).propose(steps))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=9), st.integers(0, 2**63 - 1))
def test_what_is_drawn_is_valid_and_repeats(valid, seed):
    made = drawn(valid, seed)
    assert made.action in valid and made == drawn(valid, seed) and made.usage == Usage()


def test_seeds_and_steps_draw_apart_and_evenly():
    valid = list("abcd")
    by_seed = Counter(drawn(valid, seed).action for seed in range(400))
    by_step = Counter(drawn(valid, 5, [Step(action="x")] * number).action for number in range(400))
    # Four equally likely actions: 100 each, with a standard deviation of 8.7.
    for counts in (by_seed, by_step):
        assert set(counts) == set(valid) and all(60 < count < 140 for count in counts.values())


def test_nothing_to_do_gives_up():
    assert drawn([]).gives_up and drawn(["", " "]).gives_up


def test_an_episode_in_which_the_model_is_never_asked():
    made = played("random_valid", ExpertModel(), steps=12)
    assert made.model == "expert" and made.usage == Usage() and not any(step.invalid for step in made.steps)
    assert [step.action for step in made.steps] == [
        step.action for step in played("random_valid", None or ExpertModel(), steps=12).steps
    ]


def test_a_world_that_cannot_list_is_refused():
    with pytest.raises(RecipeError, match="'random_valid' needs an environment that lists valid actions"):
        METHOD.agent(seat(ExpertModel()))
    assert METHOD.settings(Larder()) == {"method": "random_valid"}
    assert METHOD.spec(Larder()).style == "act"
