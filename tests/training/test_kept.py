"""Every checkpoint's model is kept, and a student is what its server needs, whoever serves it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from pipeline.errors import ModelError
from pipeline.evaluation.sweep import find_checkpoints
from pipeline.models.addresses import read_stamp
from pipeline.models.base import Completion, Request, Sampling
from pipeline.models.transformers_causal import TransformersCausal
from pipeline.models.transformers_load import load_causal
from pipeline.recipe.models import ModelRecipe
from pipeline.training.rows import read_episodes
from tests.training.making import save_base
from tests.training.test_causal import Place, record_order, served_steps

KEEPING = "batch_size: 1\naccumulation: 2\nlearning_rate: 1e-2\npacking: false\nsave_every: 2\n"
KEEPING += "keep_checkpoints: true\n"


def kept(place: Place) -> Path:
    return place.checkpoints / "react.checkpoints"


def weights(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*.safetensors")}


def test_every_checkpoint_is_kept_once_and_can_be_served(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = Place(tmp_path / "whole", base, train=KEEPING + "epochs: 2", count=7)
    assert whole.train() == 0
    place = Place(tmp_path / "broken", base, train=KEEPING + "epochs: 2", count=7)
    with monkeypatch.context() as patch:
        record_order(patch, stop_at=5)
        assert place.train() == 130
    assert sorted(path.name for path in kept(place).glob("checkpoint-*")) == ["checkpoint-2", "checkpoint-4"]
    assert place.train("train.epochs=3") == 2
    # Killed after checkpoint 4 was whole, before it was kept; and what a kill left half-kept is cleared.
    (place.checkpoints / "react.steps" / "checkpoint-5" / "whole").unlink()
    shutil.rmtree(kept(place) / "checkpoint-4")
    (kept(place) / ".checkpoint-4.x" / "new").mkdir(parents=True)
    before = (kept(place) / "checkpoint-2" / "model.safetensors").stat().st_mtime_ns
    capsys.readouterr()
    assert place.train() == 0
    assert "going on from" in capsys.readouterr().out
    assert (kept(place) / "checkpoint-2" / "model.safetensors").stat().st_mtime_ns == before
    names = [f"checkpoint-{step}" for step in (2, 4, 6, 8)]
    assert sorted(path.name for path in kept(place).iterdir()) == [*names, "identity.json"]
    assert sorted(path.name for path in place.checkpoints.iterdir()) == ["react", "react.checkpoints"]
    for name in names:
        assert weights(kept(place) / name) == weights(kept(whole) / name)
        assert not {path.name for path in (kept(place) / name).iterdir()} & {"optimizer.pt", "scheduler.pt"}
        assert read_stamp(kept(place) / name)["spec_digest"] == "digest-react"
        load_causal(str(kept(place) / name), torch.float32, "cpu")
    assert len({weights(kept(place) / name)["model.safetensors"] for name in names}) == 4
    assert weights(kept(place) / "checkpoint-8") == weights(place.checkpoints / "react")
    found, torn = find_checkpoints(place.checkpoints)
    assert [(one.step, one.name) for one in found] == [
        *((step, f"react.checkpoints/checkpoint-{step}") for step in (2, 4, 6)),
        (8, "react"),
    ]
    assert torn == []


def test_models_kept_from_another_recipe_are_not_mixed_in(
    tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path, base, train=KEEPING + "max_steps: 2", count=4)
    assert place.train() == 0
    shutil.rmtree(place.checkpoints / "react")
    assert place.train("train.learning_rate=2e-2") == 2
    assert "react.checkpoints was trained from another recipe" in capsys.readouterr().err
    assert place.train("train.save_every=1") == 0, "how often is nothing that makes another student"
    assert {path.name for path in kept(place).glob("c*")} == {"checkpoint-1", "checkpoint-2"}


def test_kept_adapters_name_their_base_and_one_that_does_nothing_yet_is_left_out(
    tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = (
        "lora: {rank: 2}\nlearning_rate: 1e-2\nwarmup: 1\nmax_steps: 3\nsave_every: 1\nkeep_checkpoints: true"
    )
    place = Place(tmp_path, base, "messages", train, count=4)
    assert place.train() == 0
    assert "checkpoint-1: the adapter is all zeros still" in capsys.readouterr().out
    assert {path.name for path in kept(place).glob("c*")} == {"checkpoint-2", "checkpoint-3"}
    for folder in (kept(place) / "checkpoint-2", place.checkpoints / "react"):
        config = json.loads((folder / "adapter_config.json").read_text())
        assert config["base_model_name_or_path"] == str(base)
        model, tokenizer = load_causal(str(folder), torch.float32, "cpu")
        assert tokenizer.convert_tokens_to_ids("<|im_end|>") in model.generation_config.eos_token_id
    (folder / "generation_config.json").write_text("[]")
    with pytest.raises(ModelError, match=r"generation_config\.json' cannot be read"):
        load_causal(str(folder), torch.float32, "cpu")


@pytest.mark.parametrize("mask", [0o022, 0o027])
def test_a_student_is_as_readable_as_the_umask_says(tmp_path: Path, base: Path, mask: int) -> None:
    place = Place(tmp_path, base, train=KEEPING + "max_steps: 2", count=4)
    before = os.umask(mask)
    try:
        assert place.train() == 0
    finally:
        os.umask(before)
    for folder in (place.checkpoints / "react", kept(place), kept(place) / "checkpoint-2"):
        assert folder.stat().st_mode & 0o777 == 0o777 & ~mask
        files = [path for path in folder.iterdir() if path.is_file()]
        assert {path.stat().st_mode & 0o777 for path in files} == {0o666 & ~mask}


def ask(address: Path, prompts: list[Any], tokens: int = 40) -> list[Completion]:
    """Greedy answers through the serving path."""

    async def answers() -> list[Completion]:
        model = TransformersCausal(ModelRecipe(address=str(address), dtype="float32"))
        try:
            asked = [Request(prompt, Sampling(max_tokens=tokens)) for prompt in prompts]
            return list(await asyncio.gather(*map(model.generate, asked)))
        finally:
            await model.close()

    return asyncio.run(answers())


def test_an_adapter_served_as_it_is_stops_where_it_learned_to(tmp_path: Path) -> None:
    # A model's config holds its stops, an adapter has none; the base's do not end a turn of the template.
    base = save_base(tmp_path / "base", width=64)
    train = "lora: {rank: 32, alpha: 64, dropout: 0}\nbatch_size: 1\nepochs: 150\nlearning_rate: 1e-2\n"
    train += "warmup: 5\nlog_every: 50\nschedule: constant_with_warmup"
    place = Place(tmp_path, base, "messages", train, count=1)
    assert place.train() == 0
    assert AutoTokenizer.from_pretrained(base).eos_token == "<|endoftext|>"
    [episode] = read_episodes(place.dataset / "react" / "train.jsonl", "messages")
    [(prompt, wanted)] = served_steps(episode.prompt)
    [answer] = ask(place.checkpoints / "react", [prompt])
    assert (answer.text, answer.stop_reason) == (wanted, "stop")
    (place.checkpoints / "react" / "generation_config.json").unlink()
    [babble] = ask(place.checkpoints / "react", [prompt])
    assert babble.text.startswith(wanted), "what is not ended goes on"
    assert babble.stop_reason == "length"
