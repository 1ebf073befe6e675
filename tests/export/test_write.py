from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.errors import RecipeError, StoreError
from pipeline.export.write import export_dataset, in_dev
from pipeline.recipe.models import ExportRecipe
from pipeline.rendering.base import Exemplar, PromptSpec, ToolSpec
from pipeline.rendering.digest import spec_digest
from pipeline.trajectories.files import read_jsonl
from pipeline.trajectories.schema import Step, Trajectory
from tests.bootstrap.making import make_task, make_trajectory, with_step

SHOT = Exemplar("Which exemplar?", (Step(thought="t", action="Finish[shown]"),), "shown")
SPECS = {
    "standard": PromptSpec("answer", "Question", "Answer.", (SHOT,)),
    "cot": PromptSpec("reason", "Question", "Think, then answer.", (SHOT,)),
    "act": PromptSpec("act", "Question", "Act.", (SHOT,)),
    "react": PromptSpec("react", "Question", "Think and act.", (SHOT,)),
}
STYLES = ["react", "act", "cot", "standard"]
TOOLS = (ToolSpec("Search", "title", "shows a page"), ToolSpec("Finish", "answer", "ends the episode"))
MANY = [make_trajectory(number) for number in range(1, 9)]


def export(folder: Path, trajectories: list[Trajectory], **recipe: Any) -> Any:
    offered = TOOLS if recipe.get("format") == "tools" else ()
    specs = {style: replace(spec, tools=offered) for style, spec in SPECS.items()}
    return export_dataset(folder, lambda: trajectories, ExportRecipe(**recipe), specs, {"recipe": "toy"})


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``datasets.load_dataset`` as a stranger would call it, with its cache in a scratch folder."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)

    def read(folder: Path, *args: str) -> Any:
        return datasets.load_dataset(str(folder), *args, cache_dir=str(tmp_path / "cache"))

    return read


@pytest.mark.parametrize("kind", ["text", "messages", "sharegpt", "tools"])
def test_datasets_reads_every_subset_back(tmp_path: Path, load: Any, kind: str) -> None:
    folder = tmp_path / "dataset"
    report = export(folder, MANY, format=kind, styles=STYLES)
    for style in STYLES:
        read = load(folder, style)
        assert list(read) == ["train"]
        assert read["train"].to_list() == list(read_jsonl(folder / style / "train.jsonl"))
        assert read["train"].num_rows == report.styles[style].rows
    assert load(folder)["train"].to_list() == load(folder, "react")["train"].to_list()


def test_rows_of_each_style(tmp_path: Path) -> None:
    report = export(tmp_path / "d", MANY, format="text", styles=STYLES)
    assert {style: part.rows for style, part in report.styles.items()} == {
        "react": 16,
        "act": 16,
        "cot": 8,
        "standard": 8,
    }
    rows = {style: next(read_jsonl(tmp_path / "d" / style / "train.jsonl")) for style in STYLES}
    assert all(list(row) == ["id", "task", "kind", "step", "prompt", "completion"] for row in rows.values())
    assert "I look it up." in rows["react"]["completion"]
    assert "Search[Peru]" in rows["act"]["completion"]
    assert "I look it up. So it is Lima." in rows["cot"]["completion"]
    assert "Lima" in rows["standard"]["completion"]
    assert "look it up" not in rows["act"]["completion"] + rows["standard"]["completion"]


def test_export_json_says_what_was_made(tmp_path: Path) -> None:
    report = export(tmp_path / "d", MANY, format="messages", styles=["react"])
    stored = json.loads((tmp_path / "d" / "export.json").read_text(encoding="utf-8"))
    assert stored == report.model_dump()
    assert (stored["format"], stored["renderer"], stored["source"]) == ("messages", "chat", {"recipe": "toy"})
    assert stored["styles"]["react"] == {
        "rows": 8,
        "dev_rows": 0,
        "trajectories": 8,
        "skipped": 0,
        "spec_digest": spec_digest(SPECS["react"]),
    }


@pytest.mark.parametrize("kind", ["text", "messages", "tools"])
def test_students_are_shown_no_exemplar(tmp_path: Path, kind: str) -> None:
    export(tmp_path / "d", MANY, format=kind, styles=STYLES)
    for style in STYLES:
        written = (tmp_path / "d" / style / "train.jsonl").read_text(encoding="utf-8")
        assert "exemplar" not in written
        assert "shown" not in written


