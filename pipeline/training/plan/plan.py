"""A plan: one recipe on one machine, with what it takes and whether it fits."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.errors import RecipeError
from pipeline.recipe.models import TrainRecipe
from pipeline.training.layout import accumulation
from pipeline.training.plan.data import Data
from pipeline.training.plan.gpus import GB, Gpu
from pipeline.training.plan.memory import Memory, checkpoints, memory, work_of
from pipeline.training.plan.sharding import Sharding
from pipeline.training.plan.speed import UTILISATION, row_flops
from pipeline.training.plan.student import Base, Counts, count


@dataclass(frozen=True)
class Machine:
    """What to train on. ``price`` is that of one GPU for an hour."""

    gpu: Gpu
    gpus: int
    sharding: Sharding
    utilisation: float = UTILISATION
    price: float | None = None


@dataclass(frozen=True)
class Plan:
    """What a training takes. Tokens are useful ones: padding is not counted."""

    base: Base
    train: TrainRecipe
    machine: Machine
    data: Data
    counts: Counts
    checkpointing: bool
    memory: Memory
    row_flops: float

    @property
    def fits(self) -> bool:
        """Whether every device has the memory."""
        return self.memory.total <= self.machine.gpu.memory

    @property
    def passes(self) -> int:
        """Forward passes of a step on each device."""
        return accumulation(self.train, self.machine.gpus)

    @property
    def rows_per_step(self) -> int:
        """Rows (packed: blocks) of an optimiser step, over all devices."""
        return self.train.batch_size * self.passes * self.machine.gpus

    @property
    def tokens_per_step(self) -> float:
        """Of all devices."""
        return self.rows_per_step * self.data.tokens

    @property
    def tokens_per_second(self) -> float:
        """Of all devices."""
        rate = self.machine.gpu.flops * self.machine.utilisation * self.machine.gpus
        return rate * self.data.tokens / self.row_flops

    @property
    def steps(self) -> int | None:
        """Optimiser steps; None where neither the recipe nor the dataset says."""
        if self.train.max_steps:
            return self.train.max_steps
        if self.data.units is None:
            return None
        return math.ceil(math.ceil(self.data.units / self.rows_per_step) * self.train.epochs)

    @property
    def hours(self) -> float | None:
        """Of arithmetic alone: loading, evaluating and saving are not counted."""
        if self.steps is None:
            return None
        return self.steps * self.tokens_per_step / self.tokens_per_second / 3600

    @property
    def cost(self) -> float | None:
        """Of all GPUs, in the unit of the price."""
        if self.hours is None or self.machine.price is None:
            return None
        return self.hours * self.machine.gpus * self.machine.price

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``; bytes and seconds are plain numbers."""
        return {
            "model": self.base.name,
            "parameters": asdict(self.counts),
            "gpu": asdict(self.machine.gpu),
            "gpus": self.machine.gpus,
            "sharding": asdict(self.machine.sharding),
            "batch_size": self.train.batch_size,
            "accumulation": self.passes,
            "max_length": self.train.max_length,
            "lora": self.train.lora.model_dump() if self.train.lora else None,
            "activation_checkpointing": self.checkpointing,
            "memory": self.memory.as_dict(),
            "fits": self.fits,
            "data": asdict(self.data),
            "utilisation": self.machine.utilisation,
            "rows_per_step": self.rows_per_step,
            "tokens_per_step": self.tokens_per_step,
            "tokens_per_second": self.tokens_per_second,
            "steps": self.steps,
            "hours": self.hours,
            "cost": self.cost,
        }


def make_plan(base: Base, train: TrainRecipe, data: Data, machine: Machine) -> Plan:
    """Plan a training.

    Raises:
        ModelError: the model cannot be built or traced.
        RecipeError: the rows of a step do not fall into whole passes on so many GPUs, or a base in four bits
            was to be split over them.
    """
    lora: Any = train.lora  # frozen, so it has a hash
    if lora is not None and lora.quantize and machine.sharding.engine != "torch":
        raise RecipeError(
            f"train.lora.quantize: a base in four bits is not split by {machine.sharding.name}; take "
            "--sharding none or ddp"
        )
    counts = count(base, lora)
    checkpointing = checkpoints(counts, train)
    work = work_of(train, machine.sharding, labelled=data.labelled, checkpointing=checkpointing)
    needed = memory(base, counts, train, work, machine.sharding, machine.gpus)
    flops = row_flops(base, counts, train, data, checkpointing=checkpointing)
    return Plan(base, train, machine, data, counts, checkpointing, needed, flops)


def gigabytes(size: float) -> str:
    """Bytes as people read them."""
    return f"{size / GB:.2f}"
