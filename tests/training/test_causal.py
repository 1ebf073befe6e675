from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from pipeline.errors import TrainingError
from pipeline.models.addresses import check_stamp, read_stamp
from pipeline.models.transformers_load import load_causal
from pipeline.rendering.base import ChatPrompt, TextPrompt
from pipeline.rendering.tokens import encode
from pipeline.training import causal, checkpoint, program
from pipeline.training.causal import main
from pipeline.training.rows import read_episodes
from pipeline.training.trainer import StudentTrainer
from tests.training.making import save_base, save_dataset, save_recipe
from tests.training.stopping import record_batches


class Place:
    """Where one trial's files lie, and how to train there."""

    def __init__(self, root: Path, base: Path, kind: str = "text", train: str = "", **dataset: Any) -> None:
        self.root = root
        self.dataset = save_dataset(root / "runs" / "trial", kind, **dataset)
        styles = ", ".join(dataset.get("styles", ("react",)))
        self.recipe = save_recipe(root, base, train, f"[{styles}]", kind)

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints" / "trial"

    def train(self, *arguments: str) -> int:
        roots = ["--run-root", str(self.root / "runs"), "--checkpoint-root", str(self.root / "checkpoints")]
        return main([str(self.recipe), *arguments, *roots])

    def log(self, style: str = "react") -> list[dict[str, Any]]:
        return json.loads((self.checkpoints / style / "train.json").read_text())["steps"]


