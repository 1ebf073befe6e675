"""An environment and a method from another distribution, found through entry points alone."""

import sys
from pathlib import Path

import pytest

from pipeline.environments.registry import environment_names
from pipeline.methods.registry import method_names
from pipeline.trajectories.store import read_trajectories
from tests.cli.running import Cli

ENTRY_POINTS = """\
[staract.environments]
guessing = staract_outside:Guessing

[staract.methods]
halving = staract_outside:Halving
"""
RECIPE = """\
name: outside
environment: {name: guessing}
generate:
  model: expert
  method: {name: halving}
  panel: {split: train, size: 20}
select: {target: 10}
export: {format: messages, styles: [act]}
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch) -> Path:
    """What `pip install` would leave behind: a module and its metadata, on the path."""
    site = tmp_path / "site"
    metadata = site / "staract_outside-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: staract-outside\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    source = Path(__file__).with_name("outside.py").read_text(encoding="utf-8")
    (site / "staract_outside.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(str(site))
    yield site
    sys.modules.pop("staract_outside", None)


def test_both_are_listed_beside_our_own(installed):
    assert {"atlas", "guessing"} <= set(environment_names())
    assert {"react", "halving"} <= set(method_names())


def test_a_recipe_uses_both_without_a_fork(installed, tmp_path, monkeypatch, capsys):
    recipe = tmp_path / "outside.yaml"
    recipe.write_text(RECIPE)
    cli = Cli(monkeypatch, capsys)
    assert cli("run", recipe, "--runs", tmp_path) == 0, cli.err
    played = list(read_trajectories(tmp_path / "outside" / "trajectories.jsonl"))
    assert len(played) == 20
    assert all(trajectory.grade.correct and trajectory.method == "halving" for trajectory in played)
    # Halving 64 numbers needs six guesses at most: the arithmetic, not our code, says so.
    assert max(len(trajectory.steps) for trajectory in played) <= 7
    assert (tmp_path / "outside" / "dataset" / "act" / "train.jsonl").is_file()
