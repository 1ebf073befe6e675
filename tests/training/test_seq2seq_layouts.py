"""The same training on one process, on two, and sharded: equal numbers, and really on two."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pipeline.models.transformers_load import load_seq2seq
from pipeline.training import launch
from tests.training.making_seq2seq import Place
from tests.training.sharded import NEEDS_DEEPSPEED, stage

TRAIN = "warmup: 0\nmax_steps: 3\nlearning_rate: 1e-2\nsave_every: 3\nstop_on: loss\n"
CPU2 = Path(__file__).parents[2] / "recipes" / "accelerate" / "cpu2.yaml"


@pytest.fixture(autouse=True)
def _processor_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def trained(root: Path, batch: int, accumulation: int, config: Path | None = None, dev: int = 5) -> Place:
    # 24 rows: three whole steps of eight; ten development rows fill no whole number of batches.
    lines = f"{TRAIN}batch_size: {batch}\naccumulation: {accumulation}"
    place = Place(root, lines, count=12, dev=dev)
    if config is None:
        assert place.train() == 0
    else:
        assert launch.train(place.recipe, accelerate=str(config), **place.roots) == 0
    return place


def compare(one: Place, two: Place, tolerance: float) -> None:
    first, second = one.log(), two.log()
    assert len(first["steps"]) == len(second["steps"]) == 3
    for a, b in zip(first["steps"], second["steps"], strict=True):
        assert b["loss"] == pytest.approx(a["loss"], abs=tolerance)
        assert b["grad_norm"] == pytest.approx(a["grad_norm"], abs=10 * tolerance)
        assert b["labelled_tokens"] == a["labelled_tokens"]
    assert [look["loss"] for look in second["looks"]] == pytest.approx(
        [look["loss"] for look in first["looks"]], abs=tolerance
    )


@pytest.mark.slow
def test_loss_and_gradient_norm_do_not_depend_on_accumulation_or_ranks(tmp_path: Path) -> None:
    # T5 takes the number of labels and ignores it: left to itself the loss grows with both.
    whole = trained(tmp_path / "8-1-1", 8, 1)
    split = trained(tmp_path / "2-4-1", 2, 4)
    ranks = trained(tmp_path / "4-1-2", 4, 1, CPU2)
    assert (whole.log()["processes"], split.log()["processes"]) == (1, 1)
    assert (ranks.log()["processes"], ranks.log()["distributed"]) == (2, "MULTI_CPU")
    compare(whole, split, 1e-5)
    compare(whole, ranks, 1e-5)
    one, two = (load_file(place.folder / "model.safetensors") for place in (whole, ranks))
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, atol=1e-3, rtol=1e-3)


@NEEDS_DEEPSPEED
@pytest.mark.slow
def test_t5_sharded_over_two_ranks_trains_like_one_and_is_saved_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = stage(tmp_path, 3)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    whole = trained(tmp_path / "one", 8, 1)
    sharded = trained(tmp_path / "two", 4, 1, config)
    log = sharded.log()
    assert (log["processes"], log["distributed"]) == (2, "DEEPSPEED")
    # Rounded up where a tensor does not fall in two.
    assert log["weights"] / 2 <= log["weights_per_process"] < 0.51 * log["weights"]
    assert whole.log()["weights_per_process"] == whole.log()["weights"] == log["weights"]
    compare(whole, sharded, 5e-5)
    one, _ = load_seq2seq(str(whole.folder), torch.float32, "cpu")
    two, _ = load_seq2seq(str(sharded.folder), torch.float32, "cpu")
    ids = torch.tensor([[7, 8, 9, 1]])
    with torch.no_grad():
        wanted, got = (model(input_ids=ids, decoder_input_ids=ids[:, :2]).logits for model in (one, two))
    torch.testing.assert_close(got, wanted, atol=1e-3, rtol=1e-3)
