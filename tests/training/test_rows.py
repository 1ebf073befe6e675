from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.errors import TrainingError
from pipeline.rendering.base import ChatPrompt, TextPrompt
from pipeline.training.rows import Episode, read_episodes, read_export, turns, without_oldest_turn
from tests.training.making import rows, save_dataset, text_rows


def write(path: Path, items: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    return path


def read(path: Path, kind: str) -> list[Episode]:
    return list(read_episodes(path, kind))


def test_steps_of_an_episode_become_one_text_with_every_step_marked(tmp_path: Path) -> None:
    [episode] = read(write(tmp_path / "rows", text_rows("a", "Oslo", 2)), "text")
    assert isinstance(episode.prompt, TextPrompt)
    assert [(s.text, s.source) for s in episode.prompt.segments] == [
        ("Question: Where is Oslo?\nThought 1:", "context"),
        (" I look Oslo.\nAction 1: Search[Oslo]\nObservation", "model"),
        (" 1: Oslo is a city.\nThought 2:", "context"),
        (" I look Oslo.\nAction 2: Finish[Oslo]\nObservation", "model"),
    ]


def test_a_prompt_that_is_no_continuation_names_row_and_step(tmp_path: Path) -> None:
    broken = text_rows("a", "Oslo", 3)
    broken[2]["prompt"] = "Another question"
    with pytest.raises(TrainingError, match=r"row 'a', step 3: .*export again"):
        read(write(tmp_path / "rows", broken), "text")


def test_sharegpt_and_messages_are_the_same_conversation(tmp_path: Path) -> None:
    one = read(write(tmp_path / "one", rows("messages", 4)), "messages")
    two = read(write(tmp_path / "two", rows("sharegpt", 4)), "sharegpt")
    assert one == two
    assert isinstance(one[1].prompt, ChatPrompt)
    assert [m.role for m in one[1].prompt.messages] == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize("message", [{"role": "tool", "content": "x"}, {"role": "user", "content": None}])
def test_a_message_that_cannot_be_trained_on_is_refused(tmp_path: Path, message: dict[str, object]) -> None:
    with pytest.raises(TrainingError, match="row 'a': a message has role"):
        read(write(tmp_path / "rows", [{"id": "a", "messages": [message]}]), "messages")


def test_rows_of_another_format_or_broken_lines_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="not of the format 'text'"):
        read(write(tmp_path / "rows", rows("messages", 1)), "text")
    (tmp_path / "torn").write_text('{"id": "a", "mess', encoding="utf-8")
    with pytest.raises(TrainingError, match="line 1 is not JSON"):
        read(tmp_path / "torn", "messages")
    with pytest.raises(TrainingError, match="cannot be read"):
        read(tmp_path / "absent", "text")


def test_dropping_the_oldest_turn_keeps_opening_and_the_next_turns_own_label(tmp_path: Path) -> None:
    [episode] = read(write(tmp_path / "rows", text_rows("a", "Oslo", 3)), "text")
    shorter = without_oldest_turn(episode.prompt)
    assert isinstance(shorter, TextPrompt)
    assert shorter.text.startswith("Question: Where is Oslo?\nThought 2: I look Oslo.\nAction 2: Search")
    assert turns(shorter) == 2
    last = without_oldest_turn(shorter)
    assert last is not None
    assert (
        last.text == "Question: Where is Oslo?\nThought 3: I look Oslo.\nAction 3: Finish[Oslo]\nObservation"
    )
    assert without_oldest_turn(last) is None


def test_dropping_the_oldest_turn_of_a_chat_keeps_roles_in_turn(tmp_path: Path) -> None:
    episode = read(write(tmp_path / "rows", rows("messages", 3)), "messages")[2]
    shorter = without_oldest_turn(episode.prompt)
    assert isinstance(shorter, ChatPrompt)
    assert isinstance(episode.prompt, ChatPrompt)
    assert shorter.messages == episode.prompt.messages[:1] + episode.prompt.messages[3:]
    assert [m.role for m in shorter.messages] == ["user", "assistant", "user", "assistant"]


def test_export_json_is_read_and_checked(tmp_path: Path) -> None:
    export = read_export(save_dataset(tmp_path, "messages", ("act", "react")))
    assert (export.format, export.renderer, sorted(export.styles)) == ("messages", "chat", ["act", "react"])
    with pytest.raises(TrainingError, match="run `staract export`"):
        read_export(tmp_path)
    (tmp_path / "export.json").write_text('{"format": "text"}', encoding="utf-8")
    with pytest.raises(TrainingError, match="cannot be read"):
        read_export(tmp_path)
    about = {"format": "alpaca", "renderer": "text", "renderer_version": "1", "styles": {}}
    (tmp_path / "export.json").write_text(json.dumps(about), encoding="utf-8")
    with pytest.raises(TrainingError, match="'alpaca'"):
        read_export(tmp_path)
