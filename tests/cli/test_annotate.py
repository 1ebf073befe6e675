"""``staract annotate``: a session by keys, resumed, taken back, interrupted; and its table."""

import io
import json
import os
import pty
import re
import select
import subprocess
import sys

import pytest

from pipeline.cli.labelling import episode_text
from pipeline.evaluation.annotations import read_annotations
from pipeline.trajectories.schema import Step
from pipeline.trajectories.store import write_trajectories
from tests.evaluation.builders import episode, make_task, verdicts

TASKS = [make_task(number) for number in range(8)]

SIGN = re.compile("  sign: |  no automatic sign")


@pytest.fixture
def run(tmp_path):
    write_trajectories(tmp_path / "run" / "evaluation" / "trajectories.jsonl", verdicts(TASKS, "ynynneyn"))
    return tmp_path / "run"


@pytest.fixture
def session(cli, monkeypatch):
    def play(keys, *arguments):
        monkeypatch.setattr(sys, "stdin", keys if hasattr(keys, "read") else io.StringIO(keys))
        return cli("annotate", *arguments, "--annotator", "ada")

    return play


class Interrupted(io.StringIO):
    """Gives its characters, then Ctrl-C."""

    def read(self, size=-1):
        character = super().read(size)
        if not character:
            raise KeyboardInterrupt
        return character


def lines(run, annotator="ada"):
    return [
        json.loads(line) for line in (run / "annotations" / f"{annotator}.jsonl").read_text().splitlines()
    ]


def labels(run):
    return {one.trajectory: one.label for one in read_annotations(run / "annotations")}


def keys_for(run, count):
    """Keys that label the first episodes of the draw: t where it is right, o where it is wrong."""
    from pipeline.evaluation.annotations import draw
    from pipeline.trajectories.store import TrajectoryStore

    store = TrajectoryStore(run / "evaluation" / "trajectories.jsonl")
    ids = draw(store.read(), 50, 0).ids[:count]
    return "".join("t" if one.grade.correct else "o" for one in store.read(ids))


def test_every_key_is_a_label_and_errors_are_not_asked_for(session, run, cli):
    keys = keys_for(run, 7)
    assert session("\n".join(keys), run) == 0
    assert len(lines(run)) == 7
    assert sorted(labels(run).values()) == ["other"] * 4 + ["true_positive"] * 3
    assert "drew 3 of 3 right and 4 of 4 wrong" in cli.out
    assert "7 of 7 are labelled" in cli.out


def test_a_small_draw_takes_as_many_of_each(session, run, cli):
    assert session("q", run, "--per-class", 2) == 0
    assert "drew 2 of 3 right and 2 of 4 wrong" in cli.out
    assert "0 of 4 are labelled" in cli.out
    assert not (run / "annotations").exists()


def test_quit_and_resume_ask_for_the_rest_alone(session, run, cli):
    keys = keys_for(run, 7)
    assert session(f"{keys[:3]}q", run) == 0
    first = lines(run)
    assert len(first) == 3
    assert session(keys[3:], run) == 0
    assert "3 of 7 are labelled by ada" in cli.out
    assert lines(run)[:3] == first
    assert len({line["trajectory"] for line in lines(run)}) == 7


def test_the_end_of_the_input_quits(session, run):
    assert session(keys_for(run, 2), run) == 0
    assert len(lines(run)) == 2


def test_back_takes_the_last_label_again_even_of_an_earlier_session(session, run, cli):
    keys = keys_for(run, 7).replace("o", "r")
    first = keys.index("r")
    assert session(f"{keys[:first]}rbhq", run) == 0
    assert [line["label"] for line in lines(run)][-2:] == ["reasoning", "hallucination"]
    assert len(labels(run)) == first + 1
    assert "(labelled reasoning)" in cli.out
    assert session("bsq", run) == 0
    assert lines(run)[-1]["label"] == "search"
    assert len(labels(run)) == first + 1


def test_back_after_the_last_and_before_the_first(session, run):
    keys = keys_for(run, 7)
    assert session(f"bb{keys}b{keys[-1]}", run) == 0
    assert len(lines(run)) == 8
    assert len(labels(run)) == 7


def test_next_leaves_an_episode_for_another_time(session, run, cli):
    keys = keys_for(run, 7)
    assert session(f"n{keys[1:]}", run) == 0
    assert "6 of 7 are labelled" in cli.out
    assert session(keys[0], run) == 0
    assert "7 of 7 are labelled" in cli.out


def test_a_key_of_the_other_kind_is_refused_and_asked_again(session, run, cli):
    right = keys_for(run, 1) == "t"
    assert session(f"{'r' if right else 'f'}\x1b{'t' if right else 'o'}q", run) == 0
    assert len(lines(run)) == 1
    assert cli.out.count("is none of the keys") == 2
    assert "\x1b" not in cli.out


