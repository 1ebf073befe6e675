"""Votes, hybrids and sizes through the verbs, with a server on loopback that answers by rule."""

import json
import re

import pytest

from pipeline.trajectories.store import read_trajectories
from tests.models.server import chat, serving

MODELS = """\
models:
  one: {{address: 'openai:one@{url}', api: chat, max_retries: 0, size: 1}}
  two: {{address: 'openai:two@{url}', api: chat, max_retries: 0, size: 2}}
"""
HEAD = "name: together\nenvironment: {name: atlas, family: questions, kinds: [comparison]}\n"
VOTE = "renderer: chat, shots: 0, max_steps: 2, vote: {samples: 3, max_tokens: 20}"
EVALUATE = f"""\
evaluate:
  panel: {{split: test, size: 5}}
  resamples: 99
  entries:
    - {{model: one, method: {{name: cot_sc, {VOTE}}}}}
    - {{model: one, method: {{name: react, renderer: chat, shots: 0, max_steps: 2}}}}
    - {{model: one, method: {{name: react_then_cot_sc, {VOTE}}}}}
    - {{model: one, method: {{name: cot_sc_then_react, {VOTE}}}}}
    - {{model: two, method: {{name: react, renderer: chat, shots: 0, max_steps: 2}}}}
"""


def answer(asked):
    """ReAct searches for ever; a chain of thought names the first thing that the question compares."""
    if "one action" in asked["messages"][0]["content"]:
        return chat("Thought: I look.\nAction: Search[Bern]")
    question = asked["messages"][-1]["content"]
    named = re.search(r"(\w+) or (\w+)", question)
    return chat(f"Thought: A guess.\nAnswer: {named[1] if named else 'Bern'}")


@pytest.fixture
def server():
    with serving(answer) as running:
        yield running


def test_an_evaluation_plays_parts_once_and_draws_the_curves(cli, tmp_path, monkeypatch, server):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "r.yaml"
    path.write_text(HEAD + MODELS.format(url=server.url) + EVALUATE)
    assert cli("evaluate", path) == 0, cli.err
    # Five votes of three samples, and two steps of five episodes, for one model; the steps again for two.
    assert len(server.requests) == 5 * 3 + 5 * 2 + 5 * 2
    folder = tmp_path / "trajectories/together/report"
    report = json.loads((folder / "report.json").read_text())
    scores = {(row["method"], row["model"]): row["correct"] for row in report["rows"]}
    assert scores["react", "one"] == scores["react", "two"] == 0
    assert scores["react_then_cot_sc", "one"] == scores["cot_sc_then_react", "one"] == scores["cot_sc", "one"]
    (curve,) = report["votes"].values()
    assert [point["samples"] for point in curve] == [1, 2, 3]
    assert [point["mean"] for point in curve] == [scores["cot_sc", "one"] / 5] * 3, "every sample agrees"
    assert {path.name for path in folder.iterdir()} == {
        *("report.json", "report.md", "report.png"),
        *("votes.png", "sizes.png"),
    }
    text = (folder / "report.md").read_text()
    assert "(votes.png)" in text and "(sizes.png)" in text and "repeated loop" in text


def test_a_hybrid_generates_from_its_parts_and_goes_on(cli, tmp_path, monkeypatch, server):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "r.yaml"
    method = f"{{name: react_then_cot_sc, {VOTE}}}"
    generate = f"generate: {{model: one, panel: {{split: train, size: 4}}, method: {method}}}\n"
    path.write_text(HEAD + MODELS.format(url=server.url) + generate)
    assert cli("generate", path) == 0, cli.err
    run = tmp_path / "trajectories/together"
    played = list(read_trajectories(run / "trajectories.jsonl"))
    assert [t.method for t in played] == ["react_then_cot_sc"] * 4
    assert all(len(t.steps) == 3 and len(t.steps[-1].votes) == 3 for t in played)
    assert len(list(read_trajectories(run / "parts.jsonl"))) == 8
    asked = len(server.requests)
    assert cli("generate", path) == 0
    assert "4 more were there before" in cli.out and len(server.requests) == asked
    assert list(read_trajectories(run / "trajectories.jsonl")) == played
    assert cli("generate", path, "generate.until=2") == 2
    assert "plays its whole panel" in cli.err


TEACHER = """\
name: teacher
environment: {name: atlas, family: questions, kinds: [bridge2]}
generate: {model: expert, method: {name: react, shots: 0}, panel: {split: train, size: 6}}
select: {target: 6}
export: {format: tools, styles: [react, cot]}
"""
STUDENT = """\
name: student
environment: {name: atlas, family: questions, kinds: [bridge2]}
models: {base: {address: nowhere}}
train: {model: base, run: teacher, styles: [react]}
evaluate:
  panel: {split: train, size: 3}
  entries: [{model: student, method: {name: react, shots: 0, renderer: tools}}]
"""


def test_tool_calls_are_exported_and_a_leak_into_another_runs_student_is_refused(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    teacher, student = tmp_path / "t.yaml", tmp_path / "s.yaml"
    teacher.write_text(TEACHER)
    student.write_text(STUDENT)
    assert cli("train", student) == 2
    assert "run `staract export" in cli.err
    assert cli("run", teacher) == 0, cli.err
    row = json.loads(
        (tmp_path / "trajectories/teacher/dataset/react/train.jsonl").read_text().splitlines()[0]
    )
    calls = [
        message["tool_calls"][0]["function"]["name"]
        for message in row["messages"]
        if message.get("tool_calls")
    ]
    assert calls[0] == "Search" and calls[-1] == "Finish"
    assert cli("train", student) == 2
    assert "which is held out for the evaluation" in cli.err
    # Named in the teacher's recipe, the same panel keeps its tasks out of the selection.
    teacher.write_text(TEACHER.replace("target: 6", "target: 3, exclude: [{split: train, size: 3}]"))
    assert cli("run", teacher, "name=clean") == 0, cli.err
    assert len(list(read_trajectories(tmp_path / "trajectories/clean/selected.jsonl"))) == 3
    assert cli("train", student, "train.run=clean", "name=other") == 2
    assert "held out" not in cli.err
