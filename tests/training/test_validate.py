"""A causal student plays episodes while it trains: an expert's Atlas episode, learnt until it is won."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.recipe.load import load_recipe
from pipeline.training import causal
from pipeline.training.program import Program, train_styles
from pipeline.trajectories.store import read_trajectories
from tests.cli.running import Cli
from tests.training.making import make_model, make_tokenizer

PANEL = "{split: dev, size: 1}"
RECIPE = f"""\
name: trial
environment: {{name: atlas, family: questions, kinds: [bridge2]}}
models: {{base: {{address: base, dtype: float32}}}}
generate: {{model: expert, method: {{name: react, shots: 0}}, panel: {PANEL}}}
select: {{target: 1}}
export: {{format: text, styles: [react]}}
train:
  dtype: float32
  max_length: 2048
  learning_rate: 4e-3
  schedule: constant_with_warmup
  warmup: 5
  epochs: 120
  save_every: 30
  log_every: 30
  stop_on: score
  validate_on: {{panel: {PANEL}, method: {{name: react, shots: 0, max_tokens: 100, max_steps: 6}}}}
"""


def save_base(folder: Path, rows: Path) -> None:
    """A tiny model with a tokeniser that knows the words of the rows."""
    texts = [line["prompt"] + line["completion"] for line in map(json.loads, rows.read_text().splitlines())]
    tokenizer = make_tokenizer().train_new_from_iterator(texts, 700, show_progress=False)
    tokenizer.save_pretrained(folder)
    make_model(len(tokenizer), width=64).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 2048}))


def test_the_score_is_what_the_checkpoints_episodes_earn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    cli = Cli(monkeypatch, capsys)
    for verb in ("generate", "select", "export"):
        assert cli(verb, path) == 0, cli.err
    save_base(tmp_path / "base", tmp_path / "trajectories" / "trial" / "dataset" / "react" / "train.jsonl")
    kept = tmp_path / "kept"
    monkeypatch.setattr(
        "pipeline.training.steps.remove", lambda folder: folder.rename(kept)
    )  # the episodes lie there
    program = Program(causal.CAUSAL, "", causal._prepare)
    assert train_styles(program, load_recipe(path), tmp_path / "trajectories", tmp_path / "checkpoints")
    log = json.loads((tmp_path / "checkpoints" / "trial" / "react" / "train.json").read_text())
    scores = {look["step"]: look["score"] for look in log["looks"]}
    assert set(scores) == {30, 60, 90, 120}
    for step, score in scores.items():
        [played] = read_trajectories(kept / f"episodes-{step}.jsonl")
        assert played.model.endswith(f"checkpoint-{step}")
        assert played.grade.reward == score
        assert played.steps, "it was asked"
    assert scores[120] == 1.0, "the expert's words came back through the serving path, and won"
    assert log["best_step"] == min(step for step, score in scores.items() if score == 1.0)
    assert "mean score 1.0000" in capsys.readouterr().out
