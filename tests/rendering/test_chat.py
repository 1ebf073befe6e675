"""The chat format: who says what."""

from __future__ import annotations

import pytest

from pipeline.errors import FormatError, RecipeError
from pipeline.rendering.chat import FORMS, ChatRenderer
from pipeline.rendering.registry import load_renderer
from pipeline.trajectories.schema import Step
from tests.rendering.making import spec, steps, task

RENDERER = ChatRenderer()
STYLES = ["react", "act", "reason", "answer"]


def said(prompt) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in prompt.messages]


def test_react_conversation():
    row = RENDERER.training(spec(), task("Where?"), steps("It is far."))
    assert said(row) == [
        ("system", f"Solve the task.\n\n{FORMS['react']}"),
        ("user", "Question: What is Bern?"),
        ("assistant", "Thought: I should look up topic 0.\nAction: Search[topic 0]"),
        ("user", "Observation: Bern is a city."),
        ("assistant", "Thought: Now I know.\nAction: Finish[Lima]"),
        ("user", "Question: Where?"),
        ("assistant", "Thought: I should look up topic 0.\nAction: Search[topic 0]"),
        ("user", "Observation: It is far."),
        ("assistant", "Thought: Now I know.\nAction: Finish[Lima]"),
    ]
    assert [message.shared for message in row.messages] == [True] * 5 + [False] * 4
    assert row.stop == ("\nObservation",)


@pytest.mark.parametrize(
    ("style", "content"),
    [
        ("react", "Thought: Now I know.\nAction: Finish[Lima]"),
        ("act", "Action: Finish[Lima]"),
        ("reason", "Thought: Now I know.\nAnswer: Lima"),
        ("answer", "Answer: Lima"),
    ],
)
def test_each_style(style, content):
    row = RENDERER.training(spec(style, shots=0), task(), steps())
    assert row.messages[-1].content == content
    read = RENDERER.parse(spec(style), content)
    assert (read.action, read.flags) == ("Finish[Lima]", ())
    assert FORMS[style] in row.messages[0].content


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("shots", [0, 2])
def test_roles_alternate_and_the_assistant_is_last(style, shots):
    row = RENDERER.training(spec(style, shots), task(), steps("x", "", "y"))
    roles = [message.role for message in row.messages]
    assert roles[0] == "system"
    assert roles[1:] == ["user", "assistant"] * (len(roles[1:]) // 2)
    assert all(message.content == message.content.strip() != "" for message in row.messages)


def test_prompts_are_prefixes_of_the_row():
    episode = steps("x", "y")
    row = RENDERER.training(spec(), task(), episode)
    for k in range(len(episode)):
        prompt = RENDERER.prompt(spec(), task(), episode[:k])
        assert row.messages[: len(prompt.messages)] == prompt.messages
        assert prompt.messages[-1].role == "user"


def test_an_unreadable_step_still_has_a_turn():
    prompt = RENDERER.prompt(spec(shots=0), task(), [Step(observation="No action was found.")])
    assert said(prompt)[-2:] == [("assistant", "Action:"), ("user", "Observation: No action was found.")]


def test_a_draft_is_refused():
    with pytest.raises(FormatError, match="half-written"):
        RENDERER.prompt(spec(), task(), [], draft="Hm")


def test_an_episode_without_steps_is_no_row():
    with pytest.raises(FormatError, match=r"'t1'.*without steps"):
        RENDERER.training(spec(), task(), [])


def test_renderers_have_names_and_versions():
    for name in ("text", "chat", "tools"):
        renderer = load_renderer(name)
        assert renderer.name == name
        assert renderer.version
    with pytest.raises(RecipeError, match=r"'prose'.*chat, text, tools"):
        load_renderer("prose")
