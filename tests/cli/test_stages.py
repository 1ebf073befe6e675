"""The verbs on a small recipe: what each writes, and what each refuses."""

import json
import os
import signal
from pathlib import Path

import pytest

from pipeline.trajectories.store import TrajectoryStore, read_trajectories

RECIPE = """\
# staract run small.yaml
name: small
description: A small run of the expert.
environment: {name: atlas, family: questions, kinds: [bridge2, comparison]}
generate:
  model: expert
  method: {name: react, shots: 0}
  panel: {split: train, size: 12}
select: {target: 8}
export: {format: text, styles: [react, standard]}
"""
EVALUATION = """\
evaluate:
  panel: {split: test, size: 6}
  resamples: 99
  entries:
    - {model: expert, method: {name: react, shots: 0}}
    - {model: expert, method: {name: standard, shots: 0}}
models: {expert: {address: expert}}
"""


@pytest.fixture
def recipe(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "small.yaml"
    path.write_text(RECIPE)
    return path


def change(recipe: Path, old: str, new: str) -> None:
    recipe.write_text(recipe.read_text().replace(old, new))


def test_run_performs_every_stage_that_the_recipe_has(cli, recipe, tmp_path):
    recipe.write_text(RECIPE + EVALUATION)
    assert cli("run", recipe) == 0, cli.err
    run = tmp_path / "trajectories" / "small"
    assert len(list(read_trajectories(run / "selected.jsonl"))) == 8
    assert json.loads((run / "ledger.json").read_text())["kept"] == 8
    assert (run / "dataset" / "react" / "train.jsonl").is_file()
    assert (run / "dataset" / "standard" / "train.jsonl").is_file()
    report = json.loads((run / "report" / "report.json").read_text())
    assert [(row["method"], row["n"], row["correct"]) for row in report["rows"]] == [
        ("react", 6, 6),
        ("standard", 6, 6),
    ]
    assert {path.name for path in (run / "logs").iterdir()} == {
        "generate.log",
        "select.log",
        "export.log",
        "evaluate.log",
    }
    assert "kept 8" in (run / "logs" / "select.log").read_text()


def test_a_second_run_plays_nothing_again(cli, recipe, tmp_path):
    assert cli("generate", recipe) == 0
    before = (tmp_path / "trajectories/small/trajectories.jsonl").read_bytes()
    assert cli("generate", recipe) == 0
    assert "12 more were there before" in cli.out
    assert (tmp_path / "trajectories/small/trajectories.jsonl").read_bytes() == before


def test_the_report_can_be_written_again(cli, recipe, tmp_path):
    recipe.write_text(RECIPE + EVALUATION)
    assert cli("report", recipe) == 2
    assert "run `staract evaluate" in cli.err
    assert cli("evaluate", recipe) == 0
    path = tmp_path / "trajectories/small/report/report.json"
    first = path.read_bytes()
    path.unlink()
    assert cli("report", recipe) == 0
    assert path.read_bytes() == first


def test_training_and_evaluation_panels_are_drawn_apart(cli, recipe):
    recipe.write_text((RECIPE + EVALUATION).replace("split: test, size: 6", "split: train, size: 6"))
    assert cli("generate", recipe) == 2
    assert "is in both panels" in cli.err


def test_dry_run_prints_the_resolved_recipe_and_writes_nothing(cli, recipe, tmp_path):
    assert cli("run", recipe, "--dry-run", "select.target=3") == 0
    assert json.loads(cli.out)["select"]["target"] == 3
    assert not (tmp_path / "trajectories").exists()


def test_a_changed_recipe_is_refused_by_the_name_of_the_key(cli, recipe):
    assert cli("generate", recipe) == 0
    assert cli("generate", recipe, "generate.panel.size=9") == 2
    assert "generate.panel.size" in cli.err
    assert cli("generate", recipe, "generate.panel.size=9", "name=other") == 0


def test_a_later_stage_may_change_before_it_is_run(cli, recipe):
    assert cli("generate", recipe) == 0
    assert cli("select", recipe, "select.target=5") == 0
    assert "kept 5" in cli.out


@pytest.mark.parametrize(
    ("stage", "before"), [("select", "generate"), ("export", "select"), ("train", "export")]
)
def test_a_stage_names_the_one_that_must_come_first(cli, recipe, stage, before):
    change(recipe, "name: small", "name: small\nmodels: {base: {address: nowhere}}\ntrain: {model: base}")
    assert cli(stage, recipe) == 2
    assert f"run `staract {before}" in cli.err


def test_a_stage_that_the_recipe_lacks(cli, recipe):
    assert cli("train", recipe) == 2
    assert "has no train section" in cli.err


def test_a_broken_line_is_named_and_nothing_is_selected(cli, recipe, tmp_path):
    assert cli("generate", recipe) == 0
    path = tmp_path / "trajectories/small/trajectories.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], '{"broken\n', *lines[3:]]))
    assert cli("select", recipe) == 2
    assert "line 4" in cli.err
    assert not (tmp_path / "trajectories/small/selected.jsonl").exists()


def test_a_torn_last_line_is_owed_again(cli, recipe, tmp_path):
    assert cli("generate", recipe) == 0
    path = tmp_path / "trajectories/small/trajectories.jsonl"
    whole = {t.id for t in TrajectoryStore(path).read()}
    path.write_bytes(path.read_bytes()[:-40])
    assert cli("generate", recipe) == 0
    assert {t.id for t in TrajectoryStore(path).read()} == whole


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: atlas", "name: atlantis", "atlantis"),
        ("name: react", "name: reakt", "reakt"),
        ("size: 12", "size: 9999999", "there are only"),
        ("family: questions", "family: riddles", "riddles"),
        ("model: expert", "model: nobody", "nobody"),
    ],
)
def test_bad_values_are_one_sentence(cli, recipe, old, new, message):
    change(recipe, old, new)
    assert cli("generate", recipe) == 2
    assert message in cli.err
    assert "Traceback" not in cli.err


