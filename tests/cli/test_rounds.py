"""``staract run`` with rounds, end to end: students that know as much as they have rows, and a real one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pipeline.cli import compare, round, rounds
from pipeline.environments.registry import load_environment
from pipeline.models.registry import load_model
from pipeline.models.scripted import ScriptedModel
from pipeline.recipe.load import load_recipe
from pipeline.recipe.models import EnvironmentRecipe
from pipeline.rollout import crew
from pipeline.trajectories.files import read_json, write_json
from pipeline.trajectories.panels import load_panel
from pipeline.trajectories.store import TrajectoryStore, read_trajectories
from tests.models.transformers_tiny import write_model

RECIPE = """\
name: star
environment: {name: atlas, family: questions, kinds: [bridge2]}
models: {base: {address: BASE, batch_size: 4, dtype: float32, device: cpu}}
generate:
  model: expert
  method: {name: react, shots: 0}
  panel: {split: train, size: 6}
select: {target: 6}
export: {format: text, styles: [react]}
train: {model: base, max_steps: 1, max_length: 2048, dtype: float32}
rounds:
  most: 2
  tasks: 10
  method: {name: react, shots: 0, max_steps: 5, max_tokens: 40}
  rationalize:
    method: {name: react, shots: 0, max_steps: 5, max_tokens: 40}
  dev: {split: dev, size: 6}
evaluate:
  panel: {split: test, size: 6}
  resamples: 99
  entries:
    - {model: base, method: {name: act, shots: 0, max_steps: 2, max_tokens: 4}}
    - {model: student, method: {name: react, shots: 0, max_steps: 5, max_tokens: 40}}
