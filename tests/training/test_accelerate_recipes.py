"""The files of recipes/accelerate, read by accelerate itself: what is started, and how it is sharded."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml
from accelerate.commands.config.config_args import ClusterConfig, load_config_from_file
from accelerate.commands.launch import (
    _validate_launch_command,
    launch_command_parser,
    prepare_deepspeed_cmd_env,
    prepare_multi_gpu_env,
    prepare_simple_launcher_cmd_env,
)
from accelerate.utils import DeepSpeedPlugin, DistributedType, FullyShardedDataParallelPlugin
from accelerate.utils.launch import _filter_args
from torch.distributed.fsdp import StateDictType
from torch.distributed.run import config_from_args, get_args_parser

from pipeline.training import launch, layout
from pipeline.training.causal import main as causal

FOLDER = Path(__file__).parents[2] / "recipes" / "accelerate"
NAMES = ["cpu2", "ddp", "fsdp2", "multi_node", "single_gpu", "zero2", "zero3", "zero3_offload"]
SHARDED = ["multi_node", "zero2", "zero3", "zero3_offload"]
EIGHT = {"ddp", "fsdp2", "zero2", "zero3", "zero3_offload"}
CLUSTER = {"NODE_RANK": "1", "MASTER_ADDR": "first.example"}
NEEDS_DEEPSPEED = pytest.mark.skipif(
    importlib.util.find_spec("deepspeed") is None, reason="deepspeed is not installed"
)


@pytest.fixture(autouse=True)
def _eight_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "gpus", lambda: 8)
    for name in layout.MACHINES:
        monkeypatch.delenv(name, raising=False)


@cache
def parser() -> argparse.ArgumentParser:
    return launch_command_parser()


def launched(name: str) -> argparse.Namespace:
    """What accelerate makes of the command that staract builds for a file."""
    with mock.patch.dict(os.environ, CLUSTER if name == "multi_node" else {}):
        command = launch.launcher(str(FOLDER / f"{name}.yaml"), Path("recipe.yaml"))
    return validated([*command[3:], "-m", launch.CAUSAL, "recipe.yaml"])


def validated(words: list[str]) -> argparse.Namespace:
    arguments, _, _ = _validate_launch_command(parser().parse_args(words))
    # As accelerate's launch does before it starts DeepSpeed.
    arguments.deepspeed_fields_from_accelerate_config = ""
    return arguments


def variables(name: str, prepare: Callable[[argparse.Namespace], Any]) -> dict[str, str]:
    """The environment that accelerate gives to the processes of a file."""
    with mock.patch("accelerate.utils.launch.is_port_in_use", return_value=False):
        made = prepare(launched(name))
    return made[1] if isinstance(made, tuple) else made


def opening(name: str) -> list[str]:
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("#").strip() for line in lines if line.startswith("#")]


def test_all_files_are_there() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.yaml")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_accelerate_knows_every_key(name: str) -> None:
    config = load_config_from_file(str(FOLDER / f"{name}.yaml"))
    assert isinstance(config, ClusterConfig)
    # Keys of a section become arguments of accelerate launch; accelerate itself takes any.
    known = vars(parser().parse_args(["x"]))
    for section in (config.deepspeed_config, config.fsdp_config):
        assert set(section) <= set(known), name


@pytest.mark.parametrize("name", NAMES)
def test_every_key_takes_effect(name: str) -> None:
    # Where an option of accelerate launch has a default, some keys of a file are passed over without a word.
    text = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    assert text.pop("compute_environment") == "LOCAL_MACHINE"
    del text["distributed_type"]
    arguments = vars(launched(name))
    sections = [text.pop(key) for key in ("deepspeed_config", "fsdp_config") if key in text]
    for key, value in {**text, **(sections[0] if sections else {})}.items():
        assert arguments[key] == value, key


@pytest.mark.parametrize("name", NAMES)
def test_a_file_opens_with_both_commands_that_run_it(name: str) -> None:
    first, second = opening(f"{name}.yaml")[:2]
    assert first.endswith(f"staract train RECIPE accelerate={name}")
    plain = re.sub(r"<[^>]*>", "0", second).split()
    assert plain[:2] == ["accelerate", "launch"]
    arguments = validated(plain[2:])
    assert arguments.config_file == f"recipes/accelerate/{name}.yaml"
    assert (arguments.module, arguments.training_script) == (True, launch.CAUSAL)
    assert arguments.training_script_args == ["RECIPE"]
    # Both start the same.
    theirs = launched(name)
    for key in ("num_processes", "num_machines", "multi_gpu", "use_deepspeed", "use_fsdp", "mixed_precision"):
        assert getattr(arguments, key) == getattr(theirs, key), key


@pytest.mark.parametrize("name", NAMES)
def test_what_is_started(name: str) -> None:
    config, arguments = load_config_from_file(str(FOLDER / f"{name}.yaml")), launched(name)
    kinds = {"cpu2": "MULTI_GPU", "ddp": "MULTI_GPU", "single_gpu": "NO", "fsdp2": "FSDP"}
    assert config.distributed_type == DistributedType(kinds.get(name, "DEEPSPEED"))
    assert arguments.use_cpu is (name == "cpu2")
    assert arguments.use_deepspeed is (name in SHARDED)
    assert arguments.use_fsdp is (name == "fsdp2")
    assert arguments.multi_gpu is (name in ("cpu2", "ddp"))
    # --cpu would start a single process.
    assert not arguments.cpu
    expected = 8 if name in EIGHT else {"cpu2": 2, "single_gpu": 1, "multi_node": 16}[name]
    assert arguments.num_processes == config.num_processes == expected
    assert arguments.num_machines == (2 if name == "multi_node" else 1)
    # Precision is the recipe's: the trainer sets it.
    assert arguments.mixed_precision == "no"


@NEEDS_DEEPSPEED
@pytest.mark.parametrize("name", SHARDED)
def test_deepspeed_reads_the_stage_and_leaves_the_batch_to_the_trainer(name: str) -> None:
    made = variables(name, prepare_deepspeed_cmd_env)
    with mock.patch.dict(os.environ, made):
        plugin = DeepSpeedPlugin()
    stage = 2 if name == "zero2" else 3
    assert plugin.zero_stage == stage
    assert (plugin.gradient_accumulation_steps, plugin.gradient_clipping) == ("auto", "auto")
    # Whole weights are gathered when saved; otherwise every rank would keep its part.
    assert plugin.zero3_save_16bit_model is (stage == 3)
    place = "cpu" if name == "zero3_offload" else "none"
    assert (plugin.offload_optimizer_device, plugin.offload_param_device) == (place, place)
    assert plugin.zero3_init_flag is False


def test_fsdp_is_the_second_kind_and_saves_whole_weights() -> None:
    made = variables("fsdp2", prepare_multi_gpu_env)
    assert made["ACCELERATE_USE_FSDP"] == "true"
    with mock.patch.dict(os.environ, made):
        plugin = FullyShardedDataParallelPlugin()
    assert plugin.fsdp_version == 2
    assert plugin.reshard_after_forward is True
    assert plugin.state_dict_type is StateDictType.FULL_STATE_DICT
    assert plugin.activation_checkpointing is False
    assert plugin.cpu_ram_efficient_loading is False
    assert getattr(plugin.auto_wrap_policy, "__name__", "") == "transformer_auto_wrap_policy"


@pytest.mark.parametrize(("name", "cpu"), [("ddp", "False"), ("cpu2", "True")])
def test_ranks_of_one_machine_meet_on_a_free_port(name: str, cpu: str) -> None:
    arguments = launched(name)
    with mock.patch.dict(os.environ, clear=True):
        prepare_multi_gpu_env(arguments)
    assert arguments.nproc_per_node == str(arguments.num_processes)
    assert int(arguments.master_port) > 0
    assert str(arguments.use_cpu) == cpu


def test_one_gpu_is_one_plain_process() -> None:
    command, made = prepare_simple_launcher_cmd_env(launched("single_gpu"))
    assert command[1:] == ["-m", launch.CAUSAL, "recipe.yaml"]
    assert made["ACCELERATE_USE_CPU"] == "False"


@NEEDS_DEEPSPEED
def test_a_second_machine_joins_the_first() -> None:
    arguments = launched("multi_node")
    command, _ = prepare_deepspeed_cmd_env(arguments)
    # One launcher a machine: no command of DeepSpeed's own, which would log in to the others.
    assert command is None
    script = ["--training_script", "x", "--training_script_args", ""]
    config, _, _ = config_from_args(_filter_args(arguments, get_args_parser(), script))
    assert (config.min_nodes, config.max_nodes, config.nproc_per_node) == (2, 2, 8)
    assert (config.rdzv_backend, config.rdzv_endpoint) == ("static", "first.example:29500")
    assert config.rdzv_configs["rank"] == 1


def test_by_itself_a_process_sees_one_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    for visible, left in (("2,3", "2"), ("", ""), (None, "0")):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible or "")
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
        assert causal([str(tmp_path / "absent.yaml")]) == 2
        assert os.environ["CUDA_VISIBLE_DEVICES"] == left
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    layout.use_one_gpu()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,3"


def test_slurm_starts_one_launcher_a_machine(tmp_path: Path) -> None:
    # A cluster of two machines, played by scripts: what would run on each is noted down.
    for name, body in {
        "scontrol": 'printf "node07\\nnode08\\n"',
        "srun": 'shift; for id in 0 1; do SLURM_NODEID=$id "$@"; done',
        "staract": 'echo "$NODE_RANK/$NNODES $MASTER_ADDR:$MASTER_PORT" "$@" >> "$NOTES"',
    }.items():
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    notes = tmp_path / "notes"
    told = {"SLURM_JOB_NODELIST": "node[07-08]", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_ID": "123456"}
    place = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "NOTES": str(notes)}
    command = ["bash", str(FOLDER / "slurm.sh"), "a recipe.yaml", "train.epochs=2"]
    assert subprocess.call(command, env={**place, **told}, timeout=20) == 0
    assert notes.read_text().splitlines() == [
        f"{rank}/2 node07:23456 train a recipe.yaml train.epochs=2 accelerate=multi_node" for rank in (0, 1)
    ]


def test_slurm_asks_for_what_the_file_says() -> None:
    text = (FOLDER / "slurm.sh").read_text(encoding="utf-8")
    asked = dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", text, re.MULTILINE))
    config = load_config_from_file(str(FOLDER / "multi_node.yaml"))
    assert int(asked["nodes"]) == config.num_machines
    assert int(asked["nodes"]) * int(asked["gpus-per-node"]) == config.num_processes
    assert asked["ntasks-per-node"] == "1"
    # Slurm reads no request below the first command.
    assert text.index("set -euo") > text.rindex("#SBATCH")
    assert opening("slurm.sh")[1].startswith("sbatch recipes/accelerate/slurm.sh RECIPE")
