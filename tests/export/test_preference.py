"""Pairs as rows: TRL's columns, read back by datasets, and which words of a remainder are the model's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from trl.data_utils import is_conversational

from pipeline.errors import FormatError, StoreError
from pipeline.export.preference import PAIR_FEATURES, pair_rows, text_parts
from pipeline.export.write import export_dataset
from pipeline.recipe.models import ExportRecipe
from pipeline.rendering.base import PromptSpec, Segment, TextPrompt
from pipeline.rendering.registry import load_renderer
from pipeline.trajectories.files import read_jsonl
from pipeline.trajectories.pairs import Pair
from pipeline.trajectories.schema import Grade, Step
from tests.bootstrap.making import make_task, make_trajectory, with_step
from tests.export.test_write import HOSTILE, TOOLS, load

__all__ = ["load"]

SPECS = {
    "standard": PromptSpec("answer", "Question", "Answer."),
    "cot": PromptSpec("reason", "Question", "Think, then answer."),
    "act": PromptSpec("act", "Question", "Act."),
    "react": PromptSpec("react", "Question", "Think and act."),
}
KINDS = ["text", "messages", "tools"]
RENDERERS = {"text": "text", "messages": "chat", "tools": "tools"}


def make_pair(number: int = 1, said: str = "Peru's capital is Lima.", **task: Any) -> Pair:
    """The second of three steps differs, in thought and action."""
    first = Step(thought="I look it up.", action="Search[Peru]", observation=said)
    asked = make_task(number, **task)
    good = [
        first,
        Step(thought="Its mayor too.", action="Search[Lima]", observation="Lima has a mayor."),
        Step(thought="So it is Lima.", action="Finish[Lima]", observation="Answer is CORRECT"),
    ]
    bad = [
        first,
        Step(thought="Perhaps Cusco.", action="Search[Cusco]", observation="Cusco is high up."),
        Step(thought="So it is Cusco.", action="Finish[Cusco]", observation="Answer is INCORRECT"),
    ]
    return Pair(
        chosen=make_trajectory(number, task=asked, steps=good),
        rejected=make_trajectory(100 + number, task=asked, steps=bad, answer="Cusco", grade=Grade()),
        shared=1,
    )


def rows(pair: Pair, style: str = "react", kind: str = "text") -> list[dict[str, Any]]:
    spec = replace(SPECS[style], tools=TOOLS if kind == "tools" else ())
    return pair_rows(pair, style, kind, spec, load_renderer(RENDERERS[kind]))  # type: ignore[arg-type]


def export(folder: Path, pairs: list[Pair], **recipe: Any) -> Any:
    offered = TOOLS if recipe.get("format") == "tools" else ()
    specs = {style: replace(spec, tools=offered) for style, spec in SPECS.items()}
    made = ExportRecipe(**{"pairs": {}, **recipe})
    return export_dataset(folder, lambda: pairs, made, specs, {"recipe": "toy"})


def test_a_text_row_word_for_word() -> None:
    [row] = rows(make_pair())
    assert row["id"] == "id1-id101"
    assert row["prompt"] == (
        "Think and act.\n\nQuestion: Which city is number 1?\n"
        "Thought 1: I look it up.\nAction 1: Search[Peru]\nObservation 1: Peru's capital is Lima.\nThought 2:"
    )
    assert row["chosen_parts"] == [
        " Its mayor too.\nAction 2: Search[Lima]\nObservation",
        " 2: Lima has a mayor.\nThought 3:",
        " So it is Lima.\nAction 3: Finish[Lima]\nObservation",
    ]
    assert row["rejected_parts"][1] == " 2: Cusco is high up.\nThought 3:"
    assert row["prompt_parts"][1] == " I look it up.\nAction 1: Search[Peru]\nObservation"
    assert all(row[name] == "".join(row[f"{name}_parts"]) for name in ("prompt", "chosen", "rejected"))


def test_a_conversation_row() -> None:
    [row] = rows(make_pair(), kind="messages")
    assert [message["role"] for message in row["prompt"]] == ["system", "user", "assistant", "user"]
    for half, city in (("chosen", "Lima"), ("rejected", "Cusco")):
        assert [message["role"] for message in row[half]] == ["assistant", "user", "assistant"]
        assert f"Finish[{city}]" in row[half][-1]["content"]
    assert is_conversational(row), "TRL takes it for a conversation"


def test_calls_keep_their_numbers_behind_the_fork() -> None:
    [row] = rows(make_pair(), kind="tools")
    assert [message["role"] for message in row["chosen"]] == ["assistant", "tool", "assistant"]
    assert row["chosen"][0]["tool_calls"][0]["id"] == row["rejected"][0]["tool_calls"][0]["id"] == "call00002"
    assert [tool["function"]["name"] for tool in row["tools"]] == ["Search", "Finish"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_style_forks_where_what_it_shows_differs(kind: str) -> None:
    pair = make_pair()
    # The second actions are the same, so without thoughts the two part a step later.
    rejected = with_step(pair.rejected, 1, action="Search[Lima]", observation="Lima has a mayor.")
    later = pair.model_copy(update={"rejected": rejected})
    turns = [len(rows(later, style, kind)[0]["chosen"]) for style in ("react", "act")]
    if kind == "text":
        assert [len(rows(later, style, kind)[0]["chosen_parts"]) for style in ("react", "act")] == [3, 1]
    else:
        assert turns == [3, 1]
    elsewhere = pair.model_copy(update={"rejected": with_step(rejected, 1, observation="Another page.")})
    assert rows(elsewhere, "act", kind) == [], "the same action, answered otherwise: two worlds"
    assert len(rows(elsewhere, "react", kind)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_single_step_styles_compare_answers(kind: str) -> None:
    [row] = rows(make_pair(), "standard", kind)
    assert "Lima" in json.dumps(row["chosen"])
    assert "Cusco" in json.dumps(row["rejected"])
    pair = make_pair()
    silent = pair.model_copy(update={"rejected": pair.rejected.model_copy(update={"answer": None})})
    assert rows(silent, "standard", kind) == []
    assert len(rows(silent, "react", kind)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_datasets_reads_pairs_back(tmp_path: Path, load: Any, kind: str) -> None:
    folder = tmp_path / "dataset"
    pairs = [make_pair(number, said=text, kind=text) for number, text in enumerate(HOSTILE)]
    report = export(folder, pairs, format=kind, styles=["react", "act", "standard"])
    for style in report.styles:
        read = load(folder, style)["train"]
        assert read.to_list() == list(read_jsonl(folder / style / "train.jsonl"))
        assert read.num_rows == report.styles[style].rows == len(HOSTILE)
        assert read.column_names == [column["name"] for column in PAIR_FEATURES[kind]]
    stored = json.loads((folder / "export.json").read_text(encoding="utf-8"))
    assert (stored["pairs"], stored["renderer"]) == (True, RENDERERS[kind])
    assert stored["styles"]["react"]["trajectories"] == 2 * len(HOSTILE)
    written = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.jsonl"))
    assert "CORRECT" not in written


def test_the_card_says_what_may_not_be_imitated(tmp_path: Path) -> None:
    export(tmp_path / "d", [make_pair()], format="text", styles=["react"])
    card = (tmp_path / "d" / "README.md").read_text(encoding="utf-8")
    assert "never imitate it" in card
    assert "| `rejected` |" in card
    assert "were kept" not in card
    header = yaml.safe_load(card.split("---")[1])
    [info] = header["dataset_info"]
    assert [column["name"] for column in info["features"]] == [c["name"] for c in PAIR_FEATURES["text"]]


def test_an_export_without_pairs_says_nothing_of_them(tmp_path: Path) -> None:
    made = ExportRecipe(format="text", styles=["react"])
    export_dataset(tmp_path / "d", lambda: [make_trajectory()], made, SPECS)
    assert "pairs" not in json.loads((tmp_path / "d" / "export.json").read_text(encoding="utf-8"))


def test_pairs_of_a_task_stay_in_one_split(tmp_path: Path) -> None:
    pairs = [make_pair(number) for number in range(60)]
    report = export(tmp_path / "d", pairs, format="messages", styles=["react", "act"], dev_fraction=0.3)
    dev = {row["task"] for row in read_jsonl(tmp_path / "d" / "react" / "dev.jsonl")}
    train = {row["task"] for row in read_jsonl(tmp_path / "d" / "react" / "train.jsonl")}
    assert dev.isdisjoint(train)
    assert report.styles["react"].dev_rows == len(dev) > 5


def test_nothing_to_prefer_is_an_error(tmp_path: Path) -> None:
    pair = make_pair()
    same = Pair(chosen=pair.chosen, rejected=pair.chosen, shared=0)
    with pytest.raises(StoreError, match="no training rows"):
        export(tmp_path / "d", [same], format="text", styles=["react"])
    assert not (tmp_path / "d").exists()


def test_a_renderer_of_another_kind_is_refused() -> None:
    with pytest.raises(FormatError, match="use renderer 'text'"):
        pair_rows(make_pair(), "react", "text", SPECS["react"], load_renderer("chat"))


def test_parts_take_turns_whatever_the_segments() -> None:
    prompt = TextPrompt((Segment("a", "model"), Segment("b", "model"), Segment("c"), Segment("d", "frame")))
    assert text_parts(prompt) == ["", "ab", "cd"]