"""


class School:
    """Stands for training and for the students: one can do a question in so many as it has rows.

    A student plays the expert's steps, or answers nonsense. With a hint it plays them, or answers at once,
    or speaks of the hint, by the number of the question.
    """

    def __init__(self) -> None:
        recipe = EnvironmentRecipe(name="atlas", family="questions", kinds=["bridge2"])
        self.environment = load_environment(recipe)
        tasks = [task for split in ("train", "dev", "test") for task in self.environment.tasks(split)]
        self.tasks = {task.instruction: (number, task) for number, task in enumerate(tasks)}
        self.trained: list[str] = []
        self.asked = 0

    def train(self, job) -> None:
        rows = (job.run.dataset / "react" / "train.jsonl").read_text().splitlines()
        episodes = {json.loads(row)["id"] for row in rows}
        folder = job.checkpoints / job.recipe.name / "react"
        assert load_recipe(job.path, job.overrides) == job.recipe, "training reads the recipe from its file"
        self.trained.append(job.recipe.name)
        write_json(folder / "staract.json", {"style": "react", "renderer": "text", "rows": len(episodes)})

    def load(self, recipe):
        if recipe.address == "expert":
            return load_model(recipe)
        stamp = Path(recipe.address) / "staract.json"
        skill = read_json(stamp)["rows"] if stamp.is_file() else 0

        def reply(request):
            self.asked += 1
            text = request.prompt.text
            asked = re.search(r"^Question: (.*)$", text, re.MULTILINE)
            assert asked
            number, task = self.tasks[asked[1]]
            done = len(re.findall(r"^Observation \d+:", text, re.MULTILINE))
            hinted = "Hint:" in text
            if (hinted and number % 3 == 0) or (not hinted and number % 30 < skill):
                step = list(self.environment.expert(task, 0))[done]
                return f" {step.thought}\nAction {done + 1}: {step.action}\nObservation"
            if hinted:
                said = "The hint says so." if number % 3 == 1 else "It is known."
                return f" {said}\nAction 1: Finish[{task.gold[0]}]\nObservation"
            return f" Who knows.\nAction {done + 1}: Finish[nonsense]\nObservation"

        return ScriptedModel(reply, address=recipe.address)


@pytest.fixture
def school(monkeypatch) -> School:
    school = School()
    monkeypatch.setattr(crew, "load_model", school.load)
    monkeypatch.setattr(compare, "train", school.train)
    return school


@pytest.fixture
def recipe(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "star.yaml"
    path.write_text(RECIPE.replace("BASE", str(tmp_path / "base")))
    return path


def results(root: Path) -> list[dict]:
    return json.loads((root / "trajectories/star/rounds/rounds.json").read_text())["rounds"]


def test_rounds_collect_rationalise_and_train_from_the_base(cli, recipe, school, tmp_path):
    assert cli("run", recipe, "rounds.gain=-1") == 0, cli.err
    runs = tmp_path / "trajectories"
    assert school.trained == ["star", "star-round-1", "star-round-2"]
    zero, one, two = results(tmp_path)
    assert (zero["tasks"], zero["correct"], zero["tried"], zero["rows"]) == (6, 6, 0, 6)
    for before, now in ((zero, one), (one, two)):
        assert now["tasks"] == 10
        assert now["tried"] == 10 - now["correct"]
        # Every hinted task is "right": only those that found the answer themselves are kept.
        assert now["rationalized"] == now["tried"] > now["kept"] > 0
        assert now["rows"] == before["rows"] + now["correct"] + now["kept"]
    for number, row in ((1, one), (2, two)):
        folder = runs / f"star-round-{number}"
        kept = list(read_trajectories(folder / "selected.jsonl"))
        assert len({t.task.id for t in kept}) == len(kept) == row["rows"]
        assert "int:" not in (folder / "dataset/react/train.jsonl").read_text()
        hinted = list(TrajectoryStore(folder / "rationalized.jsonl").read())
        assert all(t.settings["hinted"] and "int:" not in t.task.instruction for t in hinted)
    assert {t.id for t in read_trajectories(runs / "star-round-1/selected.jsonl")} < {
        t.id for t in read_trajectories(runs / "star-round-2/selected.jsonl")
    }
    assert (runs / "star/rounds/rounds.png").read_bytes().startswith(b"\x89PNG")
    assert " best |" in (runs / "star/rounds/rounds.md").read_text()
    assert [row["model"] for row in read_json(runs / "star-round-1/report/report.json")["rows"]] == [
        "student"
    ]


def test_no_task_is_played_twice_or_held_out(cli, recipe, school, tmp_path):
    assert cli("run", recipe, "rounds.gain=-1") == 0, cli.err
    runs = tmp_path / "trajectories"
    places = ["star", "star-round-1", "star-round-2", "star/evaluation"]
    panels = [load_panel(runs / place / "panel.json") for place in places]
    dev = {t.task.id for t in TrajectoryStore(runs / "star/dev/trajectories.jsonl").read()}
    ids = [*(name for panel in panels for name in panel.ids), *dev]
    assert len(set(ids)) == len(ids) == 6 + 10 + 10 + 6 + 6


def test_a_second_call_changes_nothing_and_asks_nobody(cli, recipe, school, tmp_path):
    assert cli("run", recipe) == 0, cli.err
    before, asked = results(tmp_path), school.asked
    assert cli("rounds", recipe) == 0, cli.err
    assert results(tmp_path) == before and school.asked == asked


def test_it_ends_where_a_round_does_not_help(cli, recipe, school, tmp_path):
    assert cli("run", recipe, "rounds.gain=1.0") == 0, cli.err
    assert school.trained == ["star", "star-round-1"]
    assert "the last did not help" in cli.out
    # The gain may be changed afterwards: the same rounds stand, and there is one more.
    first = results(tmp_path)
    assert cli("rounds", recipe, "rounds.gain=-1") == 0, cli.err
    assert results(tmp_path)[:2] == first and len(results(tmp_path)) == 3


PARTS = [
    (round, "failed_tasks"),
    (rounds, "select_round"),
    (rounds.collect, "export"),
    (rounds.compare, "train"),
    (rounds.compare, "evaluate"),
    (rounds, "dev_reward"),
    (rounds, "measured"),
    (rounds, "write_rounds"),
]


def without_seconds(found: list[dict]) -> list[dict]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in found]


def test_stopped_before_any_part_it_goes_on_to_the_same_end(cli, recipe, school, tmp_path, monkeypatch):
    assert cli("run", recipe, "name=whole", "rounds.gain=-1") == 0, cli.err
    whole = read_json(tmp_path / "trajectories/whole/rounds/rounds.json")
    assert cli("run", recipe, "rounds.most=1", "rounds.gain=-1") == 0, cli.err  # round 2 is to be stopped
    for module, name in PARTS:
        with monkeypatch.context() as patch:
            patch.setattr(module, name, stop)
            assert cli("rounds", recipe, "rounds.gain=-1") == 130, name
    assert cli("rounds", recipe, "rounds.gain=-1") == 0, cli.err
    mine = read_json(tmp_path / "trajectories/star/rounds/rounds.json")
    runs = [row.pop("run").replace("whole", "star") for row in whole["rounds"]]
    assert [row.pop("run") for row in mine["rounds"]] == runs
    assert without_seconds(mine["rounds"]) == without_seconds(whole["rounds"])
    for number in (1, 2):
        folders = [tmp_path / f"trajectories/{name}-round-{number}" for name in ("whole", "star")]
        rows = [(folder / "dataset/react/train.jsonl").read_text().splitlines() for folder in folders]
        # The checkpoint's folder, and so every id, holds the run's name; the texts are the same.
        texts = [
            {(r["task"], r["step"], r["prompt"], r["completion"]) for r in map(json.loads, part)}
            for part in rows
        ]
        assert texts[0] == texts[1]


def stop(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("rounds.tasks=9999999", "lower rounds.most or rounds.tasks"),
        ("rounds.dev.split=test", "is in both panels"),
        ("rounds.dev.split=train", "is in both panels"),
        ("rounds.rationalize.method.name=cot", "cannot be given a hint"),
        ("train.run=other", "leave it out"),
        ("select=null", "need a section 'select'"),
        ("rounds.rationalize.model=nobody", "nobody"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_played(
    cli, recipe, school, tmp_path, change, message
):
    assert cli("run", recipe, change) == 2
    assert message in cli.err and "Traceback" not in cli.err
    assert not (tmp_path / "trajectories").exists()


def test_changed_rounds_are_refused(cli, recipe, school):
    assert cli("run", recipe, "rounds.most=1") == 0, cli.err
    assert cli("run", recipe, "rounds.most=1", "rounds.tasks=9") == 2
    assert "rounds.tasks" in cli.err


@pytest.mark.slow
def test_a_real_student_is_trained_and_plays(cli, recipe, tmp_path):
    write_model(tmp_path / "base")
    tiny = ["rounds.most=1", "rounds.tasks=2", "rounds.dev.size=2", "evaluate.panel.size=2"]
    assert cli("run", recipe, *tiny) == 0, cli.err
    zero, one = results(tmp_path)
    assert zero["rows"] == one["rows"] == 6, "it learned nothing in a step, so nothing joined"
    assert one["tried"] == 2 and one["kept"] == 0
    stamps = [
        read_json(tmp_path / f"checkpoints/{name}/react/staract.json") for name in ("star", "star-round-1")
    ]
    assert stamps[0]["base"] == stamps[1]["base"] == str(tmp_path / "base")