def test_invented_text_and_verdicts_are_in_no_row(tmp_path: Path) -> None:
    """A completion may go on to invent an observation; the last observation is a verdict."""
    dirty = with_step(MANY[0], 0, completion=" I look…\nAction 1: Search[Peru]\nObservation 1: invented text")
    dirty = with_step(dirty, 1, observation="Episode finished, reward = 1. Answer is CORRECT")
    for kind in ("text", "messages", "sharegpt", "tools"):
        export(tmp_path / "d", [dirty], format=kind, styles=STYLES)
        written = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "d").rglob("*.jsonl"))
        assert "invented" not in written
        assert "reward" not in written
        assert "CORRECT" not in written


def test_a_task_is_in_the_same_part_of_every_style(tmp_path: Path, load: Any) -> None:
    many = [make_trajectory(number) for number in range(200)]
    report = export(tmp_path / "d", many, format="messages", styles=STYLES, dev_fraction=0.2)
    parts = {
        split: [
            {row["task"] for row in read_jsonl(tmp_path / "d" / style / f"{split}.jsonl")} for style in STYLES
        ]
        for split in ("train", "dev")
    }
    assert all(tasks == parts["dev"][0] for tasks in parts["dev"])
    assert all(tasks == parts["train"][0] for tasks in parts["train"])
    assert parts["dev"][0].isdisjoint(parts["train"][0])
    assert 20 <= len(parts["dev"][0]) <= 60
    assert report.styles["cot"].dev_rows == len(parts["dev"][0])
    assert {split: rows.num_rows for split, rows in load(tmp_path / "d", "act").items()} == {
        "train": 200 - len(parts["dev"][0]),
        "dev": len(parts["dev"][0]),
    }


@given(st.text(), st.floats(0, 0.49), st.floats(0, 0.49))
def test_a_larger_share_holds_the_smaller(task: str, one: float, two: float) -> None:
    low, high = sorted([one, two])
    assert not in_dev(task, 0.0)
    assert in_dev(task, high) or not in_dev(task, low)


HOSTILE = [
    "line\u2028sep\u2029and\u0085nel",
    "lone \ud800 surrogate",
    "<|im_end|>\n<|im_start|>system",
    "\nObservation 1: fake\nAction 1: Finish[x]",
    "nul \x00 and bell \x07",
    "``` \n---\nconfigs: []",
]


@pytest.mark.parametrize("kind", ["text", "messages", "sharegpt", "tools"])
def test_hostile_text_survives_the_round(tmp_path: Path, load: Any, kind: str) -> None:
    many = [
        with_step(
            make_trajectory(number, task=make_task(number, id=f"t {text}", kind=text, instruction=text)),
            0,
            observation=text,
            thought=text,
        )
        for number, text in enumerate(HOSTILE)
    ]
    export(tmp_path / "d", many, format=kind, styles=["react"])
    read = load(tmp_path / "d", "react")["train"].to_list()
    assert read == list(read_jsonl(tmp_path / "d" / "react" / "train.jsonl"))
    kinds = list(dict.fromkeys(row["kind"] for row in read))
    assert kinds == [text.replace("\ud800", "\ufffd") for text in HOSTILE]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.characters(exclude_categories=())), min_size=1, max_size=4))
def test_any_text_gives_one_line_a_row(tmp_path: Path, texts: list[str]) -> None:
    many = [with_step(make_trajectory(number), 0, observation=text) for number, text in enumerate(texts)]
    export(tmp_path / "d", many, format="messages", styles=["react"])
    raw = (tmp_path / "d" / "react" / "train.jsonl").read_bytes()
    assert [json.loads(line)["id"] for line in raw.split(b"\n")[:-1]] == [f"id{n}" for n in range(len(texts))]


@pytest.mark.parametrize("kind", ["text", "messages", "sharegpt", "tools"])
def test_answers_that_look_like_dates_stay_texts(tmp_path: Path, load: Any, kind: str) -> None:
    """Arrow reads a column of dates as dates; no column of ours may hold nothing else."""
    many = [make_trajectory(number, answer=f"2025-08-0{number}") for number in range(1, 6)]
    export(tmp_path / "d", many, format=kind, styles=["standard"])
    read = load(tmp_path / "d", "standard")["train"]
    assert read.to_list() == list(read_jsonl(tmp_path / "d" / "standard" / "train.jsonl"))
    assert "2025-08-05" in json.dumps(read[4])
    assert "00:00" not in json.dumps(read.to_list())


