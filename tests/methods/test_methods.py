"""What each method asks, and what it makes of the answer."""

from __future__ import annotations

import asyncio
from importlib.metadata import EntryPoint

import pytest

from pipeline.errors import RecipeError
from pipeline.methods import registry
from pipeline.methods.acting import Act, ReAct
from pipeline.methods.answering import ChainOfThought, Standard
from pipeline.methods.registry import load_method, method_names
from pipeline.models.base import Completion
from pipeline.recipe.models import MethodRecipe
from pipeline.rendering.base import ChatPrompt, TextPrompt
from pipeline.trajectories.schema import Step
from tests.methods.making import EXEMPLARS, Expert, Recorder, Taught, propose, seat

PLAYED = (
    Step(thought="I look.", action="Search[Lima]"),
    Step(thought="Seen.\nObservation: no", action="Finish[yes]"),
)


def method(name: str, **settings):
    return load_method(MethodRecipe(name=name, **settings))


def test_the_four_methods_are_there():
    assert {"standard", "cot", "act", "react"} <= set(method_names())
    wanted = {"standard": Standard, "cot": ChainOfThought, "act": Act, "react": ReAct}
    for name, kind in wanted.items():
        made = method(name)
        assert type(made) is kind
        assert made.name == name
        assert made.single_step == (name in ("standard", "cot"))


def test_an_unknown_method_is_named():
    with pytest.raises(
        RecipeError,
        match=r"'swim'.*act, cot, cot_sc, cot_sc_then_react, random_valid, react, react_im, react_then_cot_sc, standard, swift, swiftsage",
    ):
        method("swim")


