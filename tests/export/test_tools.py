"""The format of tool calls: the API's messages, and the tools beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import FormatError
from pipeline.export.rows import trajectory_rows
from pipeline.export.write import export_dataset
from pipeline.recipe.models import ExportRecipe
from pipeline.rendering.base import PromptSpec, ToolSpec
from pipeline.rendering.digest import spec_digest
from pipeline.rendering.registry import load_renderer
from pipeline.trajectories.files import read_jsonl
from tests.bootstrap.making import make_trajectory, with_step

TOOLS = (ToolSpec("Search", "title", "shows a page"), ToolSpec("Finish", "answer", "ends the episode"))
REACT = PromptSpec("react", "Question", "Answer the question.", (), TOOLS)


def rows(**changed: Any) -> list[dict[str, Any]]:
    trajectory = with_step(make_trajectory(), 0, **changed) if changed else make_trajectory()
    return trajectory_rows(trajectory, "react", "tools", REACT, load_renderer("tools"))


def test_one_row_an_episode_in_the_shape_of_the_api() -> None:
    [row] = rows()
    assert list(row) == ["id", "task", "kind", "messages", "tools"]
    system, user, first, answer, last = row["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert "Which city is number 1?" in user["content"]
    assert first == {
        "role": "assistant",
        "content": "I look it up.",
        "tool_calls": [
            {
                "id": "call00001",
                "type": "function",
                "function": {"name": "Search", "arguments": {"title": "Peru"}},
            }
        ],
    }
    assert answer == {"role": "tool", "content": "Peru's capital is Lima.", "tool_call_id": "call00001"}
    assert last["tool_calls"][0]["function"] == {"name": "Finish", "arguments": {"answer": "Lima"}}
    assert [tool["function"]["name"] for tool in row["tools"]] == ["Search", "Finish"]


def test_a_student_of_single_answers_is_offered_no_tools() -> None:
    spec = PromptSpec("answer", "Question", "Answer.", (), TOOLS)
    [row] = trajectory_rows(make_trajectory(), "standard", "tools", spec, load_renderer("tools"))
    assert row["tools"] == []
    assert row["messages"][-1] == {"role": "assistant", "content": "Answer: Lima"}


def test_arguments_of_different_names_come_back_without_nulls(tmp_path: Path, monkeypatch: Any) -> None:
    """X03: a column of structs would give each call the arguments of all tools."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)
    many = [make_trajectory(1), with_step(make_trajectory(2), 0, action='Search["x" \\ \u2028 2025-08-01]')]
    many.append(with_step(make_trajectory(3), 0, action="1690876800"))
    report = export_dataset(tmp_path / "d", lambda: many, ExportRecipe(format="tools"), {"react": REACT})
    read = datasets.load_dataset(str(tmp_path / "d"), cache_dir=str(tmp_path / "cache"))["train"].to_list()
    assert read == list(read_jsonl(tmp_path / "d" / "react" / "train.jsonl"))
    calls = [message["tool_calls"][0]["function"] for row in read for message in row["messages"][2:3:1]
             if "tool_calls" in message]  # fmt: skip
    assert calls == [
        {"name": "Search", "arguments": {"title": "Peru"}},
        {"name": "Search", "arguments": {"title": '"x" \\ 2025-08-01'}},
    ]
    assert (report.format, report.renderer) == ("tools", "tools")
    assert report.styles["react"].spec_digest == spec_digest(REACT)


def test_the_card_says_what_stands_in_the_rows(tmp_path: Path) -> None:
    export_dataset(
        tmp_path / "d", lambda: [make_trajectory()], ExportRecipe(format="tools"), {"react": REACT}
    )
    card = (tmp_path / "d" / "README.md").read_text(encoding="utf-8")
    assert "Format `tools`, written by the renderer `tools` version 1" in card
    assert "`tool_calls` (`arguments` as an object" in card
    assert "| `tools` | the tools on offer" in card
    assert "train on the assistant messages, their calls included, only" in card


def test_a_specification_without_tools_is_refused() -> None:
    bare = PromptSpec("react", "Question", "Answer the question.")
    with pytest.raises(FormatError, match="no tools to offer"):
        trajectory_rows(make_trajectory(), "react", "tools", bare, load_renderer("tools"))
    with pytest.raises(FormatError, match="format 'tools' cannot hold a TextPrompt: use renderer 'tools'"):
        trajectory_rows(make_trajectory(), "react", "tools", REACT, load_renderer("text"))
