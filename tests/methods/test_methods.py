"""What each method asks, and what it makes of the answer."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from pipeline.errors import RecipeError
from pipeline.export.rows import trajectory_rows
from pipeline.methods import prompted, registry
from pipeline.methods.acting import Act, ReAct
from pipeline.methods.answering import ChainOfThought, Standard
from pipeline.methods.registry import load_method, method_names
from pipeline.models.base import Completion
from pipeline.recipe.models import MethodRecipe
from pipeline.rendering.base import ChatPrompt, TextPrompt, ToolSpec
from pipeline.trajectories.schema import Outcome, Step, Trajectory
from tests.methods.making import EXEMPLARS, Expert, Recorder, Taught, Toy, propose, seat

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
        match=r"'swim'.*act, cot, cot_sc, cot_sc_then_react, random_valid, react, react_im, "
        r"react_then_cot_sc, standard, swift, swiftsage",
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


class Plain(Toy):
    """A toy whose actions are plain text, and whose expert keeps a thread busy."""

    tools = (ToolSpec("act", "action", "does what it says"),)
    free_form = True
    blocking = True


def cut(text: str) -> Completion:
    return Completion(text, stop_reason="length")


@pytest.mark.parametrize(
    ("name", "text", "action"),
    [
        ("act", " go nor", ""),
        ("act", " go north\n", "go north"),
        ("act", " go north\nObserv", "go north"),
        ("act", " act[go north]", "act[go north]"),
        ("react", " Hm.\nAction 1: go north\n ", "go north"),
    ],
)
def test_free_text_that_the_budget_cut_is_carried_out_where_its_line_is_whole(name, text, action):
    made = propose(method(name), seat(Recorder(cut(text)), Plain()))
    assert made.action == action
    assert made.flags == (("truncated",) if action else ("truncated", "no_action"))


def test_free_text_cut_behind_its_action_is_whole():
    text = " Hm.\nAction 1: go north\nObservation 1: You go"
    made = propose(method("react"), seat(Recorder(cut(text)), Plain()))
    assert (made.action, made.flags) == ("go north", ("hallucinated_observation",))


def test_a_cut_in_a_line_of_reasoning_hides_no_cut_action():
    made = propose(method("act"), seat(Recorder(cut("<think>Hm.</think> go nor")), Plain()))
    assert (made.action, made.flags) == ("", ("reasoning", "truncated", "no_action"))


def test_a_tool_call_is_never_half_an_action():
    call = '<tool_call>\n{"name": "act", "arguments": {"action": "go north"}}\n'
    made = propose(method("act", renderer="tools"), seat(Recorder(cut(call)), Plain()))
    assert (made.thought, made.action, made.flags) == ("", "go north", ("truncated",))
    made = propose(method("act", renderer="tools"), seat(Recorder(cut(call[:-8])), Plain()))
    assert made.action == ""


def test_react_insists_where_a_thought_is_empty():
    model = Recorder("\n", " go north")
    made = propose(method("react"), seat(model, Plain()))
    assert model.requests[1].prompt.text.endswith("\nThought 1:\nAction 1:")
    assert (made.thought, made.action, made.flags) == ("", "go north", ("second_call",))


def test_zero_shot_says_that_actions_are_plain_text():
    told = method("react").spec(Plain()).instruction
    assert "An action is plain text on one line, without brackets.\nEvery action does what it says." in told
    assert "act[" not in told


@pytest.mark.parametrize("renderer", ["text", "chat", "tools"])
@pytest.mark.parametrize("name", ["act", "react"])
def test_an_agent_is_shown_the_opening_as_its_rows_show_it(name, renderer):
    model = Recorder("Action: wait")
    made = method(name, renderer=renderer)
    at = replace(seat(model, Plain()), opening="A room.\n\tA cup.\n")
    propose(made, at)
    fixed = made.spec(at.environment)
    step = Step(thought="Hm.", action="wait")
    trajectory = Trajectory(
        id="x",
        task=at.task,
        method=name,
        model="m",
        opening=at.opening,
        steps=[step],
        outcome=Outcome.FINISHED,
    )
    kind = {"text": "text", "chat": "messages", "tools": "tools"}[renderer]
    [row] = trajectory_rows(trajectory, name, kind, fixed, made.renderer)
    prompt = model.requests[0].prompt
    if renderer == "text":
        assert "Question: Is Lima a city?\nA room.\n\tA cup.\n" in prompt.text
        assert row["prompt"] == prompt.text
    else:
        assert prompt.messages[-1].content == "Question: Is Lima a city?\nA room.\n\tA cup."
        assert [m["content"] for m in row["messages"][:-1]] == [m.content for m in prompt.messages]
    expert = replace(at, model=Expert(Step(action="wait")))
    assert propose(made, expert).action == "wait"


def test_an_expert_of_a_blocking_world_is_asked_in_a_thread():
    threads = []

    class Slow(Expert):
        def plays(self, task, environment, seed):
            threads.append(threading.current_thread())
            yield Step(action="wait")

    agent = method("act").agent(seat(Slow(), Plain()))

    async def play():
        return [await agent.propose([]), await agent.propose([Step(action="wait")])]

    first, second = asyncio.run(play())
    assert (first.action, second.flags) == ("wait", ("no_action",))
    assert threads != [threading.main_thread()]
    propose(method("act"), seat(Slow(), Toy()))
    assert threads[1:] == [threading.main_thread()]


def test_settings_of_other_worlds_do_not_know_of_free_text():
    fixed = method("react").spec(Toy())
    assert not fixed.free_form
    assert prompted._plain(fixed).keys() == {"style", "label", "instruction", "exemplars"}
    assert prompted._plain(replace(fixed, free_form=True))["free_form"]