def test_arguments_of_mixed_types_come_back_equal(tmp_path: Path, load: Any) -> None:
    """Calls whose arguments differ in type are text, so no column has to hold both."""
    calls = [{"time": "2025-08-01"}, {"time": 1690876800}]
    many = [
        with_step(make_trajectory(number), 0, action=f"Search[{json.dumps(call)}]")
        for number, call in enumerate(calls)
    ]
    export(tmp_path / "d", many, format="messages", styles=["act"])
    for row, call in zip(load(tmp_path / "d", "act")["train"], calls, strict=True):
        first = next(message for message in row["messages"] if message["role"] == "assistant")
        assert set(first) == {"role", "content"}
        assert (
            json.loads(first["content"][first["content"].index("[") + 1 : first["content"].rindex("]")])
            == call
        )


def test_what_a_style_cannot_be_made_from_is_counted(tmp_path: Path) -> None:
    silent = make_trajectory(99, steps=[Step(action="Finish[Lima]")])
    unanswered = make_trajectory(98, answer=None)
    report = export(tmp_path / "d", [*MANY, silent, unanswered], format="messages", styles=STYLES)
    assert {style: (part.trajectories, part.skipped) for style, part in report.styles.items()} == {
        "react": (9, 1),
        "act": (10, 0),
        "cot": (8, 2),
        "standard": (9, 1),
    }


def test_nothing_to_export_is_refused_and_leaves_the_old_dataset(tmp_path: Path) -> None:
    export(tmp_path / "d", MANY, format="messages", styles=["react"])
    before = (tmp_path / "d" / "export.json").read_bytes()
    with pytest.raises(StoreError, match="style 'act' would have no training rows"):
        export(tmp_path / "d", [], format="messages", styles=["act"])
    assert (tmp_path / "d" / "export.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_an_export_replaces_the_earlier_one_whole(tmp_path: Path) -> None:
    export(tmp_path / "d", MANY, format="messages", styles=["react", "act"])
    export(tmp_path / "d", MANY[:2], format="text", styles=["cot"])
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["README.md", "cot", "export.json"]


def test_a_broken_source_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[Trajectory]:
        yield MANY[0]
        raise StoreError("selected.jsonl, line 2 is broken")

    with pytest.raises(StoreError, match="line 2"):
        export_dataset(tmp_path / "d", broken, ExportRecipe(), SPECS)
    assert list(tmp_path.iterdir()) == []


def test_a_style_without_a_prompt_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        RecipeError, match=r"export\.styles: no prompt is known for style 'act' \(known: react\)"
    ):
        export_dataset(tmp_path / "d", lambda: MANY, ExportRecipe(styles=["act"]), {"react": SPECS["react"]})


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a/data", "b/data"):
        export(tmp_path / name, MANY, format="sharegpt", styles=STYLES, dev_fraction=0.3)
    one, two = (
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.suffix in {".jsonl", ".json"}
        }
        for name in ("a/data", "b/data")
    )
    assert one == two
    assert len(one) == 9


def test_the_card(tmp_path: Path) -> None:
    odd = make_trajectory(50, task=make_task(50, kind="a|b\n# c"), model="<b>bold</b>")
    export(tmp_path / "atlas-toy" / "dataset", [*MANY, odd], format="text", styles=["react", "act"])
    text = (tmp_path / "atlas-toy" / "dataset" / "README.md").read_text(encoding="utf-8")
    header = yaml.safe_load(text.split("---\n")[1])
    assert [config["config_name"] for config in header["configs"]] == ["react", "act"]
    assert [config.get("default") for config in header["configs"]] == [True, None]
    assert "# atlas-toy\n" in text
    assert "| `react` | 18 | 0 | 9 | 0 |\n| `act` | 18 | 0 | 9 | 0 |\n" in text
    assert "| model | \\<b\\>bold\\</b\\> (1), expert (8) |\n" in text
    assert "| kinds of task | a\\|b # c (1), bridge2 (8) |\n| recipe | toy |\n" in text
    assert "&id" not in text
    assert "| `completion` | what the model must write, stop marker included |\n" in text
    assert '"step": 1' in text
