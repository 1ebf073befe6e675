"""The verbs that look around: show, tasks, recipes, environments, methods, doctor, help."""

import json
import subprocess
import sys
import time

import pytest

from pipeline.cli.show import readable, visible
from pipeline.trajectories.schema import Outcome, Step, Task, Trajectory


def test_help_is_quick_and_names_every_verb():
    started = time.monotonic()
    shown = subprocess.run(
        [sys.executable, "-m", "pipeline.cli.main", "--help"], capture_output=True, text=True, check=True
    )
    elapsed = time.monotonic() - started
    for verb in ("run", "generate", "select", "export", "train", "evaluate", "report", "show", "doctor"):
        assert f"\n  {verb} " in shown.stdout
    # Half a second on an idle machine; tests share theirs.
    assert elapsed < 3


def test_help_imports_none_of_the_heavy_libraries():
    code = (
        "import sys, pipeline.cli.main; "
        "print([m for m in ('torch', 'transformers', 'scipy', 'matplotlib', 'datasets', 'openai', 'tantivy')"
        " if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_version(cli):
    assert cli("--version") == 0
    assert cli.out.strip()


def test_unknown_verb_is_status_2(cli):
    assert cli("frobnicate") == 2


def test_tasks_are_json_lines(cli):
    assert cli("tasks", "atlas", "--split", "test", "--limit", 3, "--json") == 0
    tasks = [json.loads(line) for line in cli.out.splitlines()]
    assert len(tasks) == 3
    assert {task["split"] for task in tasks} == {"test"}
    assert all(task["gold"] for task in tasks)


def test_tasks_of_a_family_without_answers(cli):
    assert cli("tasks", "atlas", "--split", "dev", "--family", "claims", "--limit", 2) == 0
    assert all(
        set(json.loads(line)) == {"id", "split", "kind", "instruction"} for line in cli.out.splitlines()
    )


def test_tasks_of_a_named_panel(cli):
    assert cli("tasks", "atlas", "--panel", "test100") == 0
    drawn = [json.loads(line) for line in cli.out.splitlines()]
    assert len({task["id"] for task in drawn}) == 100
    assert {task["split"] for task in drawn} == {"test"}


def test_tasks_of_a_panel_file(cli, tmp_path):
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        "name: r\nenvironment: {name: atlas, family: questions}\n"
        "generate: {model: expert, panel: {split: train, size: 4}, method: {name: act, shots: 0}}\n"
    )
    assert cli("generate", recipe, "--runs", tmp_path) == 0
    assert cli("tasks", "atlas", "--family", "questions", "--panel", tmp_path / "r" / "panel.json") == 0
    drawn = [json.loads(line)["id"] for line in cli.out.splitlines()]
    stored = json.loads((tmp_path / "r" / "panel.json").read_text())["tasks"]
    assert drawn == [entry["id"] for entry in stored]


@pytest.mark.parametrize(
    "arguments",
    [
        ("tasks", "atlas"),
        ("tasks", "atlas", "--split", "test", "--panel", "x"),
        ("tasks", "atlas", "--panel", "no-such-panel"),
        ("tasks", "nowhere", "--split", "test"),
        ("tasks", "atlas", "--split", "test", "--data", "x"),
        ("show", "no/such/run"),
    ],
)
def test_bad_arguments_are_one_sentence(cli, arguments):
    assert cli(*arguments) == 2
    assert cli.err.startswith("staract: ")
    assert "Traceback" not in cli.err


def test_show_prints_one_trajectory(cli, tmp_path):
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        "name: r\nenvironment: {name: atlas, family: questions}\n"
        "generate: {model: expert, panel: {split: train, size: 3}, method: {name: react, shots: 0}}\n"
    )
    assert cli("generate", recipe, "--runs", tmp_path) == 0
    run = tmp_path / "r"
    assert cli("show", run) == 0
    assert "Thought 1: " in cli.out
    assert "outcome finished, correct" in cli.out
    second = json.loads((run / "trajectories.jsonl").read_text().splitlines()[1])
    assert cli("show", run, second["id"][:8], "--json") == 0
    assert json.loads(cli.out)["id"] == second["id"]
    assert cli("show", run, second["task"]["id"]) == 0
    assert second["id"] in cli.out
    assert cli("show", run, "zzz") == 2


def test_foreign_text_cannot_act_on_the_terminal():
    task = Task(id="t", environment="e", split="test", instruction="\x1b[2Jgone\u202e", gold=["x"])
    trajectory = Trajectory(
        id="i",
        task=task,
        method="m",
        model="m",
        outcome=Outcome.STEP_LIMIT,
        steps=[Step(action="a", observation="bell\x07", flags=["no_action"])],
        error="why",
    )
    shown = readable(trajectory)
    assert "\x1b" not in shown and "\x07" not in shown and "\u202e" not in shown
    assert "\\u001b[2Jgone" in shown
    assert "error: why" in shown
    assert visible("plain é 漢") == "plain é 漢"


def test_a_trace_of_swiftsage_says_who_acted_and_why():
    task = Task(id="t", environment="e", split="test", instruction="Boil water.")
    flags = [
        ["swift", "early", "novel"],
        ["sage", "stuck", "vain:swift:focus"],
        ["buffer", "valid"],
        ["ambiguous"],
        ["odd"],
    ]
    trajectory = Trajectory(
        id="i",
        task=task,
        method="swiftsage",
        model="m",
        outcome=Outcome.FINISHED,
        steps=[
            Step(thought="1. Water." if each[0] == "sage" else "", action="a", flags=each) for each in flags
        ],
    )
    lines = readable(trajectory).splitlines()
    assert [line.strip() for line in lines if line.startswith("    ")] == [
        "by SWIFT (early, novel)",
        "by SAGE (stuck); before, in vain: SWIFT (focus)",
        "by SAGE's plan (valid)",
        "by the first meaning",
        "flags: odd",
    ]
    assert lines[-1] == "steps: SWIFT 1, SAGE 1, SAGE's plan 1, the first meaning 1"
    assert "Thought 2: 1. Water." in lines
    other = trajectory.model_copy(update={"method": "react"})
    assert "flags: swift, early, novel" in readable(other) and "steps: SWIFT" not in readable(other)


def test_lists(cli, tmp_path):
    assert cli("methods") == 0
    assert all(name in cli.out for name in ("standard", "cot", "act", "react"))
    assert cli("environments") == 0
    assert "atlas" in cli.out and "Search[" in cli.out
    (tmp_path / "bad.yaml").write_text("name: [")
    assert cli("recipes", tmp_path) == 0
    assert "not usable" in cli.out


def test_doctor_says_what_is_there_and_what_is_missing(cli, monkeypatch):
    assert cli("doctor") == 0
    assert "ok       torch" in cli.out and "Ready." in cli.out
    from pipeline.cli import doctor

    monkeypatch.setattr(doctor, "NEEDED", ("no-such-package",))
    assert cli("doctor") == 2
    assert "MISSING  no-such-package" in cli.out
