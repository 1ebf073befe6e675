from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from pipeline.errors import EnvironmentFault, ModelError
from pipeline.models.base import Completion, Request
from pipeline.models.expert import ExpertModel
from pipeline.models.scripted import ScriptedModel
from pipeline.rendering.base import ChatPrompt, Message, Segment, TextPrompt
from pipeline.trajectories.schema import Step, Task

TASK = Task(id="t1", environment="toy", split="train", instruction="i")


def request(session: str = "a", text: str = "one two", stop: tuple[str, ...] = ()) -> Request:
    return Request(TextPrompt((Segment(text),), stop), session=session)


def say(model: ScriptedModel, *requests: Request) -> list[str]:
    async def all_of_them() -> list[str]:
        return [(await model.generate(asked)).text for asked in requests]

    return asyncio.run(all_of_them())


def test_each_episode_reads_the_list_from_its_start() -> None:
    model = ScriptedModel(["1", "2"])
    assert say(model, request("a"), request("b"), request("a"), request("a")) == ["1", "1", "2", "2"]
    model.forget("a")
    assert say(model, request("a"), request("b")) == ["1", "2"]


def test_a_function_answers_and_stops_cut() -> None:
    model = ScriptedModel(lambda asked: f"{asked.session} and\nObservation: no", delay=lambda _: 0.0)
    found = asyncio.run(model.generate(request(stop=("\nObservation",))))
    assert found.text == "a and"
    assert (found.usage.prompt_tokens, found.usage.completion_tokens, found.usage.calls) == (2, 2, 1)
    asyncio.run(model.close())


def test_a_whole_completion_is_passed_on() -> None:
    cut = Completion("x", "length", flags=("truncated_in_reasoning",))
    model = ScriptedModel(lambda _: cut)
    asked = Request(ChatPrompt((Message("user", "hello there"),)))
    assert asyncio.run(model.generate(asked)) is cut


def test_errors_of_the_function_pass_and_no_replies_are_refused() -> None:
    def fails(_: Request) -> str:
        raise ModelError("down")

    with pytest.raises(ModelError, match="down"):
        say(ScriptedModel(fails), request())
    with pytest.raises(ValueError, match="at least one"):
        ScriptedModel([])


class World:
    name = "toy"

    def __init__(self, steps: list[Step] | None) -> None:
        self.steps = steps

    def expert(self, task: Task, seed: int) -> Iterator[Step] | None:
        return None if self.steps is None else iter([*self.steps, Step(action=f"{task.id} {seed}")])


def test_the_expert_plays_and_does_not_write() -> None:
    model = ExpertModel()
    assert [step.action for step in model.plays(TASK, World([Step(action="go")]), 7)] == ["go", "t1 7"]
    with pytest.raises(EnvironmentFault, match="no expert for task 't1'"):
        model.plays(TASK, World(None), 7)
    with pytest.raises(ModelError):
        asyncio.run(model.generate(request()))
    model.forget("a")
    asyncio.run(model.close())


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (KeyError("Paris"), "expert of environment 'toy' failed on task 't1': KeyError: 'Paris'"),
        (EnvironmentFault("no facts"), "no facts"),
    ],
)
def test_an_expert_that_fails_is_the_environments_fault(raised: Exception, said: str) -> None:
    def steps() -> Iterator[Step]:
        yield Step(action="go")
        raise raised

    world = World([])
    world.expert = lambda task, seed: steps()  # type: ignore[method-assign]
    played = ExpertModel().plays(TASK, world, 0)
    assert next(played).action == "go"
    with pytest.raises(EnvironmentFault, match=said):
        next(played)
