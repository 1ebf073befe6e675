from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AddedToken, PreTrainedTokenizerFast

from pipeline.errors import RecipeError, TrainingError
from pipeline.recipe.load import load_recipe
from pipeline.recipe.models import TrainRecipe
from pipeline.rendering.registry import load_renderer
from pipeline.rendering.tokens import encode
from pipeline.training import preference_data
from pipeline.training.causal import main
from pipeline.training.data import load_rows
from pipeline.training.inspect import Inspected, devices_of, plan_inspection
from pipeline.training.inspect_findings import Choice, Fault, Findings
from pipeline.training.inspect_preference import inspect_preference
from pipeline.training.inspect_rows import inspect_rows, text_stop
from pipeline.training.inspect_seq2seq import inspect_seq2seq
from pipeline.training.preference_data import load_preferences
from pipeline.training.scratch import build_tokenizer
from pipeline.training.seq2seq_data import load_examples
from tests.rendering.making import smol, spec, steps, task, with_tools
from tests.training import making_preferences, making_seq2seq
from tests.training.making import (
    chat_row,
    make_tokenizer,
    rows,
    save_base,
    save_dataset,
    save_recipe,
    text_rows,
)
from tests.training.making_seq2seq import Place, save_rows
from tests.training.test_data import make_unstoppable

TRAIN = TrainRecipe(max_length=256)


def inspected(
    tmp_path: Path, items: list[dict[str, Any]], kind: str, tokenizer: Any, train: TrainRecipe = TRAIN
) -> Findings:
    path = tmp_path / "train.jsonl"
    save_rows(path, items)
    if kind == "swift":
        return inspect_seq2seq(path, tokenizer, train, Choice(99))
    return inspect_rows(path, kind, "react", tokenizer, train, Choice(99))  # type: ignore[arg-type]


def kinds(found: Findings) -> list[tuple[str, str]]:
    return [(fault.kind, fault.row) for fault in found.faults]


@pytest.fixture(scope="module")
def words() -> PreTrainedTokenizerFast:
    items = making_seq2seq.rows(6)
    return build_tokenizer([str(row[key]) for row in items for key in ("input", "target")] * 2, 520)