def test_a_broken_method_is_named(monkeypatch):
    entry = EntryPoint("mine", "no_such_module:Mine", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
    with pytest.raises(RecipeError, match="no_such_module"):
        method("mine")
    monkeypatch.setattr(registry, "entry_points", lambda group: [])
    with pytest.raises(RecipeError, match="not installed"):
        method("react")


@pytest.mark.parametrize(
    ("name", "answer", "thought", "action"),
    [
        ("standard", " yes", "", "Finish[yes]"),
        ("cot", " It is.\nAnswer: yes", "It is.", "Finish[yes]"),
        ("act", " Search[Lima]", "", "Search[Lima]"),
        ("react", " Hm.\nAction 1: Search[Lima]", "Hm.", "Search[Lima]"),
    ],
)
def test_one_call_a_step(name, answer, thought, action):
    model = Recorder(answer)
    made = propose(method(name), seat(model))
    assert (made.thought, made.action, made.completion, made.flags) == (thought, action, answer, ())
    (request,) = model.requests
    assert isinstance(request.prompt, TextPrompt)
    assert request.session == "session-1"
    assert request.sampling.max_tokens == 7
    assert made.usage.calls == 1


@pytest.mark.parametrize("name", ["standard", "cot", "act", "react"])
def test_chat_prompts(name):
    model = Recorder("Thought: a\nAnswer: yes\nAction: Finish[yes]")
    made = propose(method(name, renderer="chat"), seat(model))
    assert isinstance(model.requests[0].prompt, ChatPrompt)
    assert made.action.startswith("Finish[")


def test_react_insists_on_an_action_once():
    model = Recorder(" I think.\nMore.", " Search[Lima]")
    made = propose(method("react"), seat(model))
    assert model.requests[1].prompt.text.endswith("Thought 1: I think.\nAction 1:")
    assert made.thought == "I think."
    assert made.action == "Search[Lima]"
    assert made.completion == " I think.\nMore.\nAction 1: Search[Lima]"
    assert made.flags == ("second_call",)
    assert (made.usage.calls, made.usage.prompt_tokens) == (2, 20)
    assert model.requests[0].seed != model.requests[1].seed


def test_react_gives_up_after_two_calls():
    model = Recorder("Observation 1: no", " \n")
    made = propose(method("react"), seat(model))
    assert made.action == ""
    assert made.flags == ("hallucinated_observation", "no_action", "second_call")
    assert len(model.requests) == 2


@pytest.mark.parametrize(("name", "renderer"), [("react", "chat"), ("act", "text")])
def test_only_react_in_raw_text_insists(name, renderer):
    made = propose(method(name, renderer=renderer), seat(Recorder("\n")))
    assert made.flags == ("no_action",)


def test_an_action_that_the_budget_cut_is_not_carried_out():
    cut = Completion(" a\nAction 1: Search[the end", stop_reason="length")
    made = propose(method("act"), seat(Recorder(Completion(" Search[the end", stop_reason="length"))))
    assert (made.action, made.flags, made.stop_reason) == ("", ("truncated", "no_action"), "length")
    made = propose(method("react"), seat(Recorder(cut, " Search[the end]")))
    assert (made.thought, made.action, made.flags) == ("a", "Search[the end]", ("second_call",))


def test_text_after_the_action_does_not_make_it_cut():
    ran_on = Completion(" a\nAction 1: go north\nObservation 1: invented", stop_reason="length")
    made = propose(method("react"), seat(Recorder(ran_on)))
    assert (made.action, made.flags) == ("go north", ("hallucinated_observation",))
    whole = Completion(" a\nAction 1: Search[x]", stop_reason="length")
    assert propose(method("react"), seat(Recorder(whole))).action == "Search[x]"


def test_flags_of_the_model_are_kept():
    made = propose(method("act"), seat(Recorder(Completion("", flags=("truncated_in_reasoning",)))))
    assert made.flags == ("truncated_in_reasoning", "no_action")


def test_seeds_depend_on_the_episode_and_the_step_alone():
    def seeds(seed: int, steps: list[Step]) -> int:
        model = Recorder("x\nAction 1: y")
        propose(method("react"), seat(model, seed=seed), steps)
        return model.requests[0].seed

    step = [Step(action="Search[x]", observation="y")]
    assert seeds(1, []) == seeds(1, [])
    assert len({seeds(1, []), seeds(2, []), seeds(1, step)}) == 3


@pytest.mark.parametrize("renderer", ["text", "chat"])
def test_an_expert_is_played(renderer):
    expert = Expert(*PLAYED)
    made = method("react", renderer=renderer)
    agent = made.agent(seat(expert))
    assert expert.asked == []
    first = asyncio.run(agent.propose([]))
    done = [Step(thought=first.thought, action=first.action, observation="Lima is a city.")]
    second = asyncio.run(agent.propose(done))
    third = asyncio.run(agent.propose([*done, *done]))
    assert expert.asked == [("toy-1", "toy", 5)]
    assert (first.thought, first.action) == ("I look.", "Search[Lima]")
    assert (second.thought, second.action) == ("Seen. Observation: no", "Finish[yes]")
    assert third.flags == ("no_action",)
    wanted = {
        "text": " Seen. Observation: no\nAction 2: Finish[yes]",
        "chat": "Thought: Seen. Observation: no\nAction: Finish[yes]",
    }
    assert second.completion == wanted[renderer]
    read = made.renderer.parse(made.spec(seat(expert).environment), second.completion)
    assert (read.thought, read.action, read.flags) == (second.thought, second.action, ())


def test_an_expert_that_acts_only_has_no_thoughts():
    made = propose(method("act"), seat(Expert(*PLAYED)))
    assert (made.thought, made.action, made.completion) == ("", "Search[Lima]", " Search[Lima]")


@pytest.mark.parametrize(
    ("name", "thought", "completion"),
    [
        ("standard", "", " yes"),
        ("cot", "I look. Seen. Observation: no", " I look. Seen. Observation: no\nAnswer: yes"),
    ],
)
def test_an_expert_answers_at_once(name, thought, completion):
    made = propose(method(name), seat(Expert(*PLAYED)))
    assert (made.thought, made.action, made.completion) == (thought, "Finish[yes]", completion)


def test_settings_hold_what_the_model_sees(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(EXEMPLARS)
    base = method("react").settings(Taught(path))
    assert base == method("react", max_steps=3, format_errors=0).settings(Taught(path))
    others = [
        method("act").settings(Taught(path)),
        method("react", renderer="chat").settings(Taught(path)),
        method("react", shots=1).settings(Taught(path)),
        method("react", max_tokens=5).settings(Taught(path)),
        method("react", temperature=0.5).settings(Taught(path)),
        method("react", top_p=0.5).settings(Taught(path)),
    ]
    path.write_text(EXEMPLARS.replace("I look up Bern.", "I look for Bern."))
    others.append(method("react").settings(Taught(path)))
    assert all(other != base for other in others)