@pytest.fixture
def trained_model(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Receives each model as it is saved."""
    kept: list[Any] = []
    save = StudentTrainer.save_model

    def keep(self: StudentTrainer, *arguments: Any, **options: Any) -> None:
        kept.append(self.model)
        save(self, *arguments, **options)

    monkeypatch.setattr(StudentTrainer, "save_model", keep)
    return kept


def test_a_student_of_each_style_is_trained_described_and_not_trained_twice(
    tmp_path: Path, base: Path, trained_model: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path, base, train="batch_size: 2", styles=("act", "react"), count=5, dev=2)
    assert place.train() == 0
    folder = place.checkpoints / "react"
    names = {
        "model.safetensors",
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "chat_template.jinja",
    }
    assert names | {"staract.json", "train.json", "README.md"} <= {path.name for path in folder.iterdir()}
    assert sorted(path.name for path in place.checkpoints.iterdir()) == ["act", "react"], (
        "nothing else is left"
    )
    stamp = read_stamp(folder)
    assert (stamp["style"], stamp["renderer"], stamp["renderer_version"]) == ("react", "text", "1")
    assert (stamp["spec_digest"], stamp["base"], stamp["rows"]) == ("digest-react", str(base), 5)
    assert stamp["labelled_tokens"] > 50
    assert stamp["versions"]["torch"] == torch.__version__
    check_stamp(folder, AutoTokenizer.from_pretrained(folder))
    assert json.loads((folder / "config.json").read_text())["use_cache"] is True
    log = json.loads((folder / "train.json").read_text())
    assert log["steps"][0]["tokens_per_second"] > 0
    assert log["development"][0]["eval_loss"] > 0
    assert (log["processes"], log["distributed"], log["device"]) == (1, "NO", "cpu")
    card = (folder / "README.md").read_text()
    assert "# trial-react" in card
    assert "all weights" in card
    ids = torch.tensor([[5, 6, 7, 8]])
    reloaded, _ = load_causal(str(folder), torch.float32, "cpu")
    with torch.no_grad():
        assert torch.equal(reloaded(ids).logits, trained_model[1].eval()(ids).logits)
    before = (folder / "model.safetensors").stat().st_mtime_ns
    capsys.readouterr()
    assert place.train("--style", "react") == 0
    assert "trained already" in capsys.readouterr().out
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    assert place.train("train.epochs=2", "--style", "react") == 2
    assert "(changed: train.epochs); rename the run" in capsys.readouterr().err


def test_an_adapter_is_small_names_its_base_and_merges(
    tmp_path: Path, base: Path, trained_model: list[Any]
) -> None:
    place = Place(tmp_path, base, "messages", "learning_rate: 1e-2\nlora: {rank: 4}\nepochs: 3", count=4)
    assert place.train() == 0
    folder = place.checkpoints / "react"
    tensors = load_file(folder / "adapter_model.safetensors")
    assert not (folder / "model.safetensors").exists()
    assert all(tensor.numel() for tensor in tensors.values())
    assert any(tensor.any() for name, tensor in tensors.items() if "lora_B" in name)
    assert json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"] == str(base)
    assert "LoRA adapter" in (folder / "README.md").read_text()
    merged, tokenizer = load_causal(str(folder), torch.float32, "cpu")
    check_stamp(folder, tokenizer)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        wanted = trained_model[0].eval()(ids).logits
        torch.testing.assert_close(merged(ids).logits, wanted, atol=1e-4, rtol=1e-4)
        untouched = AutoModelForCausalLM.from_pretrained(base)(ids).logits
    assert not torch.allclose(wanted, untouched, atol=1e-3), "the adapter does something"


@pytest.mark.parametrize(
    ("content", "complaint"), [(torch.zeros(4, 2), "all zeros"), (torch.zeros(0), "saved empty")]
)
def test_an_adapter_without_effect_is_an_error(
    tmp_path: Path, base: Path, content: torch.Tensor, complaint: str
) -> None:
    # L01: a sharded save that wrote nothing must not look like success.
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.save_pretrained(tmp_path)
    save_file(
        {"layer.lora_A.weight": torch.ones(2, 2), "layer.lora_B.weight": content},
        tmp_path / "adapter_model.safetensors",
    )
    with pytest.raises(TrainingError, match=complaint):
        checkpoint.describe(tmp_path, tokenizer, {"model": "x"}, {}, 0)


def record_order(monkeypatch: pytest.MonkeyPatch, stop_at: int | None = None) -> list[list[int]]:
    """The ids of each batch in the order trained; optionally with a signal at a step."""
    return record_batches(monkeypatch, causal, StudentTrainer, stop_at)


def test_a_run_stopped_in_its_second_epoch_goes_on_as_if_it_had_not(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # L02: resuming inside the second epoch must not replay the order of the first.
    train = "batch_size: 1\naccumulation: 2\nepochs: 3\nlearning_rate: 1e-2\npacking: false\nsave_every: 2"
    whole = Place(tmp_path / "whole", base, train=train, count=10)
    with monkeypatch.context() as patch:
        straight = record_order(patch)
        assert whole.train() == 0
    broken = Place(tmp_path / "broken", base, train=train, count=10)
    with monkeypatch.context() as patch:
        first = record_order(patch, stop_at=7)
        assert broken.train() == 130
    assert "stopped at step 7" in capsys.readouterr().out
    assert not (broken.checkpoints / "react").exists()
    # A checkpoint that was torn by a kill has no mark and is passed over.
    (broken.checkpoints / "react.steps" / "checkpoint-9").mkdir()
    assert broken.train("train.learning_rate=2e-2") == 2
    assert "changed: train.learning_rate" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        second = record_order(patch)
        assert broken.train() == 0
    assert "going on from" in capsys.readouterr().out
    assert len(straight) == 30
    assert first + second == straight
    assert all(sorted(straight[n : n + 10]) == sorted(straight[:10]) for n in (10, 20)), (
        "each row once an epoch"
    )
    assert straight[:10] != straight[10:20]
    keys = ("step", "loss", "grad_norm", "learning_rate")
    assert [[s[k] for k in keys] for s in broken.log()] == [[s[k] for k in keys] for s in whole.log()]
    one = load_file(whole.checkpoints / "react" / "model.safetensors")
    two = load_file(broken.checkpoints / "react" / "model.safetensors")
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("kind", ["text", "messages"])
def test_overfitted_trajectories_are_replayed_word_for_word_and_stop(tmp_path: Path, kind: str) -> None:
    base = save_base(tmp_path / "base", width=64)
    train = "batch_size: 2\nepochs: 150\nlearning_rate: 4e-3\nwarmup: 5\nlog_every: 50\n"
    train += "schedule: constant_with_warmup"
    place = Place(tmp_path, base, kind, train, count=4)
    assert place.train() == 0
    model, tokenizer = load_causal(str(place.checkpoints / "react"), torch.float32, "cpu")
    replayed = 0
    for episode in read_episodes(place.dataset / "react" / "train.jsonl", kind):
        for prompt, wanted in served_steps(episode.prompt):
            assert written(model, tokenizer, prompt) == wanted
            replayed += 1
    assert replayed == 7


def served_steps(prompt: Any) -> list[tuple[Any, str]]:
    """Each step's prompt as it is served, and what must be written."""
    if isinstance(prompt, TextPrompt):
        parts = prompt.segments
        own = [n for n, part in enumerate(parts) if part.source == "model"]
        return [(TextPrompt(parts[:n]), parts[n].text) for n in own]
    own = [n for n, message in enumerate(prompt.messages) if message.role == "assistant"]
    return [(ChatPrompt(prompt.messages[:n]), prompt.messages[n].content) for n in own]


def written(model: Any, tokenizer: Any, prompt: Any) -> str:
    """Plain greedy generation, to the stop marker (text) or the model's own stop (chat)."""
    ids = torch.tensor([encode(prompt, tokenizer, generate=True).ids])
    stops = (
        {"stop_strings": ["\nObservation"], "tokenizer": tokenizer} if isinstance(prompt, TextPrompt) else {}
    )
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=60, do_sample=False, **stops
    )[0]
    new = out[ids.shape[1] :]
    if not stops:
        assert new[-1] == tokenizer.convert_tokens_to_ids("<|im_end|>"), "it stops by itself"
        return tokenizer.decode(new[:-1])
    return tokenizer.decode(new)


