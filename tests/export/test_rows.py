from __future__ import annotations

from typing import Any

import pytest

from pipeline.errors import FormatError
from pipeline.export.messages import plain_messages
from pipeline.export.rows import trajectory_rows
from pipeline.export.sharegpt import sharegpt_rows
from pipeline.export.text import text_rows
from pipeline.rendering.base import ChatPrompt, Message, PromptSpec, Segment, TextPrompt
from pipeline.rendering.registry import load_renderer
from tests.bootstrap.making import make_trajectory

REACT = PromptSpec(style="react", label="Question", instruction="Answer the question.")


def chat(*turns: tuple[Any, str]) -> ChatPrompt:
    return ChatPrompt(tuple(Message(role, content) for role, content in turns))


def test_one_text_row_a_step() -> None:
    prompt = TextPrompt(
        (
            Segment("Question: q\n", "context"),
            Segment("Thought 1:", "frame"),
            Segment(" t\nAction 1: Search[x]\n", "model"),
            Segment("Observation", "model"),
            Segment(" 1: o\n", "context"),
            Segment("Thought 2:", "frame"),
            Segment(" u\nAction 2: Finish[y]\n", "model"),
        )
    )
    assert text_rows(prompt, steps=2) == [
        {
            "step": 1,
            "prompt": "Question: q\nThought 1:",
            "completion": " t\nAction 1: Search[x]\nObservation",
        },
        {
            "step": 2,
            "prompt": "Question: q\nThought 1: t\nAction 1: Search[x]\nObservation 1: o\nThought 2:",
            "completion": " u\nAction 2: Finish[y]\n",
        },
    ]
    with pytest.raises(FormatError, match="2 model parts for an episode of 3 steps"):
        text_rows(prompt, steps=3)


def test_two_assistant_turns_in_a_row_become_one() -> None:
    prompt = chat(
        ("user", "q"),
        ("assistant", "Thought: t"),
        ("assistant", "Action: a"),
        ("user", "o"),
        ("assistant", "f"),
    )
    assert plain_messages(prompt) == [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "Thought: t\nAction: a"},
        {"role": "user", "content": "o"},
        {"role": "assistant", "content": "f"},
    ]


def test_the_last_message_is_from_the_assistant() -> None:
    prompt = chat(("user", "q"), ("assistant", "a"), ("user", "Observation: done"))
    assert [message["role"] for message in plain_messages(prompt)] == ["user", "assistant"]
    with pytest.raises(FormatError, match="no assistant message"):
        plain_messages(chat(("system", "s"), ("user", "q")))


def test_sharegpt_names() -> None:
    prompt = chat(("system", "s"), ("user", "q"), ("assistant", "a"))
    assert sharegpt_rows(prompt) == [
        {
            "conversations": [
                {"from": "system", "value": "s"},
                {"from": "human", "value": "q"},
                {"from": "gpt", "value": "a"},
            ]
        }
    ]


def test_text_rows_of_a_real_episode() -> None:
    rows = trajectory_rows(make_trajectory(), "react", "text", REACT, load_renderer("text"))
    assert [(row["id"], row["task"], row["kind"], row["step"]) for row in rows] == [
        ("id1", "t1", "bridge2", 1),
        ("id1", "t1", "bridge2", 2),
    ]
    first, second = rows
    assert second["prompt"].startswith(first["prompt"] + first["completion"])
    assert "Which city is number 1?" in first["prompt"]
    assert "I look it up." in first["completion"]
    assert "Search[Peru]" in first["completion"]
    assert "Peru's capital is Lima." in second["prompt"]
    assert "Finish[Lima]" in second["completion"]


def test_each_prompt_is_what_will_be_served() -> None:
    trajectory, renderer = make_trajectory(), load_renderer("text")
    rows = trajectory_rows(trajectory, "react", "text", REACT, renderer)
    for index, row in enumerate(rows):
        served = renderer.prompt(REACT, trajectory.task, trajectory.steps[:index])
        assert isinstance(served, TextPrompt)
        assert row["prompt"] == served.text


@pytest.mark.parametrize("kind", ["messages", "sharegpt"])
def test_chat_rows_of_a_real_episode(kind: Any) -> None:
    rows = trajectory_rows(make_trajectory(), "react", kind, REACT, load_renderer("chat"))
    assert len(rows) == 1
    turns = rows[0]["messages" if kind == "messages" else "conversations"]
    words = [turn.get("content", turn.get("value")) for turn in turns]
    assert "Which city is number 1?" in " ".join(words[:2])
    assert "Search[Peru]" in words[-3]
    assert "Peru's capital is Lima." in words[-2]
    assert "Finish[Lima]" in words[-1]
    assert all(isinstance(word, str) for word in words)


def test_a_format_refuses_the_other_renderer() -> None:
    with pytest.raises(FormatError, match="format 'messages' cannot hold a TextPrompt: use renderer 'chat'"):
        trajectory_rows(make_trajectory(), "react", "messages", REACT, load_renderer("text"))
    with pytest.raises(FormatError, match="format 'text' cannot hold a ChatPrompt: use renderer 'text'"):
        trajectory_rows(make_trajectory(), "react", "text", REACT, load_renderer("chat"))
