"""The share of a device's peak that training reaches, counting only the operations that the loss needs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

import torch

from pipeline.errors import ModelError
from pipeline.recipe.models import TrainRecipe
from pipeline.training.plan.data import Data
from pipeline.training.plan.gpus import by_device_name
from pipeline.training.plan.speed import row_flops
from pipeline.training.plan.student import Base, count, inner
from pipeline.training.sharding import unsharded

SIDE: Final = 1024
"""Rows and columns of the matrices by which a processor's speed is measured."""


@dataclass(frozen=True)
class Utilisation:
    """What turns tokens a second into a share.

    ``flops`` are operations a token, forward and backward; activations that are computed twice count once.
    ``peak`` is that of all devices together, in operations a second.
    """

    flops: float
    peak: float

    def share(self, tokens_per_second: float) -> float:
        """The share of the peak, between 0 and 1."""
        return tokens_per_second * self.flops / self.peak


def utilisation(
    model: Any, train: TrainRecipe, tokens: float, labelled: float, *, bf16: bool, devices: int
) -> Utilisation | None:
    """How to read the speed of a training; None where the peak of the devices is not known.

    Args:
        model: the student, on its device.
        train: how it is trained.
        tokens: of a row, on average.
        labelled: share of labels among tokens.
        bf16: whether products are computed in bfloat16.
        devices: how many train together.
    """
    peak = _peak(model.device, bf16=bf16, devices=devices)
    if peak is None:
        return None
    base = Base(inner(model).config, "the student")
    lora: Any = train.lora  # frozen, so it has a hash
    data = Data(1, tokens, tokens, labelled, "")
    try:
        with unsharded():
            counts = count(base, lora)
    except ModelError:
        return None  # of a model that no config builds
    row = row_flops(base, counts, train, data, checkpointing=False)
    return Utilisation(row / tokens, peak * devices)


def matmul_peak(dtype: torch.dtype, seconds: float = 0.2) -> float:
    """Operations a second that products of matrices reach on the processor, at best."""
    one = torch.ones(SIDE, SIDE, dtype=dtype)
    _ = one @ one
    best, end = 0.0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        begun = time.perf_counter()
        _ = one @ one
        best = max(best, 2 * SIDE**3 / (time.perf_counter() - begun))
    return best


def _peak(device: torch.device, *, bf16: bool, devices: int) -> float | None:
    """The maker's figure of a GPU; of a processor what it does now, if one process has it to itself."""
    if device.type == "cuda":
        gpu = by_device_name(torch.cuda.get_device_name(device))
        return gpu.flops if gpu and bf16 else None
    if device.type != "cpu" or devices > 1:
        return None
    return matmul_peak(torch.bfloat16 if bf16 else torch.float32)
