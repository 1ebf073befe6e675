from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from pipeline.models.addresses import check_stamp, load_tokenizer, read_stamp
from pipeline.models.base import Request, Sampling
from pipeline.models.registry import load_model
from pipeline.models.transformers_load import load_seq2seq
from pipeline.recipe.models import ModelRecipe
from pipeline.rendering.base import Segment, TextPrompt
from pipeline.training import causal, episodes, launch, seq2seq
from pipeline.training.episodes import Episodes
from pipeline.training.seq2seq_data import read_examples
from pipeline.training.seq2seq_trainer import ExampleTrainer
from pipeline.trajectories.schema import Task
from pipeline.trajectories.store import read_trajectories
from tests.methods.swiftsage.fakes import TASK, Larder
from tests.training.making import save_dataset
from tests.training.making_seq2seq import Place
from tests.training.stopping import record_batches


def test_a_student_from_nothing_is_trained_described_and_not_trained_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path, "batch_size: 4\nlearning_rate: 1e-2", dev=3)
    assert place.train() == 0
    assert sorted(path.name for path in place.folder.parent.iterdir()) == ["act", "act.start"]
    names = {path.name for path in place.folder.iterdir()}
    assert names >= {"model.safetensors", "config.json", "generation_config.json", "tokenizer.json"}
    assert not names & {"training_args.bin", "optimizer.pt", "trainer_state.json"}
    stamp = read_stamp(place.folder)
    assert (stamp["style"], stamp["renderer"], stamp["spec_digest"]) == ("act", "swift", "digest-act")
    assert (stamp["rows"], stamp["base"].startswith("new:"), stamp["history"]) == (16, True, 7)
    check_stamp(place.folder, load_tokenizer(place.folder))
    generation = json.loads((place.folder / "generation_config.json").read_text())
    assert (generation["eos_token_id"], generation["pad_token_id"]) == (1, 0)
    assert generation["decoder_start_token_id"] == 0
    card = (place.folder / "README.md").read_text()
    assert "text2text-generation" in card
    assert "encoder-decoder, all weights" in card
    log = place.log()
    assert log["development"][0]["eval_loss"] > 0
    assert log["steps"][0]["tokens_per_second"] > 0
    assert log["data"]["rows_kept"] == 16
    capsys.readouterr()
    assert place.train() == 0
    assert "nothing to do" in capsys.readouterr().out
    assert place.train("train.target_length=9") == 2
    assert "(changed: train.target_length)" in capsys.readouterr().err


def test_a_student_of_before_the_newest_keys_is_still_its_recipes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path, "max_steps: 1", count=2)
    assert place.train() == 0
    path = place.folder / "staract.json"
    stamp = json.loads(path.read_text())
    for key in ("target_length", "adam_epsilon", "validate_on", "stop_on", "patience"):
        del stamp["identity"][f"train.{key}"]
    path.write_text(json.dumps(stamp))
    assert place.train() == 0
    assert place.train("train.adam_epsilon=1e-6") == 2
    assert "(changed: train.adam_epsilon)" in capsys.readouterr().err


def test_overfitted_rows_are_answered_word_for_word_as_they_are_served(tmp_path: Path) -> None:
    train = "batch_size: 12\nmax_steps: 150\nlearning_rate: 3e-3\nwarmup: 10\nlog_every: 50\n"
    place = Place(tmp_path, train + "schedule: constant_with_warmup", count=6, d_model=64)
    assert place.train() == 0
    examples = list(read_examples(place.dataset / "act" / "train.jsonl"))

    async def answers() -> list[str]:
        model = load_model(ModelRecipe(address=str(place.folder), dtype="float32"))
        try:
            asked = [
                model.generate(Request(TextPrompt((Segment(one.input),)), Sampling(max_tokens=16)))
                for one in examples
            ]
            return [completion.text for completion in await asyncio.gather(*asked)]
        finally:
            await model.close()

    written = [text.replace("<pad>", "").replace("</s>", "").strip() for text in asyncio.run(answers())]
    assert written == [one.target for one in examples]
    # And plain generation, by nothing but what lies in the folder, ends by itself.
    model, tokenizer = load_seq2seq(str(place.folder), torch.float32, "cpu")
    ids = tokenizer(examples[0].input.rstrip(), return_tensors="pt").input_ids
    out = model.generate(ids, max_new_tokens=16)
    assert out[0, 0] == 0
    assert out[0, -1] == 1


def record(monkeypatch: pytest.MonkeyPatch, stop_at: int | None = None) -> list[list[int]]:
    """The ids of each batch in the order trained; optionally with a signal at a step."""
    return record_batches(monkeypatch, seq2seq, ExampleTrainer, stop_at)


