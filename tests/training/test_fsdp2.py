"""PyTorch's ``fully_shard`` on two real ranks: equal numbers, really in halves, saved whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from accelerate.commands.launch import prepare_multi_gpu_env
from accelerate.utils import FullyShardedDataParallelPlugin
from torch.distributed.fsdp import StateDictType
from transformers import AutoModelForCausalLM

from pipeline.recipe.models import TrainRecipe
from pipeline.training import layout
from pipeline.training.trainer import keep_outputs, trainer_config
from tests.training.fsdp2_ranks import CASES, RANKS, STEPS, student, train
from tests.training.test_accelerate_recipes import variables

HOME = Path(__file__).parents[2]
EXACT = [name for name, case in CASES.items() if not case.bf16]


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """What a process of recipes/accelerate/fsdp2.yaml is told of the sharding."""
    with mock.patch.object(layout, "gpus", lambda: 8):
        made = variables("fsdp2", prepare_multi_gpu_env)
    return {name: made[name] for name in made if name == "ACCELERATE_USE_FSDP" or name.startswith("FSDP_")}


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """Where two ranks left what came of each case."""
    folder = tmp_path_factory.mktemp("together")
    told = {**environment, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.training.fsdp2_ranks", str(folder)]
    log = folder / "log"
    with log.open("w") as to:
        child = subprocess.Popen(
            command, env={**os.environ, **told}, cwd=HOME, stdout=to, stderr=to, start_new_session=True
        )
        try:
            status = child.wait(timeout=150)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, 9)
                child.wait()
    assert status == 0, log.read_text()[-4000:]
    return folder


@pytest.fixture(scope="module")
def alone() -> dict[bool, tuple[Any, dict[str, list[float]]]]:
    """The student of one process and its log, with a tied head and without."""
    torch.set_num_threads(1)
    cases = {CASES[name].tied: CASES[name] for name in ("accelerate", "accelerate_untied")}
    models = {tied: student(case) for tied, case in cases.items()}
    return {tied: (model, train(model)) for tied, model in models.items()}


def noted(together: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads((together / f"{name}-{rank}.json").read_text()) for rank in range(RANKS)]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_ranks_train_as_one(together: Path, alone: dict[bool, Any], name: str) -> None:
    _, one = alone[CASES[name].tied]
    assert len(one["loss"]) == STEPS
    for rank in noted(together, name):
        for key, values in one.items():
            near = {"abs": 0.05} if CASES[name].bf16 else {"abs": 5e-5}
            assert rank["log"][key] == pytest.approx(values, **near), key


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_each_rank_holds_half_of_every_weight(together: Path, name: str) -> None:
    first, second = (rank["held"] for rank in noted(together, name))
    assert first.keys() == second.keys()
    assert len(first) > 10
    for weight, (whole, held) in first.items():
        # All sizes here are even; a weight that is no DTensor is noted as 0.
        assert [whole, held] == second[weight] == [whole, whole // 2], weight
    sums = [sum(sizes) for sizes in zip(*first.values(), strict=True)]
    assert [rank["kept"] for rank in noted(together, name)] == [sums, sums]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_the_student_is_saved_whole(together: Path, alone: dict[bool, Any], name: str) -> None:
    model, _ = alone[CASES[name].tied]
    config = json.loads((together / name / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    saved = AutoModelForCausalLM.from_pretrained(together / name)
    ids = torch.tensor([[7, 8, 9, 1], [3, 50, 2, 4]])
    with torch.no_grad():
        torch.testing.assert_close(saved(ids).logits, model.eval()(ids).logits, atol=1e-4, rtol=0)


def test_the_recipe_leaves_activations_and_loading_to_the_trainer(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    recipe = TrainRecipe(activation_checkpointing=True)
    config = trainer_config(recipe, tmp_path, "trial", bf16=False, parameters=1, evaluates=False)
    with mock.patch.dict(os.environ, environment):
        plugin = FullyShardedDataParallelPlugin()
    assert plugin.fsdp_version == 2
    assert plugin.state_dict_type is StateDictType.FULL_STATE_DICT
    assert getattr(plugin.auto_wrap_policy, "__name__", "") == "transformer_auto_wrap_policy"
    # The Trainer refuses both; and rank 0 alone loads models to play with, so none may wait for others.
    assert config.activation_checkpointing
    assert not plugin.activation_checkpointing
    assert not plugin.cpu_ram_efficient_loading


def test_a_summed_loss_is_not_rounded_to_the_precision_of_the_arithmetic(environment: dict[str, str]) -> None:
    with mock.patch.dict(os.environ, environment):
        plugin = FullyShardedDataParallelPlugin()
    keep_outputs(plugin)
    assert plugin.mixed_precision_policy is None
    plugin.set_mixed_precision("bf16")
    keep_outputs(plugin)
    policy: Any = plugin.mixed_precision_policy
    assert (policy.param_dtype, policy.output_dtype) == (torch.bfloat16, None)
