"""The dataset in the format swift."""

import json

import pytest
from pydantic import ValidationError

from pipeline.export.swift import swift_rows
from pipeline.export.write import export_dataset
from pipeline.recipe.models import ExportRecipe
from pipeline.rendering.base import PromptSpec
from pipeline.rendering.swift_fit import read_prompt
from pipeline.trajectories.files import read_jsonl
from pipeline.trajectories.schema import Outcome, Step, Task, Trajectory

SPECS = {"act": PromptSpec("act", "Task", "Act.")}


def episode(number, actions):
    return Trajectory(
        id=f"e{number}",
        task=Task(
            id=f"t{number}", environment="scienceworld", split="train", kind="1-1", instruction="Boil it."
        ),
        method="act",
        model="expert",
        opening="This room is called the kitchen. In it: air\n\nIn your inventory, you see:\n\tan orange\n",
        steps=[
            Step(action=action, observation=f"Seen {n}.", score=n / 8) for n, action in enumerate(actions)
        ],
        outcome=Outcome.FINISHED,
    )


MANY = [
    episode(1, ["go to kitchen", "look around", "activate stove", "wait", "focus on water"]),
    episode(2, ["look around", "wait"]),
    episode(3, ["wait", "close door to hallway", "wait1"]),
]


def export(folder, **recipe):
    return export_dataset(
        folder, lambda: MANY, ExportRecipe(format="swift", **recipe), SPECS, {"recipe": "toy"}
    )


def test_rows_counts_and_card(tmp_path, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)
    folder = tmp_path / "dataset"
    report = export(folder, history=3)
    rows = list(read_jsonl(folder / "act" / "train.jsonl"))
    assert [(row["id"], row["task"], row["kind"], row["step"], row["target"]) for row in rows] == [
        ("e1", "t1", "1-1", 3, "activate stove"),
        ("e1", "t1", "1-1", 4, "wait"),
        ("e1", "t1", "1-1", 5, "focus on water"),
        ("e3", "t3", "1-1", 3, "wait1"),
    ]
    assert read_prompt(rows[2]["input"]).history == 3
    part = report.styles["act"]
    assert (part.rows, part.trajectories, part.skipped, part.dropped_steps) == (4, 2, 1, 2)
    said = json.loads((folder / "export.json").read_text())
    assert (said["format"], said["renderer"], said["history"]) == ("swift", "swift", 3)
    card = (folder / "README.md").read_text()
    assert "<extra_id_3>" in card and "these steps (2)" in card and "`target`" in card
    read = datasets.load_dataset(str(folder), "act", split="train", cache_dir=str(tmp_path / "cache"))
    assert read.to_list() == rows


def test_other_styles_are_refused():
    assert ExportRecipe(format="swift").styles == ["act"]
    with pytest.raises(ValidationError, match="actions alone"):
        ExportRecipe(format="swift", styles=["react"])
    with pytest.raises(ValidationError):
        ExportRecipe(format="swift", history=100)


def test_the_first_action_may_be_a_target():
    made = episode(1, ["go to hall", "activate stove", "wait"])
    without, whole = swift_rows(made, 10), swift_rows(made, 10, skip_first=False)
    assert [row["target"] for row in whole] == ["go to hall", "activate stove", "wait"]
    assert [row["target"] for row in without] == ["activate stove", "wait"]
    assert [row["step"] for row in whole] == [1, 2, 3]
    assert "go to hall (+0) --> Seen 0." in whole[1]["input"] and "go to hall" not in without[0]["input"]


def test_a_recipe_says_whether_it_is(tmp_path):
    report = export(tmp_path / "set", skip_first=False, history=3)
    rows = list(read_jsonl(tmp_path / "set/act/train.jsonl"))
    assert report.history == 3 and rows[0]["step"] == 1
