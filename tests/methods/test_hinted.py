"""The hint stands in what the model is asked, and in nothing that is kept or trained on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.environments.base import Observation
from pipeline.errors import RecipeError
from pipeline.export.restyle import Style
from pipeline.export.rows import RENDERERS, Format, trajectory_rows
from pipeline.methods.base import Method, Seat
from pipeline.methods.hinted import HINTED, Hinted, hinted
from pipeline.methods.registry import load_method
from pipeline.models.base import Sampling
from pipeline.models.wire import prompt_text
from pipeline.recipe.models import MethodRecipe
from pipeline.rendering.registry import load_renderer
from pipeline.rollout.engine import Plan
from pipeline.rollout.episode import Limits, play
from pipeline.trajectories.files import to_json
from pipeline.trajectories.schema import Grade, Step, Task, Trajectory
from tests.methods.making import Expert, Recorder, Toy

FORMATS: list[tuple[Format, Style]] = [
    (kind, style)
    for kind in ("text", "messages", "sharegpt", "tools")
    for style in ("standard", "cot", "act", "react")
]
WORDS = ("Hint", "hint", "until you have seen why")


class World(Toy):
    """A toy whose episodes can be played: two actions, and it is over."""

    def __init__(self, opening: str = "", seen: str = "A city.") -> None:
        self.opening, self.seen = opening, seen

    def episode(self, task: Task) -> World:
        episode = World(self.opening, self.seen)
        episode.taken = 0
        return episode

    def reset(self) -> str:
        return self.opening

    def step(self, action: str) -> Observation:
        self.taken += 1
        return Observation(self.seen, done=self.taken == 2)

    def answer(self) -> str | None:
        return "Lima"

    def grade(self) -> Grade:
        return Grade(correct=True, reward=1.0)

    def close(self) -> None:
        pass


class Talker(Recorder):
    """A recorder that can sit in an episode."""

    def forget(self, session: str) -> None:
        pass


def recipe(renderer: str = "text", name: str = "react") -> MethodRecipe:
    return MethodRecipe(name=name, renderer=renderer, shots=0)  # type: ignore[arg-type]


def played(method: Method, world: World, task: Task) -> tuple[Trajectory, Talker]:
    model = Talker(" I look.\nAction 1: Search[Lima]", " So.\nAction 2: Finish[Lima]")
    seat: Any = Seat(task, world, model, Sampling(), "one", 5)
    whole = asyncio.run(play(seat, method, Limits(2), method.settings(world)))
    return whole, model


def make(gold: str, instruction: str = "Which city?") -> Task:
    return Task(id="toy-1", environment="toy", split="train", instruction=instruction, gold=[gold])


texts = st.text(max_size=60)


@given(gold=texts.filter(str.strip), instruction=texts, opening=texts, seen=texts)
@settings(max_examples=20, deadline=None)
def test_no_row_tells_a_hinted_episode_from_one_without(gold, instruction, opening, seen):
    world, task = World(opening, seen), make(gold, instruction)
    with_hint, asked = played(Hinted(recipe()), world, task)
    without, _ = played(load_method(recipe()), world, task)
    answer = " ".join(gold.split())
    if answer:
        assert all(f"(Hint: the answer is {answer}." in prompt_text(r.prompt) for r in asked.requests)
    assert with_hint.task == without.task == task
    assert [step.model_dump() for step in with_hint.steps] == [step.model_dump() for step in without.steps]
    for kind, style in FORMATS:
        renderer = load_renderer(RENDERERS[kind])
        spec = Hinted(recipe(renderer.name)).spec(world)  # type: ignore[arg-type]
        rows = [to_json(trajectory_rows(one, style, kind, spec, renderer)) for one in (with_hint, without)]
        assert rows[0] == rows[1]
        mine = instruction + opening + seen
        assert not any(word in rows[0] for word in WORDS if word not in mine)


@pytest.mark.parametrize("renderer", ["text", "chat", "tools"])
def test_the_prompt_is_that_of_the_task_with_one_line_more(renderer):
    world, task = World(), make("San  José\nde Mayo")
    method = load_method(recipe(renderer))
    _, asked = played(Hinted(recipe(renderer)), world, task)
    _, plain = played(method, world, task)
    line = "\n(Hint: the answer is San José de Mayo. Act until you have seen why.)"
    for mine, theirs in zip(asked.requests, plain.requests, strict=True):
        assert prompt_text(mine.prompt).count(line) == 1
        assert prompt_text(mine.prompt).replace(line, "") == prompt_text(theirs.prompt)


def test_an_opening_that_says_the_task_again_is_not_shown_twice():
    world = World(opening="Question: Which city?")
    _, asked = played(Hinted(recipe()), world, make("Lima"))
    assert prompt_text(asked.requests[0].prompt).count("Which city?") == 1


def test_an_opening_is_shown_before_the_hint():
    _, asked = played(Hinted(recipe()), World(opening="You are in a room."), make("Lima"))
    assert "Which city?\nYou are in a room.\n(Hint:" in prompt_text(asked.requests[0].prompt)


def test_a_hinted_episode_has_an_identity_of_its_own():
    world: Any = World()
    model: Any = Talker()
    plans = [Plan(world, method, recipe(), model) for method in (Hinted(recipe()), load_method(recipe()))]
    assert plans[0].method.name == plans[1].method.name == "react"
    assert plans[0].settings()[HINTED] is True and HINTED not in plans[1].settings()
    assert plans[0].identity(make("Lima"), 0) != plans[1].identity(make("Lima"), 0)


def test_an_expert_is_asked_for_the_task_itself():
    model: Any = Expert(Step(thought="I know.", action="Finish[Lima]"))
    seat = Seat(make("Lima"), World(), model, Sampling(), "one", 5)
    proposal = asyncio.run(Hinted(recipe()).agent(seat).propose(()))
    assert proposal.action == "Finish[Lima]" and "Hint" not in proposal.completion


@pytest.mark.parametrize("name", ["standard", "cot", "cot_sc"])
def test_only_acting_methods_are_hinted(name):
    with pytest.raises(RecipeError, match="cannot be given a hint"):
        Hinted(recipe(name=name))


@pytest.mark.parametrize("gold", [[], [""], [" \n"]])
def test_a_task_without_an_answer_has_no_hint(gold):
    with pytest.raises(RecipeError, match="'toy-1' has no answer"):
        hinted(make("x").model_copy(update={"gold": gold}))