def test_a_model_that_cannot_be_reached(cli, recipe, monkeypatch):
    monkeypatch.setenv("STARACT_TEST_KEY", "swordfish")
    change(
        recipe,
        "name: small",
        "name: small\nmodels: {m: {address: 'openai:m@http://127.0.0.1:9/v1', max_retries: 0, "
        "api_key_env: STARACT_TEST_KEY}}",
    )
    change(recipe, "model: expert", "model: m")
    assert cli("generate", recipe) == 2
    assert "swordfish" not in cli.err + cli.out
    assert "127.0.0.1:9" in cli.err


def test_a_model_that_is_not_there(cli, recipe, tmp_path):
    change(recipe, "name: small", "name: small\nmodels: {m: {address: ./no-such-folder}}")
    change(recipe, "model: expert", "model: m")
    assert cli("generate", recipe) == 2
    assert "no-such-folder" in cli.err


def test_a_full_disk_is_one_sentence(cli, recipe, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pipeline.trajectories.store.os.write", full)
    assert cli("generate", recipe) == 2
    assert "No space left on device" in cli.err


def test_ctrl_c_is_130_keeps_what_is_done_and_goes_on(cli, recipe, tmp_path, monkeypatch):
    from pipeline.rollout import progress

    monkeypatch.setattr(progress.RunProgress, "advance", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    assert cli("generate", recipe, "generate.concurrency=1") == 130
    assert "what is done is kept" in cli.err
    path = tmp_path / "trajectories/small/trajectories.jsonl"
    kept = {t.id for t in TrajectoryStore(path).read()}
    assert 0 < len(kept) < 12
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert cli("generate", recipe, "generate.concurrency=1") == 0
    assert f"{len(kept)} more were there before" in cli.out
    assert kept < {t.id for t in TrajectoryStore(path).read()}