def test_a_run_taken_up_in_its_second_epoch_goes_on_as_if_it_had_not_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # L02, with dropout: the random numbers go on as well, and so do the looks at checkpoints.
    train = "batch_size: 2\naccumulation: 2\nepochs: 3\nlearning_rate: 1e-2\nsave_every: 2\nstop_on: loss"
    whole = Place(tmp_path / "whole", train, count=8, dev=3, dropout_rate=0.1)
    with monkeypatch.context() as patch:
        straight = record(patch)
        assert whole.train() == 0
    broken = Place(tmp_path / "broken", train, count=8, dev=3, dropout_rate=0.1)
    with monkeypatch.context() as patch:
        first = record(patch, stop_at=7)
        assert broken.train() == 130
    with monkeypatch.context() as patch:
        second = record(patch)
        assert broken.train() == 0
    assert len(straight) == 24
    assert first + second == straight
    assert straight[:8] != straight[8:16]
    keys = ("step", "loss", "grad_norm", "learning_rate")
    one, two = whole.log(), broken.log()
    assert [[s[k] for k in keys] for s in two["steps"]] == [[s[k] for k in keys] for s in one["steps"]]
    assert two["looks"] == one["looks"]
    assert [look["step"] for look in one["looks"]] == [2, 4, 6, 8, 10, 12]
    weights = [load_file(place.folder / "model.safetensors") for place in (whole, broken)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_the_best_by_score_becomes_the_student_and_training_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[int, dict[str, torch.Tensor]] = {}
    scores = {1: 0.2, 2: 0.6, 3: 0.6, 4: 0.1}

    def score(self: Episodes, checkpoint: Path, step: int) -> float:
        kept[step] = load_file(checkpoint / "model.safetensors")
        return scores[step]

    monkeypatch.setattr(Episodes, "score", score)
    train = "batch_size: 4\nepochs: 5\nlearning_rate: 1e-2\nsave_every: 1\nstop_on: score\npatience: 2\n"
    place = Place(tmp_path, train + "validate_on:\n    method: {name: act}")
    assert place.train() == 0
    log = place.log()
    assert (log["best_step"], [look["score"] for look in log["looks"]]) == (2, [0.2, 0.6, 0.6, 0.1])
    assert log["steps"][-1]["step"] == 4, "of twenty"
    student = load_file(place.folder / "model.safetensors")
    assert all(torch.equal(student[name], kept[2][name]) for name in student)
    assert any(not torch.equal(student[name], kept[4][name]) for name in student)
    assert place.train("train.validate_on.concurrency=2") == 0, "how many play at once decides nothing"


class Shop(Larder):
    """A larder with one task."""

    def tasks(self, split: str) -> Iterator[Task]:
        yield TASK.model_copy(update={"split": split})


def test_checkpoints_play_through_the_serving_path_and_random_numbers_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episodes, "load_environment", lambda recipe: Shop())
    played: dict[int, list[Any]] = {}
    score = Episodes.score

    def watched(self: Episodes, checkpoint: Path, step: int) -> float:
        before = torch.get_rng_state()
        earned = score(self, checkpoint, step)
        assert torch.equal(torch.get_rng_state(), before)
        played[step] = list(read_trajectories(self._folder / f"episodes-{step}.jsonl"))
        return earned

    monkeypatch.setattr(Episodes, "score", watched)
    train = "batch_size: 4\nmax_steps: 2\nsave_every: 1\n"
    train += "validate_on:\n    panel: {split: test, size: 1}\n    method: {name: swift, max_steps: 3}"
    place = Place(tmp_path, train)
    assert place.train() == 0
    assert sorted(played) == [1, 2]
    for step, [trajectory] in played.items():
        assert trajectory.model.endswith(f"checkpoint-{step}")
        assert len(trajectory.steps[0].candidates) == 5, "it searched"
    looks = place.log()["looks"]
    assert [look["score"] for look in looks] == [played[step][0].grade.reward for step in (1, 2)]
    assert place.log()["best_step"] is None, "nothing stops: the last weights are the student"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["train.lora={rank: 4}"], "all its weights"),
        (["train.stop_on=loss", "train.save_every=1"], "holds no dev.jsonl"),
        (["train.target_length=2"], "no row to train on"),
        (["train.schedule=zigzag"], "train section of the recipe cannot be used"),
        (["models.base.address=new:/no/such.json"], "no config file"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    place = Place(tmp_path, count=2)
    assert place.train(*arguments) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert "Traceback" not in error
    assert not place.folder.exists()


def test_each_format_has_its_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path / "swift", count=2)
    roots = ["--run-root", str(place.root / "runs"), "--checkpoint-root", str(place.root / "checkpoints")]
    assert causal.main([str(place.recipe), *roots]) == 2
    assert "'swift': train them with pipeline.training.seq2seq" in capsys.readouterr().err
    assert launch.program_of(place.recipe, (), place.root / "runs") == "pipeline.training.seq2seq"
    assert launch.program_of(place.recipe, ("name=other",), place.root / "runs") == "pipeline.training.causal"
    save_dataset(tmp_path / "runs" / "trial")
    assert launch.program_of(place.recipe, (), tmp_path / "runs") == "pipeline.training.causal"
    assert launch.program_of(place.recipe, ("name=x", "train.run=trial"), place.root / "runs") == (
        "pipeline.training.seq2seq"
    )
