"""`staract generate` and `staract run` to a target, under a budget, and with no quota left."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli.collect import asked
from pipeline.environments.registry import load_environment
from pipeline.recipe.models import EnvironmentRecipe, GenerateRecipe, MethodRecipe
from pipeline.trajectories.store import read_trajectories
from tests.cli.running import Cli
from tests.models.server import Answer, chat, failure, serving

WORLD = {"name": "atlas", "family": "questions", "kinds": ["bridge2", "comparison"]}
RECIPE = """\
name: small
environment: {name: atlas, family: questions, kinds: [bridge2, comparison]}
models:
  teacher: {address: 'openai:t@URL', max_retries: 0, price_per_million: [1000, 1000]}
generate:
  model: teacher
  method: {name: standard, shots: 0}
  panel: {split: train, size: 80}
  concurrency: 4
select: {target: 80}
export: {format: text, styles: [standard]}
"""


@pytest.fixture(scope="module")
def gold() -> dict[str, str]:
    """The answer to every question."""
    world = load_environment(EnvironmentRecipe.model_validate(WORLD))
    return {task.instruction: task.gold[0] for task in world.tasks("train")}


@dataclass
class School:
    """A server that knows every answer, but gives only each ``every``-th, and a recipe that asks it."""

    gold: dict[str, str]
    every: int = 1
    quota_after: int | None = None
    asked: int = 0
    recipe: Path = Path()
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: dict[str, Any]) -> Answer:
        with self.lock:
            self.asked += 1
            number = self.asked
        if self.quota_after is not None and number > self.quota_after:
            return failure(429, "pay first", code="insufficient_quota", type="insufficient_quota")
        prompt = request["messages"][0]["content"]
        answer = next(value for question, value in self.gold.items() if question in prompt)
        return chat(f" {answer}" if number % self.every == 0 else " no idea", prompt_tokens=90)


@contextmanager
def teaching(gold: dict[str, str], folder: Path, **settings: Any) -> Iterator[School]:
    school = School(gold, recipe=folder / "small.yaml", **settings)
    with serving(school) as server:
        school.recipe.write_text(RECIPE.replace("URL", server.url))
        yield school


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def held(tmp_path: Path) -> list[bool]:
    return [
        one.grade.correct for one in read_trajectories(tmp_path / "trajectories/small/trajectories.jsonl")
    ]


def log(tmp_path: Path, stage: str = "generate") -> str:
    return (tmp_path / f"trajectories/small/logs/{stage}.log").read_text()


def test_the_run_stops_at_its_target_and_goes_on_to_the_next_stages(
    cli: Cli, gold: dict[str, str], tmp_path: Path
) -> None:
    with teaching(gold, tmp_path) as school:
        assert cli("run", school.recipe, "generate.until=10", "generate.samples=3") == 0, cli.err
        assert cli.out.startswith("generate: up to 80 tasks × 3 until 10 are correct, standard by teacher\n")
        assert "generate: the target is reached: " in cli.out
        assert 10 <= sum(held(tmp_path)) <= 13
        assert len(list(read_trajectories(tmp_path / "trajectories/small/selected.jsonl"))) >= 10
        assert (tmp_path / "trajectories/small/dataset/standard/train.jsonl").is_file()
        asked_for = school.asked
        assert cli("generate", school.recipe, "generate.until=10", "generate.samples=3") == 0
        assert school.asked == asked_for
        assert "0 episodes" in cli.out
        assert "the target is reached" in cli.out


def test_a_projection_is_printed_and_logged_and_a_panel_too_small_is_said(
    cli: Cli, gold: dict[str, str], tmp_path: Path
) -> None:
    with teaching(gold, tmp_path, every=5) as school:
        assert cli("generate", school.recipe, "generate.until=40") == 0, cli.err
    lines = [line for line in log(tmp_path).split("\n") if "40 need" in line]
    assert len(lines) == 2
    # A fifth is right, but which fifty episodes are over first is a matter of time.
    assert all(re.search(r"\b(1[4-9]|2[0-6])% \(", line) for line in lines)
    assert all("the panel allows" in line and "too few" in line for line in lines)
    assert all(line in cli.out for line in lines)
    assert "generate: the whole panel is played: 16 of 40 correct" in log(tmp_path)


@pytest.mark.parametrize("budget", ["generate.max_cost=2.0", "generate.max_tokens=2000"])
def test_a_budget_ends_the_run_and_the_stages_use_what_is_there(
    cli: Cli, gold: dict[str, str], tmp_path: Path, budget: str
) -> None:
    # An episode costs 90 + 5 tokens, 0.095: both budgets pay for 21.
    with teaching(gold, tmp_path) as school:
        assert cli("run", school.recipe, budget, "generate.until=60") == 0, cli.err
    assert len(held(tmp_path)) == 21
    assert "generate: the budget ended the run (max_" in log(tmp_path)
    assert "): 21 of 60 correct; what is there is kept and used" in log(tmp_path)
    ledger = json.loads((tmp_path / "trajectories/small/ledger.json").read_text())
    assert ledger["kept"] == 21
    assert (tmp_path / "trajectories/small/dataset/standard/train.jsonl").is_file()


def test_a_budget_of_cost_needs_a_price(cli: Cli, gold: dict[str, str], tmp_path: Path) -> None:
    with teaching(gold, tmp_path) as school:
        school.recipe.write_text(school.recipe.read_text().replace("[1000, 1000]", "[0, 0]"))
        assert cli("generate", school.recipe, "generate.max_cost=2") == 2
        assert "model 'teacher' has no price" in cli.err
        assert school.asked == 0


def test_no_quota_is_status_2_keeps_what_is_done_and_goes_on_later(
    cli: Cli, gold: dict[str, str], tmp_path: Path
) -> None:
    with teaching(gold, tmp_path, quota_after=17) as school:
        assert cli("run", school.recipe, "generate.until=30") == 2
        assert len(held(tmp_path)) == 17
        said = cli.err.strip().split("\n")[-1]
        assert said.startswith("staract: http://127.0.0.1:")
        assert "has no quota left for this key" in said
        assert said.endswith(
            "Stopped with 17 of 30 correct after 17 episodes; 17 are kept: run again to go on"
        )
        assert not (tmp_path / "trajectories/small/selected.jsonl").exists()
        school.quota_after = None
        assert cli("run", school.recipe, "generate.until=30") == 0, cli.err
        assert "(17 more were there before)" in cli.out
    assert 30 <= len(held(tmp_path)) < 30 + 4
    assert (tmp_path / "trajectories/small/selected.jsonl").exists()


def test_what_is_asked_for_in_words() -> None:
    method = MethodRecipe(name="react")
    assert asked(GenerateRecipe(method=method), 12) == "12 tasks × 1"
    assert (
        asked(GenerateRecipe(method=method, samples=3, until=3000), 90447)
        == "up to 90,447 tasks × 3 until 3,000 are correct"
    )
    assert (
        asked(GenerateRecipe(method=method, max_cost=20, max_tokens=5_000_000), 7)
        == "7 tasks × 1, max_cost 20.00 and max_tokens 5,000,000"
    )


PAIRS = ["generate.samples=2", "export.pairs={}", "export.dev_fraction=0.2"]


def test_pairs_are_exported_from_all_that_was_played(cli: Cli, gold: dict[str, str], tmp_path: Path) -> None:
    with teaching(gold, tmp_path, every=2) as school:
        assert cli("generate", school.recipe, *PAIRS) == 0, cli.err
        assert cli("export", school.recipe, *PAIRS) == 0, cli.err
    counts = json.loads((tmp_path / "trajectories/small/pairs.json").read_text())
    assert counts["seen"] == 160
    assert counts["pairs"] > 10
    assert f"export: {counts['pairs']} pairs of" in cli.out
    export = json.loads((tmp_path / "trajectories/small/dataset/export.json").read_text())
    assert (export["pairs"], export["styles"]["standard"]["rows"]) == (True, counts["pairs"])
    rows = (tmp_path / "trajectories/small/dataset/standard/train.jsonl").read_text().split("\n")[:-1]
    assert all(json.loads(row)["rejected"] == " no idea\n" for row in rows)


def test_pairs_that_cannot_be_made_say_why(cli: Cli, gold: dict[str, str], tmp_path: Path) -> None:
    with teaching(gold, tmp_path) as school:
        assert cli("generate", school.recipe, "export.pairs={}") == 0, cli.err
        assert cli("export", school.recipe, "export.pairs={}") == 2
        assert "make a pair" in cli.err
        assert cli("export", school.recipe, "export.pairs.runs=[nowhere]") == 2
        assert "trajectories/nowhere/trajectories.jsonl is not there" in cli.err
        assert not (tmp_path / "trajectories/small/dataset").exists()
