"""``staract evaluate RECIPE checkpoints=<folder>``: models that know so many answers, and real ones."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from pipeline.environments.registry import load_environment
from pipeline.models.scripted import ScriptedModel
from pipeline.recipe.models import EnvironmentRecipe
from pipeline.rollout import crew
from pipeline.trajectories.store import read_trajectories
from tests.models.transformers_tiny import write_model

RECIPE = """\
name: swept
environment: {name: atlas, family: questions, kinds: [comparison]}
models: {base: {address: BASE, batch_size: 4}}
train: {model: base}
evaluate:
  panel: {split: test, size: 4}
  resamples: 99
  entries:
    - {model: student, method: {name: react, shots: 0, max_steps: 2, max_tokens: 6}}
"""
SWEPT = "checkpoints=checkpoints/swept"


def checkpoint(folder: Path, step: int, knows: str) -> Path:
    """A checkpoint whose weights are the questions that it can answer."""
    target = folder / f"checkpoint-{step}"
    target.mkdir(parents=True, exist_ok=True)
    (target / "model.safetensors").write_text(knows)
    (target / "whole").touch()
    (folder / "identity.json").write_text(json.dumps({"style": "react", "renderer": "text"}))
    return target


@pytest.fixture
def asked(monkeypatch) -> list[str]:
    """Scripted models in place of loaded ones; the names of those that were asked, a word a question."""
    tasks = load_environment(EnvironmentRecipe(name="atlas", family="questions", kinds=["comparison"])).tasks(
        "test"
    )
    gold = {task.instruction: (task.id, task.gold[0]) for task in tasks}
    calls: list[str] = []

    def load(recipe):
        weights = Path(recipe.address) / "model.safetensors"
        known = weights.read_text().split() if weights.is_file() else []

        def reply(request):
            calls.append(Path(recipe.address).name)
            name, answer = next(both for text, both in gold.items() if text in request.prompt.text)
            return f" I know.\nAction 1: Finish[{answer if name in known else 'no idea'}]\nObservation"

        return ScriptedModel(reply, address=recipe.address)

    monkeypatch.setattr(crew, "load_model", load)
    return calls


@pytest.fixture
def recipe(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "r.yaml"
    path.write_text(RECIPE.replace("BASE", "base"))
    return path


def points(tmp_path: Path) -> list[dict]:
    return json.loads((tmp_path / "trajectories/swept/sweep/sweep.json").read_text())["points"]


def test_a_sweep_plays_reports_and_goes_on(cli, recipe, asked, tmp_path):
    steps = tmp_path / "checkpoints" / "swept" / "react.steps"
    checkpoint(steps, 5, "")
    assert cli("evaluate", recipe, SWEPT) == 0, cli.err
    assert sorted(set(asked)) == ["base", "checkpoint-5"] and len(asked) == 8
    assert "No effect: react × react.steps/checkpoint-5" in cli.out
    folder = tmp_path / "trajectories/swept/sweep"
    ids = [entry["id"] for entry in json.loads((folder / "panel.json").read_text())["tasks"]]
    asked.clear()
    checkpoint(steps, 10, " ".join(ids[:3]))
    checkpoint(steps, 15, " ".join(ids[1:]))
    checkpoint(steps, 20, ids[0])
    (steps / "checkpoint-25").mkdir()
    assert cli("evaluate", recipe, SWEPT) == 0, cli.err
    assert sorted(set(asked)) == ["checkpoint-10", "checkpoint-15", "checkpoint-20"], "the others are kept"
    assert "checkpoint-25 was not saved to its end" in cli.out
    found = points(tmp_path)
    assert [(p["step"], p["correct"], p["best"], p["no_effect"]) for p in found] == [
        (0, 0, False, None),
        (5, 0, False, True),
        (10, 3, True, False),
        (15, 3, False, False),
        (20, 1, False, False),
    ]
    with (folder / "sweep.csv").open(newline="") as file:
        assert [row["checkpoint"] for row in csv.DictReader(file)][1] == "react.steps/checkpoint-5"
    assert {"sweep.png", "sweep.md", "sweep.csv", "sweep.json"} <= {path.name for path in folder.iterdir()}
    # Other weights in the same place are another checkpoint.
    asked.clear()
    before = (folder / "sweep.json").read_bytes()
    assert cli("evaluate", recipe, SWEPT) == 0
    assert not asked and (folder / "sweep.json").read_bytes() == before
    checkpoint(steps, 20, " ".join(ids))
    assert cli("evaluate", recipe, SWEPT) == 0
    assert len(asked) == 4 and points(tmp_path)[-1]["correct"] == 4


def test_a_sweep_that_was_stopped_plays_only_what_it_owes(cli, recipe, asked, tmp_path, monkeypatch):
    folder = tmp_path / "students"
    checkpoint(folder, 5, "")
    store = tmp_path / "trajectories/swept/sweep/trajectories.jsonl"
    assert cli("evaluate", recipe, f"checkpoints={folder}") == 0
    lines = store.read_bytes().splitlines(keepends=True)
    store.write_bytes(b"".join(lines[:5]) + lines[5][:40])
    asked.clear()
    assert cli("evaluate", recipe, f"checkpoints={folder}") == 0
    assert len(asked) == 3
    assert len(list(read_trajectories(store))) == 8


def test_a_sweep_and_a_comparison_lie_apart_and_each_is_reported_again(cli, recipe, asked, tmp_path):
    steps = tmp_path / "checkpoints" / "swept" / "react.checkpoints"
    checkpoint(steps, 5, "")
    assert cli("report", recipe, SWEPT) == 2
    assert "sweep/trajectories.jsonl is not there yet; run `staract evaluate" in cli.err
    plain = (*("evaluate.entries.0.model=base", "train=null"), "name=plain")
    assert cli("evaluate", recipe, *plain) == 0, cli.err
    assert cli("evaluate", recipe, SWEPT) == 0, cli.err
    run = tmp_path / "trajectories/swept"
    assert not (run / "evaluation").exists() and not (tmp_path / "trajectories/plain/sweep").exists()
    (run / "sweep/sweep.md").unlink()
    asked.clear()
    assert cli("report", recipe, SWEPT) == 0, cli.err
    assert not asked and (run / "sweep/sweep.md").is_file()


@pytest.mark.parametrize(
    ("folder", "complaint"),
    [("nowhere", "'nowhere' is no folder: name one with checkpoints"), (".", ". holds no checkpoint")],
)
def test_a_wrong_folder_is_one_sentence(cli, recipe, asked, tmp_path, folder, complaint):
    assert cli("evaluate", recipe, f"checkpoints={folder}") == 2
    assert complaint in cli.err and cli.err.count("\n") == 1
    assert not asked and not (tmp_path / "trajectories/swept/sweep").exists()


def test_checkpoints_that_cannot_be_compared_are_one_sentence(cli, recipe, asked, tmp_path):
    folder = tmp_path / "students"
    checkpoint(folder, 5, "")
    (folder / "identity.json").write_text(json.dumps({"style": "react", "renderer": "chat"}))
    assert cli("evaluate", recipe, "checkpoints=students") == 2
    assert "trained with renderer 'chat' but asked with 'text'" in cli.err
    assert not asked, "refused before the model before training has played"
    assert cli("evaluate", recipe, "checkpoints=students", "name=other", "train=null") == 2
    assert "recipe 'other': comparing checkpoints needs a train and an evaluate section" in cli.err
    assert cli("sweep", recipe) == 2, "one way to do it"


def test_real_weights_that_are_the_base_s_have_no_effect(cli, recipe, tmp_path):
    shape = {"max_position_embeddings": 4096}
    base = write_model(tmp_path / "base", **shape)
    steps = tmp_path / "checkpoints" / "swept" / "react.steps"
    shutil.copytree(base, checkpoint(steps, 5, ""), dirs_exist_ok=True)
    write_model(checkpoint(steps, 10, ""), seed=3, **shape)
    assert cli("evaluate", recipe, SWEPT, f"models.base.address={base}", "evaluate.panel.size=2") == 0, (
        cli.err
    )
    assert [(p["step"], p["no_effect"], p["errored"]) for p in points(tmp_path)] == [
        (0, None, 0),
        (5, True, 0),
        (10, False, 0),
    ]
