"""How training is laid out: processes, the machines that they run on, and what each adds to a step."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import yaml

from pipeline.errors import RecipeError
from pipeline.recipe.models import TrainRecipe

MACHINES: Final = {
    "NNODES": "--num_machines",
    "NODE_RANK": "--machine_rank",
    "MASTER_ADDR": "--main_process_ip",
    "MASTER_PORT": "--main_process_port",
}
"""Variables by which a cluster says which machine this is, and accelerate's options for them."""


def world_size() -> int:
    """How many processes train together, as the launcher has told this one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def use_one_gpu() -> None:
    """Hide all GPUs but the first from a process that trains by itself.

    The Trainer would spread every batch over all that it sees, and a step would hold as many times the rows.
    """
    if "WORLD_SIZE" not in os.environ:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
        os.environ["CUDA_VISIBLE_DEVICES"] = visible.split(",")[0]


def accumulation(recipe: TrainRecipe, processes: int) -> int:
    """Forward passes of an optimiser step on each device.

    With ``rows_a_step`` a step holds exactly that many rows, on any number of devices:
    ``batch_size × processes × accumulation``.

    Args:
        recipe: the ``train`` section.
        processes: over all machines, one a device.

    Raises:
        RecipeError: the rows do not fall into whole passes; it says what would do.
    """
    if recipe.rows_a_step is None:
        return recipe.accumulation or 1
    passes, over = divmod(recipe.rows_a_step, recipe.batch_size * processes)
    if not over:
        return passes
    advice = (
        f"set train.processes={_divisor(recipe.rows_a_step, processes)}"
        if recipe.rows_a_step % processes
        else f"set train.batch_size={_divisor(recipe.rows_a_step // processes, recipe.batch_size)}"
    )
    raise RecipeError(
        f"train.rows_a_step: {recipe.rows_a_step} rows do not fall into whole passes of batch_size"
        f" {recipe.batch_size} on {processes} device{'s' if processes > 1 else ''}; {advice}"
    )


def _divisor(number: int, most: int) -> int:
    return next(size for size in range(min(most, number), 0, -1) if number % size == 0)


def gpus() -> int:
    """The GPUs of this machine that we may use."""
    import torch

    return torch.cuda.device_count()


def processes_and_options(
    path: Path, wanted: int | None, variables: Mapping[str, str]
) -> tuple[int, list[str]]:
    """What an accelerate config comes to on this machine.

    A file that leaves ``num_processes`` out (or says -1) means every GPU of every machine.

    Args:
        path: the config file.
        wanted: processes over all machines, instead of what the file says.
        variables: the environment, which says which machine this is (``MACHINES``).

    Returns:
        The number of processes over all machines, and options to add to ``accelerate launch``.

    Raises:
        RecipeError: the file cannot be used, or not on this machine.
    """
    config = _read(path)
    kind = _kind(path, config)
    machines, options = _machines(path, config, variables)
    total = wanted if wanted is not None else _fitting(path, config, kind, machines) * machines
    if total < machines or total % machines or (kind == "NO" and total > 1):
        raise RecipeError(f"{path}: {total} processes cannot be shared by {machines} machines of type {kind}")
    return total, ["--num_processes", str(total), *options]


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise RecipeError(
            f"{path}: the accelerate config cannot be read: {str(error).splitlines()[0]}"
        ) from None
    if not isinstance(content, dict):
        raise RecipeError(f"{path}: an accelerate config is a mapping of keys such as distributed_type")
    return cast("dict[str, Any]", content)


def _kind(path: Path, config: Mapping[str, Any]) -> str:
    kind = str(config.get("distributed_type") or "NO")  # unquoted, YAML takes NO for false
    if kind == "MULTI_CPU" or (kind == "FSDP" and config.get("use_cpu")):
        raise RecipeError(f"{path}: accelerate would run {kind} otherwise than it says; take accelerate=cpu2")
    return kind


def _number(path: Path, config: Mapping[str, Any], key: str, default: int) -> int:
    value = config.get(key, default)
    if type(value) is not int or value == 0:
        raise RecipeError(f"{path}: {key} is {value!r}, but should be a whole number")
    return value


def _machines(path: Path, config: Mapping[str, Any], variables: Mapping[str, str]) -> tuple[int, list[str]]:
    """How many machines there are, and the options that say so; none for a single one."""
    machines = _number(path, config, "num_machines", 1)
    if machines == 1:
        return 1, []
    known = {name: variables[name] for name in MACHINES if variables.get(name)}
    for name in ("NODE_RANK", "MASTER_ADDR"):
        if name not in known:
            raise RecipeError(
                f"{path} is for {machines} machines: set NODE_RANK (0 on the first) and MASTER_ADDR (the"
                f" first one's address) on each; {name} is missing"
            )
    told = known.get("NNODES", str(machines))
    if not told.isdecimal() or int(told) == 0:
        raise RecipeError(f"NNODES is {told!r}, but should be the number of machines")
    return int(told), [word for name, value in known.items() for word in (MACHINES[name], value)]


def _fitting(path: Path, config: Mapping[str, Any], kind: str, machines: int) -> int:
    """Processes of one machine: what the file says, if the machine can carry them."""
    if kind == "NO":
        return 1
    each = _number(path, config, "num_processes", -1) // _number(path, config, "num_machines", 1)
    if config.get("use_cpu"):
        return each
    found = gpus()
    # DeepSpeed computes on the processor where there is no GPU, if the file says on how many processes.
    if found == 0 and (kind != "DEEPSPEED" or each < 0):
        raise RecipeError(f"{path} is for GPUs, and this machine has none; accelerate=cpu2 does without")
    if 0 < found < each:
        raise RecipeError(
            f"{path} starts {each} processes a machine, and the GPUs here are {found};"
            f" set train.processes={found * machines}"
        )
    return found if each < 0 else each