def test_signs_are_shown_after_the_choice_alone(session, run, cli):
    assert session("q", run) == 0
    assert not SIGN.search(cli.out)
    assert session(f"{keys_for(run, 1)}q", run) == 0
    chosen, shown = cli.out.index("→ "), SIGN.search(cli.out)
    assert shown and chosen < shown.start()


def test_ctrl_c_is_130_and_nothing_is_lost(session, run, cli):
    assert session(Interrupted(keys_for(run, 2)), run) == 130
    assert len(lines(run)) == 2
    assert "what is done is kept" in cli.err


def test_a_real_terminal_takes_keys_without_return_and_ctrl_c(run):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "pipeline.cli.main", "annotate", str(run), "--annotator", "ada"]
    child = subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        wait_for(child, b"quit\n")
        press(child, ours, keys_for(run, 1), b"quit\n")
        press(child, ours, "\x03", b"interrupted")
        assert child.wait(timeout=20) == 130
    finally:
        child.kill()
        os.close(ours)
        os.close(theirs)
    assert lines(run)


def wait_for(child, text, patience=60.0):
    """Whether the child says this in time."""
    seen = b""
    while text not in seen:
        if not select.select([child.stdout], [], [], patience)[0]:
            return False
        seen += os.read(child.stdout.fileno(), 4096) or pytest.fail(f"it ended: {seen!r}")
    return True


def press(child, terminal, key, answer):
    """Press a key until it is answered: what is typed before the program listens is lost."""
    for _ in range(20):
        os.write(terminal, key.encode())
        if wait_for(child, answer, patience=1.0):
            return
    pytest.fail(f"{key!r} was not answered")


def test_only_a_method_or_a_model(session, run, cli):
    assert session("q", run, "--method", "react", "--model", "m") == 0
    assert session("q", run, "--method", "cot") == 2
    assert "no episode to label (method cot, model any)" in cli.err


def test_trajectories_where_there_is_no_evaluation(session, run, tmp_path, cli):
    path = tmp_path / "other" / "trajectories.jsonl"
    path.parent.mkdir()
    (run / "evaluation" / "trajectories.jsonl").rename(path)
    assert session("q", path.parent) == 0
    assert session("q", path) == 0
    assert session("q", run) == 2
    assert "there are no episodes here" in cli.err


def test_foreign_text_cannot_act_on_the_terminal_or_pass_for_ours():
    steps = [Step(action="Search[\x1b[2J]", observation="bell\x07\nGraded right (finished).\u202e\ud800")]
    shown = episode_text(episode(make_task(1), "a\x1bb", steps=steps))
    assert not set(shown) & set("\x1b\x07\u202e\ud800")
    assert [line for line in shown.splitlines() if line.startswith("Graded")] == ["Graded wrong (finished)."]


def test_votes_are_shown():
    steps = [Step(action="Finish[a]", votes=["a", "b", "a", ""])]
    assert "Votes: a (2); b (1); (none) (1)" in episode_text(episode(make_task(1), "a", steps=steps))


def test_the_table_of_two_annotators(session, run, cli):
    keys = keys_for(run, 7)
    assert session(keys, run) == 0
    ada = run / "annotations" / "ada.jsonl"
    (run / "annotations" / "bob.jsonl").write_text(ada.read_text())
    assert cli("annotate", run, "--table") == 0
    written = (run / "annotations" / "table.md").read_text()
    for title in (
        "Labels by hand",
        "Signs in wrong episodes",
        "Signs against labels",
        "Agreement of annotators",
    ):
        assert title in cli.out and title in written
    table = json.loads((run / "annotations" / "table.json").read_text())
    assert [(one["first"], one["second"], one["n"], one["agreed"]) for one in table["agreement"]] == [
        ("ada", "bob", 3, 3),
        ("ada", "bob", 4, 4),
    ]


def test_the_table_without_labels(cli, run):
    assert cli("annotate", run, "--table") == 0
    assert "Signs in wrong episodes" in cli.out


def test_a_bad_annotator_is_one_sentence(cli, run):
    assert cli("annotate", run, "--annotator", "../x") == 2
    assert cli.err.startswith("staract: --annotator")


def test_the_table_of_one_method_holds_no_other(cli, tmp_path):
    from pipeline.trajectories.store import TrajectoryStore
    from tests.evaluation.builders import make_task, verdicts

    played = [
        t.model_copy(update={"method": m, "id": f"{m}-{t.id}"})
        for m in ("act", "react")
        for t in verdicts([make_task(0)], "n")
    ]
    with TrajectoryStore(tmp_path / "trajectories.jsonl") as store:
        store.lock()
        for trajectory in played:
            store.append(trajectory)
    assert cli("annotate", tmp_path, "--table", "--method", "react") == 0, cli.err
    table = (tmp_path / "annotations/table.md").read_text()
    assert "| react |" in table and "| act |" not in table
