"""DeepSpeed on two processes without a GPU: what accelerate is told, and what keeps it from compiling."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

NEEDS_DEEPSPEED = pytest.mark.skipif(
    importlib.util.find_spec("deepspeed") is None, reason="deepspeed is not installed"
)
# Else DeepSpeed compiles a shortcut of its own, for minutes; without it ranks speak through gloo.
NOTHING_COMPILED = "import deepspeed.ops\ndeepspeed.ops.__compatible_ops__['deepspeed_shm_comm'] = False\n"
LAUNCH = """\
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  deepspeed_config_file: {path}
  zero3_init_flag: false
use_cpu: false
num_machines: 1
num_processes: 2
machine_rank: 0
main_process_port: 0
"""


def stage(folder: Path, number: int) -> Path:
    """An accelerate config for a stage of DeepSpeed on two processes; the folder must be on their path."""
    zero: dict[str, Any] = {"stage": number}
    if number == 3:
        # Smaller tensors would stay whole on every rank, which here is all of them.
        zero |= {"stage3_param_persistence_threshold": 0, "stage3_gather_16bit_weights_on_model_save": True}
    auto = ("train_micro_batch_size_per_gpu", "train_batch_size", "gradient_accumulation_steps")
    settings = {
        "zero_optimization": zero,
        **dict.fromkeys((*auto, "gradient_clipping"), "auto"),
        "bf16": {"enabled": False},
    }
    (folder / "stage.json").write_text(json.dumps(settings))
    config = folder / "stage.yaml"
    config.write_text(LAUNCH.format(path=folder / "stage.json"))
    (folder / "sitecustomize.py").write_text(NOTHING_COMPILED)
    return config
