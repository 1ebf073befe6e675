"""The causal program on two real ranks, whole and sharded: equal numbers, really on two, saved whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from pipeline.models.transformers_load import load_causal
from pipeline.training.launch import PATIENCE
from tests.training.making import save_base
from tests.training.sharded import NEEDS_DEEPSPEED, stage
from tests.training.test_causal import Place

HOME = Path(__file__).parents[2]
CPU2 = HOME / "recipes" / "accelerate" / "cpu2.yaml"
# 11 rows in steps of four: two ranks of batch two leave an empty place, and a whole rank empty at the end.
TRAIN = "rows_a_step: 4\nbatch_size: 2\nepochs: 2\nlearning_rate: 1e-2\nwarmup: 0\n"
ROWS = {"adapter": 11, "full": 24}
STYLES = {
    # All-linear adapters, on padded rows; and every weight, on packed ones.
    "adapter": TRAIN + "packing: false\nlora: {rank: 4}",
    "full": TRAIN,
}


def start(folder: Path, config: Path, *words: str) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(folder), str(HOME)])
    variables = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONPATH": path, **PATIENCE}
    command = [sys.executable, "-m", "accelerate.commands.launch", "--quiet", "--config_file", str(config)]
    command += ["-m", "tests.training.ranks_program", str(folder), *words]
    return subprocess.Popen(command, env={**os.environ, **variables}, cwd=HOME, start_new_session=True)


def run(folder: Path, config: Path, *words: str) -> int:
    child = start(folder, config, *words)
    try:
        return child.wait(timeout=250)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, 9)
            child.wait()


def place(root: Path, base: Path, style: str, **more: Any) -> Place:
    root.mkdir()
    return Place(root, base, "messages", STYLES[style], count=ROWS[style], dev=3, **more)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Place]:
    """What one process makes of each recipe."""
    folder = tmp_path_factory.mktemp("alone")
    base = save_base(folder / "base")
    made = {style: place(folder / style, base, style) for style in STYLES}
    for each in made.values():
        assert each.train() == 0
    return made


def log(of: Place) -> dict[str, Any]:
    return json.loads((of.checkpoints / "react" / "train.json").read_text())


def compare(one: Place, two: Place) -> None:
    first, second = log(one), log(two)
    assert len(first["steps"]) == len(second["steps"]) > 3
    for a, b in zip(first["steps"], second["steps"], strict=True):
        assert b["labelled_tokens"] == a["labelled_tokens"]
        assert b["loss"] == pytest.approx(a["loss"], abs=5e-5)
        assert b["grad_norm"] == pytest.approx(a["grad_norm"], abs=1e-3)
    losses = [[each["eval_loss"] for each in entry["development"]] for entry in (first, second)]
    assert len(losses[0]) == 2
    assert losses[1] == pytest.approx(losses[0], abs=5e-5)


def compare_students(one: Path, two: Path) -> None:
    """Equal tensors of equal names and shapes, and a student that plain transformers can run."""
    [name] = {path.name for path in one.glob("*.safetensors")}
    wanted, got = load_file(one / name), load_file(two / name)
    if "lm_head.weight" not in wanted and (head := got.pop("lm_head.weight", None)) is not None:
        # DeepSpeed writes a head that is tied to the embedding a second time.
        assert torch.equal(head, got["model.embed_tokens.weight"])
    assert {key: tensor.shape for key, tensor in got.items()} == {k: t.shape for k, t in wanted.items()}
    for key, tensor in wanted.items():
        torch.testing.assert_close(got[key], tensor, atol=2e-3, rtol=1e-3)
    ids = torch.tensor([[7, 8, 9, 1]])
    models = [load_causal(str(folder), torch.float32, "cpu")[0] for folder in (one, two)]
    with torch.no_grad():
        torch.testing.assert_close(models[1](ids).logits, models[0](ids).logits, atol=5e-3, rtol=1e-3)


def together(folder: Path, alone: dict[str, Place], config: Path) -> dict[str, list[dict[str, Any]]]:
    """Train both styles on two ranks, in one launch; what each rank held at the end."""
    base = alone["full"].root.parent / "base"
    places = {style: place(folder / style, base, style) for style in STYLES}
    for each in places.values():
        text = each.recipe.read_text()
        each.recipe.write_text(text.replace("batch_size: 2", "batch_size: 1"))
    assert run(folder, config, *(str(each.root) for each in places.values())) == 0
    held: dict[str, list[dict[str, Any]]] = {}
    for style, each in places.items():
        compare(alone[style], each)
        compare_students(alone[style].checkpoints / "react", each.checkpoints / "react")
        held[style] = [json.loads((folder / f"{style}-{rank}.json").read_text()) for rank in (0, 1)]
        assert [(about["world"], about["backend"]) for about in held[style]] == [(2, "gloo")] * 2
    return held


def orders(folder: Path, style: str) -> list[list[list[int]]]:
    return [json.loads((folder / f"{style}-{rank}.order.json").read_text()) for rank in (0, 1)]


@pytest.mark.slow
def test_two_ranks_train_as_one_and_count_every_row_once(tmp_path: Path, alone: dict[str, Place]) -> None:
    held = together(tmp_path, alone, CPU2)
    for ranks in held.values():
        for about in ranks:
            assert about["distributed"] == "MULTI_CPU"
            assert about["weights_held"] == about["weights"]
            assert about["state_held"] == 2 * about["trained"]
    first, second = orders(tmp_path, "adapter")
    assert len(first) == len(second)
    epoch = len(first) // 2
    for start_at in (0, epoch):
        rows = [ids for rank in (first, second) for ids in rank[start_at : start_at + epoch] if ids]
        # Batches of one row: all of them differ, and there are as many as there should be.
        assert len(rows) == len({tuple(ids) for ids in rows}) == ROWS["adapter"]


@NEEDS_DEEPSPEED
@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 3])
def test_sharded_ranks_train_as_one_and_save_whole(
    tmp_path: Path, alone: dict[str, Place], number: int
) -> None:
    held = together(tmp_path, alone, stage(tmp_path, number))
    for ranks in held.values():
        for about in ranks:
            assert about["distributed"] == "DEEPSPEED"
            # Rounded up where a tensor does not fall in two.
            half = about["weights"] / 2
            if number == 3:
                assert half <= about["weights_held"] < 1.05 * half
            else:
                assert about["weights_held"] == about["weights"]
            # AdamW's two moments of half of the trained weights.
            assert about["trained"] <= about["state_held"] < 1.1 * about["trained"] + 64


@pytest.mark.slow
def test_a_signal_to_one_rank_stops_both_after_the_same_step_and_nothing_is_lost(
    tmp_path: Path, alone: dict[str, Place]
) -> None:
    base = alone["full"].root.parent / "base"
    broken = place(tmp_path / "full", base, "full")
    broken.recipe.write_text(broken.recipe.read_text().replace("batch_size: 2", "batch_size: 1"))
    # The launcher answers 1 for every failure; what rank 0 really ended with stands in the file.
    status = tmp_path / "status"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STARACT_TRAIN_STATUS", str(status))
        assert run(tmp_path, CPU2, "--stop", "2", str(broken.root)) != 0
        assert status.read_text() == "130"
        steps = broken.checkpoints / "react.steps"
        assert [path.name for path in steps.glob("checkpoint-*")] == ["checkpoint-2"]
        assert (steps / "checkpoint-2" / "whole").is_file()
        assert run(tmp_path, CPU2, str(broken.root)) == 0
        assert status.read_text() == "0"
    compare(alone["full"], broken)
    compare_students(alone["full"].checkpoints / "react", broken.checkpoints / "react")
