"""How training is split over GPUs, by name or as a config file of accelerate says. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, cast

import yaml

from pipeline.errors import RecipeError

Engine = Literal["torch", "deepspeed", "fsdp"]


@dataclass(frozen=True)
class Sharding:
    """What is split, and by whom.

    ``torch`` keeps everything on every GPU; ``deepspeed`` splits gradients and optimiser (stage 2), or
    the weights as well (stage 3); ``fsdp`` is FSDP2, which splits all three.
    """

    name: str
    engine: Engine = "torch"
    stage: int = 0
    offload_optimizer: bool = False
    offload_weights: bool = False


SHARDINGS: Final = {
    one.name: one
    for one in (
        Sharding("none"),
        Sharding("ddp"),
        Sharding("zero2", "deepspeed", 2),
        Sharding("zero3", "deepspeed", 3),
        Sharding("zero3_offload", "deepspeed", 3, offload_optimizer=True, offload_weights=True),
        Sharding("fsdp2", "fsdp", 3),
    )
}
"""By name, from what needs the most memory to what needs the least (``fsdp2`` is like ``zero3``)."""


def find_sharding(name: str) -> Sharding:
    """A sharding by its name.

    Raises:
        RecipeError: there is none.
    """
    if name not in SHARDINGS:
        raise RecipeError(f"--sharding: {name!r} is none of {', '.join(SHARDINGS)}")
    return SHARDINGS[name]


def read_accelerate(path: Path) -> tuple[Sharding, int]:
    """The sharding and the number of processes that a config file of ``accelerate launch`` asks for.

    Raises:
        RecipeError: the file is unreadable, or asks for what the plan cannot judge.
    """
    try:
        raw: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        values = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
        processes = int(values.get("num_processes", 1))
        kind = str(values.get("distributed_type", "NO")).upper()
        return replace(_sharding(kind, values, processes), name=path.stem), processes
    except (OSError, ValueError, TypeError, AttributeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise RecipeError(f"{path}: this config of accelerate cannot be read: {reason}") from None


def _sharding(kind: str, values: dict[str, Any], processes: int) -> Sharding:
    if kind == "DEEPSPEED":
        inner: dict[str, Any] = values.get("deepspeed_config") or {}
        if "deepspeed_config_file" in inner:
            raise ValueError("it names a file of DeepSpeed's; say --sharding instead")
        stage = int(inner.get("zero_stage", 2))
        if stage not in {2, 3}:
            raise ValueError(f"zero_stage {stage} is not one that the plan knows, which are 2 and 3")
        return Sharding(
            "",
            "deepspeed",
            stage,
            str(inner.get("offload_optimizer_device", "none")) != "none",
            str(inner.get("offload_param_device", "none")) != "none",
        )
    if kind == "FSDP":
        return SHARDINGS["fsdp2"]
    return SHARDINGS["ddp" if processes > 1 else "none"]
