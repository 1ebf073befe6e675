"""``staract inspect-data``: what it prints, writes and ends with."""

import json
import re
from io import StringIO

import pytest
from rich.console import Console

from pipeline.cli.inspect_dump import coloured_row, plain_row
from pipeline.training.inspect_findings import Bit, Shown
from tests.training import making_preferences
from tests.training.making import make_tokenizer, save_dataset, save_recipe, text_rows
from tests.training.making_seq2seq import Place, rows, save_rows

HOSTILE = "\x1b[2J\x1b]0;owned\x07 ⟧ fake ⟦ \u202e\u2028 \x9b31m\nrow 'fake'"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A model folder without weights: none are ever needed."""
    folder = tmp_path_factory.mktemp("base") / "bare"
    make_tokenizer().save_pretrained(folder)
    (folder / "config.json").write_text('{"model_type": "llama"}')
    return folder


@pytest.fixture
def place(tmp_path, base):
    """A recipe and its dataset; ``add`` puts rows behind those that are there."""

    class Trial:
        recipe = save_recipe(tmp_path, base)
        runs = tmp_path / "runs"
        rows = save_dataset(tmp_path / "runs" / "trial", count=4, dev=2) / "react" / "train.jsonl"

        def add(self, *items):
            with self.rows.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(item) + "\n" for item in items)

    return Trial()


def test_rows_with_their_labels_marked_then_the_table(cli, place):
    assert cli("inspect-data", place.recipe, "--runs", place.runs, "--rows", 1) == 0
    assert "row 'react-0'" in cli.out and "row 'react-1'" not in cli.out
    assert "  │ Question: Where is Oslo?\n" in cli.out
    assert "  │ Thought 1:⟦ I look Oslo.\n  │ Action 1: Finish[Oslo]\n  │ Observation⟧\n" in cli.out
    table = {line[:24].strip(): line[24:].split() for line in cli.out.splitlines() if line.startswith(" ")}
    assert "rows" in cli.out and "4 of 4" in cli.out and "2 of 2" in cli.out
    assert table["control ids in text"][-2:] == table["rows without their stop"][-2:] == ["0", "0"]
    assert "\x1b" not in cli.out
    assert "every row trains something" in cli.out


def test_figures_as_json_agree_with_the_rows(cli, place, tmp_path):
    target = tmp_path / "figures.json"
    arguments = ("train.batch_size=2", "train.max_length=128", "--devices", 2, "--json", target)
    assert cli("inspect-data", place.recipe, "--runs", place.runs, *arguments) == 0
    written = json.loads(target.read_text())
    assert (written["format"], written["devices"], written["batch"], written["faulty"]) == (
        "text",
        2,
        4,
        False,
    )
    train, dev = written["styles"]["react"]["train"], written["styles"]["react"]["dev"]
    assert (train["rows_kept"], dev["rows_kept"]) == (4, 2)
    completions = [json.loads(line)["completion"] for line in place.rows.read_text().splitlines()]
    labels = sum(len(make_tokenizer().encode(text)) for text in completions)
    assert train["labelled_tokens"] == labels
    assert train["labelled_share"] == pytest.approx(labels / train["tokens"])
    assert train["packing_fill"] == pytest.approx(train["tokens"] / (128 * train["units"]))
    assert train["steps_per_epoch"] == -(-train["units"] // 4)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"completion": ""}, "hold no word of the model's own: 1 ('bad')"),
        ({"completion": " So.\nAction 1: Finish[x]"}, "does not end with its one stop"),
        ({"completion": " x" * 400 + "\nObservation"}, "do not fit even when cut: 1 ('bad'); raise"),
    ],
)
def test_a_faulty_row_is_one_sentence_and_status_1(cli, place, change, complaint):
    place.add({**text_rows("bad", "Rome", 1)[0], **change})
    assert cli("inspect-data", place.recipe, "--runs", place.runs, "--row", "bad") == 1
    [sentence] = [line for line in cli.err.splitlines() if "reading the rows" not in line]
    assert sentence.startswith("inspect-data: react/train.jsonl: ") and complaint in sentence
    assert "row 'bad'" in cli.out and "every row trains something" not in cli.out


@pytest.mark.parametrize(
    ("target", "complaint"),
    [("", "hold no word of the model's own"), ("go " * 40, "raise train.target_length")],
)
def test_a_faulty_pair_is_status_1(cli, tmp_path, target, complaint):
    place = Place(tmp_path, count=3)
    save_rows(place.dataset / "act" / "train.jsonl", [*rows(3), {**rows(1)[0], "step": 9, "target": target}])
    assert cli("inspect-data", place.recipe, "--runs", tmp_path / "runs") == 1
    assert complaint in cli.err and "'e-0, step 9'" in cli.err
    assert "longest target" in cli.out
    assert re.search(r"What action should you do next\? ?⟪</s>⟫⟦ ?open door to kitchen⟪</s>⟫⟧", cli.out)


def test_pairs_to_prefer_show_both_halves(cli, tmp_path, base):
    place = making_preferences.Place(tmp_path, base, train="packing: false\n")
    target = tmp_path / "figures.json"
    assert cli("inspect-data", place.recipe, "--runs", tmp_path / "runs", "--rows", 1, "--json", target) == 0
    assert re.search(r"\nrow 't0good\S* chosen'\n", cli.out) and re.search(
        r"\nrow 't0good\S* rejected'\n", cli.out
    )
    assert cli.out.count("Question: Where is") == 1, "what both halves share is shown once"
    assert "longest half" in cli.out and "tokens that the halves share" in cli.out
    written = json.loads(target.read_text())
    assert (written["packing"], written["styles"]["react"]["train"]["rows_kept"]) == (False, 4)


def test_foreign_text_cannot_act_on_the_terminal(cli, place):
    hostile = text_rows(f"evil\x1b[2J{HOSTILE}", "Rome", 2)
    for row in hostile:
        row["prompt"] = str(row["prompt"]).replace("Where is", HOSTILE)
    place.add(*hostile, {**hostile[0], "id": "bad\x1b[2J", "completion": ""})
    assert cli("inspect-data", place.recipe, "--runs", place.runs, "--rows", 99) == 1
    for printed in (cli.out, cli.err):
        assert not set("\x1b\x07\x9b\u202e\u2028") & set(printed)
    assert "\\u001b[2J" in cli.out and "\\u27e7 fake \\u27e6" in cli.out
    assert len(re.findall(r"\nrow ['\"]", cli.out)) == 6, "a line of a row never begins as a heading does"


def test_colours_mark_what_is_trained_and_nothing_else_is_sent(cli):
    row = Shown(
        f"x{HOSTILE}",
        (
            Bit(f"Question {HOSTILE}\nThought 1:", trained=False),
            Bit("<|im_start|>", trained=False, control=True, alarm=True),
            Bit(" I look.", trained=True),
            Bit("<|im_end|>", trained=True, control=True),
        ),
    )
    target = StringIO()
    Console(file=target, force_terminal=True, color_system="standard", width=500).print(coloured_row(row))
    sent = target.getvalue()
    assert re.search(r"\x1b\[[\d;]*42m I look\.\x1b\[0m", sent), "labels stand on green"
    assert re.search(r"\x1b\[[\d;]*41m<\|im_start\|>", sent), "a token that has no place there stands on red"
    bare = re.sub(r"\x1b\[[\d;]*m", "", sent)
    assert "\x1b" not in bare and "\x07" not in bare
    marked = plain_row(row)
    assert "⟪!<|im_start|>⟫⟦ I look.⟪<|im_end|>⟫⟧" in marked
    assert [line.rstrip() for line in bare.splitlines()] == [
        re.sub("[⟦⟧⟪⟫]!?", "", line).rstrip() for line in marked.splitlines()
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--row", "nobody"), "no row has an id that begins with 'nobody'"),
        (("--style", "cot"), "holds no style 'cot'"),
        (("train.max_length=oops",), "train.max_length"),
        (("name=other",), "holds no export.json"),
        (("train.rows_a_step=3", "train.batch_size=2"), "rows_a_step"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(cli, place, arguments, complaint):
    assert cli("inspect-data", place.recipe, *arguments, "--runs", place.runs) == 2
    assert complaint in cli.err and "Traceback" not in cli.err


def test_a_broken_file_is_status_2(cli, place):
    place.rows.write_text("{torn")
    assert cli("inspect-data", place.recipe, "--runs", place.runs) == 2
    assert "line 1 is not JSON" in cli.err


def test_a_recipe_for_gpus_is_counted_for_one_device_elsewhere(cli, place, tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline.training.layout.gpus", lambda: 0)
    config = tmp_path / "eight.yaml"
    config.write_text("distributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 8\n")
    arguments = ("--runs", place.runs, f"train.accelerate={config}")
    assert cli("inspect-data", place.recipe, *arguments) == 0
    assert "counted for one device" in cli.err and "× 1 devices" in cli.out
    assert cli("inspect-data", place.recipe, *arguments, "--devices", 8) == 0
    assert "× 8 devices" in cli.out and "counted for one device" not in cli.err


def test_help_says_what_the_statuses_mean(cli):
    assert cli("inspect-data", "--help") == 0
    for word in ("status 1", "--row", "--json", "weights are not loaded"):
        assert word in " ".join(cli.out.split())
