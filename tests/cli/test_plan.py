"""``staract plan`` from the command line: what it prints, what it refuses, what it ends with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from transformers import AutoTokenizer

from pipeline.training.preference_data import load_preferences
from tests.training import making_preferences
from tests.training.making import save_base, save_dataset

CONFIGS = Path(__file__).resolve().parents[2] / "recipes" / "configs"
TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
}


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY))
    return path


def recipe(folder: Path, address: str = "someone/model", **train: object) -> Path:
    path = folder / "recipe.yaml"
    values = {
        "name": "trial",
        "environment": {"name": "atlas"},
        "models": {"base": {"address": address}},
        "train": {"max_length": 256, "batch_size": 4, **train},
    }
    path.write_text(yaml.safe_dump(values))
    return path


def test_a_plan_that_fits(cli, tmp_path, config) -> None:
    out = tmp_path / "plan.json"
    command = ["plan", recipe(tmp_path, max_steps=100), "--gpu", "h100", "--gpus", 8, "--sharding", "zero3"]
    assert cli(*command, "--config", config, "--price", 2, "--json", out) == 0
    assert "fits" in cli.out
    assert "4 × 1 × 8 = 32 blocks, 8,192 tokens" in cli.out
    assert max(map(len, cli.out.splitlines())) <= 80
    plan = json.loads(out.read_text())
    assert plan["fits"] is True
    assert plan["steps"] == 100
    assert plan["memory"]["total"] == pytest.approx(
        sum(size for part, size in plan["memory"].items() if part not in {"total", "host"})
    )
    assert plan["cost"] == pytest.approx(plan["hours"] * 8 * 2)
    # Arithmetic by hand: the peak's share, over the operations of a token.
    assert plan["hours"] * 3600 == pytest.approx(100 * 8192 / plan["tokens_per_second"])


def test_steps_follow_from_rows_and_epochs(cli, tmp_path, config) -> None:
    out = tmp_path / "plan.json"
    made = recipe(tmp_path, packing=False, epochs=2, accumulation=4)
    size = ["--rows", 1000, "--tokens-per-row", 100]
    assert cli("plan", made, "--gpu", "l4", "--config", config, *size, "--json", out) == 0
    plan = json.loads(out.read_text())
    # 1,000 rows, 16 a step, twice.
    assert (plan["steps"], plan["tokens_per_step"]) == (126, 1600)


def test_without_a_size_the_steps_are_unknown(cli, tmp_path, config) -> None:
    assert cli("plan", recipe(tmp_path), "--gpu", "l4", "--config", config) == 0
    assert "unknown: say --rows and --tokens-per-row" in cli.out


def test_the_dataset_is_counted_where_it_is(cli, tmp_path) -> None:
    base = save_base(tmp_path / "base")
    save_dataset(tmp_path / "runs" / "trial", count=12)
    made = recipe(tmp_path, str(base), packing=False)
    assert cli("plan", made, "--gpu", "l4", "--runs", tmp_path / "runs") == 0
    assert "12 rows" in " ".join(cli.out.split())
    assert "steps          3\n" in cli.out


def test_what_does_not_fit_is_refused_with_the_change_that_helps(cli, tmp_path, config) -> None:
    made = recipe(tmp_path, max_steps=1, batch_size=64, max_length=1024)
    figures = ["--memory", 1.2, "--tflops", 100, "--config", config]
    assert cli("plan", made, *figures) == 1
    assert "DOES NOT FIT" in cli.out
    assert cli.err.startswith("staract: trial does not fit: ")
    assert "GB a GPU are needed and 1.20 are there; with train.batch_size=" in cli.err
    # The advice holds: what it says to add makes the same command succeed, at the same rows a step.
    words = cli.err.split("; with ")[1].split(" it would")[0].split()
    assert cli("plan", made, *words, *figures) == 0
    assert "= 64 blocks" in cli.out


def test_nothing_helps_a_gpu_that_is_too_small(cli, tmp_path, config) -> None:
    assert cli("plan", recipe(tmp_path), "--memory", 0.5, "--tflops", 100, "--config", config) == 1
    assert "no smaller batch, sharding or adapter helps" in cli.err
    assert cli.err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--gpu", "abacus"], "'abacus' is none of"),
        ([], "say which GPU"),
        (["--gpu", "l4", "--sharding", "zero9"], "'zero9' is none of none, ddp, zero2"),
        (["--gpu", "l4", "--rows", 5], "give both or neither"),
        (["--gpu", "l4", "--config", "nowhere.json"], "nowhere.json"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(cli, tmp_path, config, options, complaint) -> None:
    rest = [] if "--config" in options else ["--config", config]
    assert cli("plan", recipe(tmp_path), *options, *rest) == 2
    assert complaint in cli.err
    assert cli.err.count("\n") == 1


def test_an_adapter_on_an_encoder_decoder_is_refused_as_training_refuses_it(cli, tmp_path) -> None:
    made = recipe(tmp_path, lora={"rank": 4})
    assert cli("plan", made, "--gpu", "h100", "--config", CONFIGS / "t5_large.json") == 2
    assert "encoder-decoder is trained with all its weights" in cli.err


def test_examples_are_not_packed_whatever_the_recipe_says(cli, tmp_path) -> None:
    small = {"d_model": 32, "d_ff": 64, "d_kv": 8, "num_layers": 1, "num_heads": 4, "vocab_size": 500}
    path = tmp_path / "t5.json"
    path.write_text(json.dumps({"model_type": "t5", "decoder_start_token_id": 0, **small}))
    size = ["--rows", 100, "--tokens-per-row", 50]
    assert cli("plan", recipe(tmp_path), "--gpu", "l4", "--config", path, *size) == 0
    # 4 rows a step of 100: nobody packed them into fewer blocks.
    assert "steps          25\n" in cli.out


def test_pairs_are_planned_as_two_rows_each(cli, tmp_path, config) -> None:
    out = tmp_path / "plan.json"
    command = ["plan", recipe(tmp_path, dpo={}), "--gpu", "l4", "--config", config, "--json", out]
    assert cli(*command, "--rows", 100, "--tokens-per-row", 50) == 0
    assert "4 pairs of 2 × 256 tokens" in cli.out
    assert "4 × 1 × 1 = 4 pairs, 400 tokens" in cli.out and "steps          25\n" in cli.out
    assert "a frozen copy to compare with" in cli.out
    plan = json.loads(out.read_text())
    assert plan["memory"]["reference"] == 4 * plan["parameters"]["total"]
    assert cli(*command, "train.lora.rank=4") == 0
    assert json.loads(out.read_text())["memory"]["reference"] == 0
    assert cli(*command[:4], "--config", CONFIGS / "t5_large.json") == 2
    assert "encoder-decoder imitates only" in cli.err


def test_exported_pairs_are_counted_where_they_are(cli, tmp_path) -> None:
    base = save_base(tmp_path / "base")
    place = making_preferences.Place(tmp_path, base, train="packing: false\n")
    command = ["plan", place.recipe, "--gpu", "l4", "--runs", tmp_path / "runs"]
    assert cli(*command) == 0
    rows, report = load_preferences(
        place.dataset / "react" / "train.jsonl", "text", AutoTokenizer.from_pretrained(base), 4096
    )
    assert f"4 pairs, {report.tokens:,} tokens of" in " ".join(cli.out.split())
    assert len(rows) == 4
    assert cli(*command, "train.dpo=null") == 2
    assert "pairs to prefer one of: set train.dpo" in cli.err