def test_the_turns_stop_is_among_the_students_stops(tmp_path: Path, base: Path) -> None:
    place = Place(tmp_path, base, "sharegpt", "max_steps: 1", count=2)
    assert place.train("train.dtype=bfloat16") == 0
    config = json.loads((place.checkpoints / "react" / "generation_config.json").read_text())
    stop = AutoTokenizer.from_pretrained(base).convert_tokens_to_ids("<|im_end|>")
    assert config["eos_token_id"] == [stop, 0]
    log = json.loads((place.checkpoints / "react" / "train.json").read_text())
    assert log["mixed_precision"] == "bf16"
    saved = load_file(place.checkpoints / "react" / "model.safetensors")
    assert {tensor.dtype for tensor in saved.values()} == {torch.float32}, "the trained weights stay exact"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--style", "cot"], "holds no style 'cot' (only react)"),
        (["export.styles=[react,cot]"], "holds no style 'cot'"),
        (["name=other"], "run `staract export`"),
        (["train.tracker=nowhere"], "'train.tracker' is 'nowhere'"),
        (["models.base.address=/no/such/model"], "neither a folder"),
        (["train.model=expert"], "'expert' is not one of models"),
        (["train=null"], "nothing to train"),
        (["train.schedule=zigzag"], "train section of the recipe cannot be used"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(
    tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    place = Place(tmp_path, base, count=2)
    assert place.train(*arguments) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert "Traceback" not in error
    assert not (place.checkpoints / "react").exists()


def test_a_tracker_that_is_not_installed_says_how_to_get_it(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert Place(tmp_path, base, count=2).train("train.tracker=trackio") == 2
    assert "pip install 'staract[tracking]'" in capsys.readouterr().err


def test_something_else_in_the_folder_is_left_alone(
    tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path, base, count=2)
    (place.checkpoints / "react").mkdir(parents=True)
    assert place.train() == 2
    assert "holds something else" in capsys.readouterr().err


def test_a_full_disk_leaves_no_half_written_student(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(program, "write_card", full)
    place = Place(tmp_path, base, train="max_steps: 1", count=2)
    assert place.train() == 2
    assert "No space left on device" in capsys.readouterr().err
    assert not (place.checkpoints / "react").exists()


def test_ctrl_c_before_training_is_130(tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "train_styles", interrupt)
    status = tmp_path / "status"
    monkeypatch.setenv(program.STATUS, str(status))
    assert Place(tmp_path, base, count=2).train() == 130
    assert status.read_text() == "130"