def test_figures_of_raw_text_are_those_counted_by_hand(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    items = rows("text", 5)
    tokens = labels = longest = 0
    for number in range(5):
        before, length = "", 0
        for row in (row for row in items if row["id"] == f"react-{number}"):
            foreign = tokenizer.encode(str(row["prompt"])[len(before) :])
            own = tokenizer.encode(str(row["completion"]))
            length += len(foreign) + len(own)
            labels += len(own)
            before = f"{row['prompt']}{row['completion']}"
        tokens, longest = tokens + length, max(longest, length)
    found = inspected(tmp_path, items, "text", tokenizer)
    report = found.report.as_dict()
    assert (report["rows_read"], report["rows_kept"]) == (5, 5)
    assert (report["tokens"], report["labelled_tokens"], report["longest"]) == (tokens, labels, longest)
    assert found.faults == []
    figures = Inspected("react", "train", found, TRAIN).figures()
    assert figures["labelled_share"] == labels / tokens


@pytest.mark.parametrize("kind", ["text", "messages", "sharegpt"])
def test_rows_one_by_one_give_the_report_of_training(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, kind: str
) -> None:
    items = rows(kind, 9)
    train = TrainRecipe(max_length=72)  # some rows are cut
    found = inspected(tmp_path, items, kind, tokenizer, train)
    loaded, report = load_rows(tmp_path / "train.jsonl", kind, tokenizer, train.max_length)  # type: ignore[arg-type]
    assert found.report == report
    assert report.rows_truncated > 0
    trained = {row.id: sum(label != -100 for label in row.labels) for row in loaded}
    for shown in found.shown:
        text = "".join(bit.text for bit in shown.bits if bit.trained)
        assert len(tokenizer.encode(text)) == trained[shown.row], "the dump marks what is trained"


def test_rows_with_tool_calls(tmp_path: Path) -> None:
    tokenizer = with_tools("tools_hermes")
    call = {"name": "Finish", "arguments": {"answer": "Rome <|im_end|>"}}
    calls = [{"id": "a", "type": "function", "function": call}]
    messages = [
        {"role": "user", "content": "Where? <|im_start|>"},
        {"role": "assistant", "content": "So.", "tool_calls": calls},
    ]
    answer = {"answer": {"type": "string", "description": "the answer"}}
    parameters = {"type": "object", "properties": answer, "required": ["answer"]}
    about = {"name": "Finish", "description": "ends the episode", "parameters": parameters}
    row = {"id": "a", "messages": messages, "tools": [{"type": "function", "function": about}]}
    found = inspected(tmp_path, [row], "tools", tokenizer, TrainRecipe(max_length=1024))
    assert (found.faults, found.control_ids) == ([], 0)
    assert [bit.text for bit in found.shown[0].bits if bit.trained and bit.control][-1] == "<|im_end|>"


def test_fill_of_blocks_by_hand(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    items = [row for number in range(5) for row in text_rows(f"e{number}", "Oslo", 1)]
    length = len(tokenizer.encode(str(items[0]["prompt"]))) + len(
        tokenizer.encode(str(items[0]["completion"]))
    )
    # Two rows fill a block but for three places; the fifth has a block of its own.
    train = TrainRecipe(max_length=2 * length + 3, batch_size=2)
    found = inspected(tmp_path, items, "text", tokenizer, train)
    assert found.units == 3
    assert found.fill == pytest.approx(5 * length / (3 * (2 * length + 3)))
    one = Inspected("react", "train", found, train)
    assert (one.batch, one.steps, one.rows_per_step) == (2, 2, pytest.approx(10 / 3))
    loose = inspected(tmp_path, items, "text", tokenizer, train.model_copy(update={"packing": False}))
    assert (loose.units, loose.fill) == (5, None)


@pytest.mark.parametrize(
    ("train", "devices", "batch", "steps"),
    [
        (TrainRecipe(batch_size=2, accumulation=3), 1, 6, 4),
        (TrainRecipe(batch_size=2, accumulation=3), 2, 12, 2),
        (TrainRecipe(batch_size=2, rows_a_step=8), 2, 8, 3),
    ],
)
def test_steps_of_an_epoch(train: TrainRecipe, devices: int, batch: int, steps: int) -> None:
    found = Findings(report=load_nothing(), units=21)
    one = Inspected("react", "train", found, train, devices)
    assert (one.batch, one.steps) == (batch, steps)


def load_nothing() -> Any:
    from pipeline.training.data import DataReport

    return DataReport()


def test_the_trainer_takes_as_many_steps(tmp_path: Path, base: Path) -> None:
    save_dataset(tmp_path / "runs" / "trial", count=7)
    path = save_recipe(tmp_path, base, "batch_size: 1\naccumulation: 2")
    inspection = plan_inspection(load_recipe(path, ["train.max_length=128"]), tmp_path / "runs")
    [one] = inspection.files(Choice(0), 1)
    roots = ["--run-root", str(tmp_path / "runs"), "--checkpoint-root", str(tmp_path / "students")]
    assert main([str(path), "train.max_length=128", *roots]) == 0
    log = json.loads((tmp_path / "students" / "trial" / "react" / "train.json").read_text())
    assert len(log["steps"]) == one.steps
    assert sum(step["labelled_tokens"] for step in log["steps"]) == one.findings.report.labelled_tokens


@pytest.mark.parametrize("style", ["standard", "cot", "act", "react"])
def test_the_stop_is_the_one_that_the_renderer_trains_and_serves(style: str) -> None:
    turn = {"standard": "answer", "cot": "reason"}.get(style, style)
    renderer, about = load_renderer("text"), spec(turn, shots=0)
    row: Any = renderer.training(about, task(), steps("x"))
    assert row.segments[-1].text.endswith(text_stop(style))
    assert text_stop(style) == renderer.prompt(about, task(), ()).stop[0]


@pytest.mark.parametrize(
    ("completion", "kind"),
    [
        (" I look.\nAction 1: Finish[x]", "stop"),
        (" I look.\nObservation 1: made up.\nAction 1: Finish[x]\nObservation", "stop"),
        ("", "unlabelled"),
        (f" {'look ' * 300}\nAction 1: Finish[x]\nObservation", "too_long"),
    ],
)
def test_a_text_row_at_fault_is_named(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, completion: str, kind: str
) -> None:
    bad = {**text_rows("bad", "Rome", 1)[0], "completion": completion}
    found = inspected(tmp_path, [*text_rows("good", "Oslo", 2), bad], "text", tokenizer)
    assert kinds(found) == [(kind, "bad")]
    assert "'bad'" in found.sentences()[0]
    assert [row.row for row in found.shown] == ["good", "bad"]
    assert found.shown[1].fault == ("" if kind == "stop" else kind), "a row without its stop is trained on"


def test_a_chat_row_at_fault_is_named(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    silent = {**chat_row("silent", "Rome"), "messages": [{"role": "user", "content": "Where?"}]}
    found = inspected(tmp_path, [chat_row("good", "Oslo"), silent], "messages", tokenizer)
    assert kinds(found) == [("unlabelled", "silent")]
    unstoppable = make_unstoppable(tokenizer)
    found = inspected(tmp_path, [chat_row("one", "Oslo"), chat_row("two", "Rome")], "messages", unstoppable)
    assert kinds(found) == [("stop", "one"), ("stop", "two")]
    assert found.report.rows_kept == 0


def test_a_turn_that_vanishes_is_refused(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    # Nothing stands between two turns, so that their labels run together.
    one = text_rows("gap", "Rome", 1)[0]
    two = {**one, "step": 2, "prompt": f"{one['prompt']}{one['completion']}"}
    found = inspected(tmp_path, [one, two], "text", tokenizer)
    assert kinds(found) == [("refused", "gap")]
    assert "2 turns became 1 runs" in found.sentences()[0]


@pytest.mark.parametrize("kind", ["text", "messages"])
def test_control_tokens_in_text_are_found(tmp_path: Path, kind: str) -> None:
    tokenizer = make_tokenizer()
    # No markup and not "special": the tokeniser itself cannot be told to spell it out.
    tokenizer.add_tokens([AddedToken("@@end", special=False), AddedToken("    ", special=False)])
    place = "Rome@@end"
    make: Any = text_rows if kind == "text" else chat_row
    made = make("bad", place, 1)
    good = make("good", "<|im_end|>     <|im_start|>", 1)
    items = [*made, *good] if kind == "text" else [made, good]
    found = inspected(tmp_path, items, kind, tokenizer)
    assert kinds(found) == [("control", "bad")], "neither tokens spelt out nor blanks are at fault"
    assert found.control_ids == json.dumps(made).count("@@end") - (kind == "text" and len(made) - 1)
    alarms = [bit.text for bit in found.shown[0].bits if bit.alarm]
    assert set(alarms) == {"@@end"} and len(alarms) == found.control_ids
    assert "@@end" in found.sentences()[0]


def test_the_real_tokeniser_spells_hostile_text_out(tmp_path: Path) -> None:
    hostile = "<|im_end|>\n<|im_start|>system\x1b[2J <repo_name> \u2028"
    for kind, items in (("text", text_rows("a", hostile, 2)), ("messages", [chat_row("a", hostile, 2)])):
        found = inspected(tmp_path, items, kind, smol(), TrainRecipe(max_length=1024))
        assert (found.faults, found.control_ids) == ([], 0)
        controls = [bit.text for bit in found.shown[0].bits if bit.control]
        assert len(controls) == (0 if kind == "text" else 10), (
            "two a message, and two of the template's system"
        )


BYTES = make_tokenizer()


@settings(max_examples=25, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_the_dump_is_the_text_whatever_it_holds(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    items = text_rows("a", text, 2)
    found = inspected(tmp_path_factory.mktemp("rows"), items, "text", BYTES, TrainRecipe(max_length=4096))
    last = items[-1]
    assert "".join(bit.text for bit in found.shown[0].bits) == f"{last['prompt']}{last['completion']}"
    trained = "".join(bit.text for bit in found.shown[0].bits if bit.trained)
    assert trained == "".join(str(row["completion"]) for row in items)
    assert not [bit for bit in found.shown[0].bits if bit.control]


def test_pairs_one_by_one_give_the_report_of_training(tmp_path: Path, words: PreTrainedTokenizerFast) -> None:
    train = TrainRecipe(max_length=110)
    found = inspected(tmp_path, making_seq2seq.rows(4), "swift", words, train)
    _, report = load_examples(tmp_path / "train.jsonl", words, 110, train.target_length)
    assert found.report == report
    assert (found.faults, found.control_ids, found.units) == ([], 0, 8)
    tokens = sum(len(words.encode(row["target"])) for row in making_seq2seq.rows(4))  # type: ignore[arg-type]
    assert report.labelled_tokens == tokens, "each with its end token"


def test_every_fault_of_a_pair_is_named(tmp_path: Path, words: PreTrainedTokenizerFast) -> None:
    good = making_seq2seq.rows(1)[0]
    text = making_seq2seq.prompt("kitchen", 2).text
    changes: list[tuple[str, dict[str, object]]] = [
        ("unlabelled", {"target": "  "}),
        ("target_too_long", {"target": "wait " * 20}),
        ("stop", {"target": "go </s> go"}),
        ("too_long", {"input": text.replace("Your task", "Your task " * 300)}),
        ("control", {"input": text.replace("hallway. A", "hallway </s> A")}),
        ("control", {"target": "go <extra_id_3>"}),
        ("form", {"input": text.replace("look around", "look <extra_id_9> around")}),
        ("form", {"input": "What now?"}),
        ("refused", {"input": "What now? " * 300}),
    ]
    items = [{**good, "step": number, **change} for number, (_, change) in enumerate(changes)]
    found = inspected(tmp_path, [*items, {**good, "step": 99}], "swift", words)
    assert kinds(found) == [(kind, f"e-0, step {number}") for number, (kind, _) in enumerate(changes)]
    assert found.control_ids == 2
    assert len(found.sentences()) == 7, "one a kind"
    assert "<extra_id_3>" not in found.sentences()[4] and "</s>" in found.sentences()[4]


def test_sentences_name_a_few_rows_and_count_the_others() -> None:
    found = Findings(load_nothing(), [Fault("too_long", f"r{number}") for number in range(9)])
    [sentence] = found.sentences()
    assert "9 ('r0', 'r1', 'r2', 6 more); raise train.max_length" in sentence


def test_the_dev_rows_are_inspected_and_shown_by_name(tmp_path: Path, base: Path) -> None:
    save_dataset(tmp_path / "runs" / "trial", count=3, dev=2)
    inspection = plan_inspection(load_recipe(save_recipe(tmp_path, base)), tmp_path / "runs")
    train, dev = inspection.files(Choice(2), 1)
    assert (train.name, dev.name) == ("train", "dev")
    assert (len(train.findings.shown), len(dev.findings.shown)) == (2, 0)
    train, dev = inspection.files(Choice(0, "react-1"), 1)
    assert [row.row for one in (train, dev) for row in one.findings.shown] == ["react-1", "react-1"]


def test_an_adapter_brings_the_tokeniser_of_its_base(tmp_path: Path, base: Path) -> None:
    save_dataset(tmp_path / "runs" / "trial", count=3)
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(base)}))
    for address in (base, adapter):
        inspection = plan_inspection(load_recipe(save_recipe(tmp_path, address)), tmp_path / "runs")
        [one] = inspection.files(Choice(0), 1)
        assert one.findings.report.rows_kept == 3


def test_a_base_from_nothing_has_the_tokeniser_that_training_makes(tmp_path: Path) -> None:
    place = Place(tmp_path, "max_steps: 1", count=3)
    inspection = plan_inspection(load_recipe(place.recipe), tmp_path / "runs")
    [one] = inspection.files(Choice(0), 1)
    assert place.train() == 0
    assert one.findings.report.as_dict() == place.log()["data"]


def test_what_cannot_be_inspected_is_one_sentence(tmp_path: Path, base: Path) -> None:
    dataset = save_dataset(tmp_path / "runs" / "trial", count=3)
    recipe = load_recipe(save_recipe(tmp_path, base))
    with pytest.raises(TrainingError, match="holds no style 'cot'"):
        plan_inspection(recipe, tmp_path / "runs", "cot")
    with pytest.raises(RecipeError, match="lacks a train section"):
        plan_inspection(recipe.model_copy(update={"train": None}), tmp_path / "runs")
    (dataset / "react" / "train.jsonl").write_text("")
    with pytest.raises(TrainingError, match="holds no row"):
        list(plan_inspection(recipe, tmp_path / "runs").files(Choice(), 1))
    place = Place(tmp_path / "t5", vocab_size="many")
    with pytest.raises(TrainingError, match="is no T5 config"):
        list(plan_inspection(load_recipe(place.recipe), place.root / "runs").files(Choice(), 1))


def test_devices_are_those_that_training_would_start(tmp_path: Path) -> None:
    config = tmp_path / "two.yaml"
    config.write_text("distributed_type: MULTI_GPU\nuse_cpu: true\nnum_machines: 1\nnum_processes: 2\n")
    recipe = tmp_path / "recipe.yaml"
    assert devices_of(TrainRecipe(), recipe) == 1
    assert devices_of(TrainRecipe(accelerate=str(config)), recipe) == 2
    assert devices_of(TrainRecipe(accelerate=str(config), processes=4), recipe) == 4
    with pytest.raises(RecipeError, match="nowhere"):
        devices_of(TrainRecipe(accelerate="nowhere"), recipe)


def test_no_weights_are_needed(tmp_path: Path, base: Path) -> None:
    bare = save_base(tmp_path / "bare")
    for weights in bare.glob("*.safetensors"):
        weights.unlink()
    save_dataset(tmp_path / "runs" / "trial", count=3)
    inspection = plan_inspection(load_recipe(save_recipe(tmp_path, bare)), tmp_path / "runs")
    assert [one.findings.report.rows_kept for one in inspection.files(Choice(0), 1)] == [3]
    assert deepcopy(inspection.styles) == ("react",)


@pytest.mark.parametrize("kind", ["text", "messages"])
def test_pairs_to_prefer_one_by_one_give_the_report_of_training(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, kind: Any
) -> None:
    pairs = [making_preferences.make_pair(number, shared=number) for number in range(4)]
    path = making_preferences.save_pairs(tmp_path, pairs, kind) / "react" / "train.jsonl"
    whole, _ = load_preferences(path, kind, tokenizer, 4096)
    limit = max(len(whole[1]["chosen_ids"]), len(whole[1]["rejected_ids"]))  # longer pairs are cut
    found = inspect_preference(path, kind, "react", tokenizer, TrainRecipe(max_length=limit), Choice(99))
    loaded, report = load_preferences(path, kind, tokenizer, limit)
    assert report.rows_truncated > 0 and report.turns_dropped > 0
    assert (found.report, found.faults, found.control_ids) == (report, [], 0)
    assert (found.units, found.fill) == (4, None)
    assert [row.row.split()[1] for row in found.shown] == ["chosen", "rejected"] * 4
    shown = iter(found.shown)
    for row in loaded:
        better, worse = next(shown), next(shown)
        for half, one in (("chosen", better), ("rejected", worse)):
            words = [label for label in row[f"{half}_labels"] if label != -100]
            assert "".join(bit.text for bit in one.bits if bit.trained) == tokenizer.decode(words)
        assert "".join(bit.text for bit in better.bits) == tokenizer.decode(row["chosen_ids"])
        remainder = tokenizer.decode(row["rejected_ids"][row["prompt_length"] :])
        assert "".join(bit.text for bit in worse.bits) == remainder, "what both share is shown once"


def test_every_fault_of_a_pair_to_prefer_is_named(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = (
        making_preferences.save_pairs(tmp_path, [making_preferences.make_pair(0)]) / "react" / "train.jsonl"
    )
    good = json.loads(path.read_text())

    def faults(row: dict[str, Any], **train: Any) -> list[tuple[str, str]]:
        path.write_text(json.dumps(row) + "\n")
        recipe = TrainRecipe(**{"max_length": 1024, **train})
        found = inspect_preference(path, "text", "react", tokenizer, recipe, Choice(1))
        assert len(found.shown) == 2 and found.report.rows_read == 1
        return kinds(found)

    assert faults(good) == []
    unending = [*good["rejected_parts"][:-1], "Action 9: Finish[x]"]
    assert faults({**good, "rejected_parts": unending}) == [("stop", good["id"])]
    assert faults({**good, "chosen_parts": [""]}) == [("stop", good["id"])]
    assert faults(good, max_length=20) == [("too_long", good["id"])]
    seen = [good["rejected_parts"][0], " @@end\nThought 3:", *good["rejected_parts"][2:]]
    assert faults({**good, "rejected_parts": seen}) == []
    tokenizer = deepcopy(tokenizer)
    tokenizer.add_tokens([AddedToken("@@end", special=False)])
    assert faults({**good, "rejected_parts": seen}) == [("control", good["id"])]

    def other(prompt: Any, tokenizer: Any, *, generate: bool) -> Any:
        found = encode(prompt, tokenizer, generate=generate)
        found.ids[0] += 1
        return found

    monkeypatch.setattr(preference_data, "encode", other)
    assert faults(good) == [("unserved", good["id"])]
