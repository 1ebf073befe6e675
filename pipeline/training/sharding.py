"""DeepSpeed's stage 3 and models that it must leave alone."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from transformers.integrations import deepspeed


def uses_deepspeed() -> bool:
    """Whether ``accelerate launch`` started us for DeepSpeed."""
    return os.environ.get("ACCELERATE_USE_DEEPSPEED", "false").lower() == "true"


def weights_held(model: Any) -> tuple[int, int]:
    """How many weights a model has, and how many of them this process keeps."""
    weights = list(model.parameters())
    whole = sum(getattr(weight, "ds_numel", weight.numel()) for weight in weights)
    return whole, sum(_kept(weight).numel() for weight in weights)


def _kept(weight: Any) -> torch.Tensor:
    """This process's part of a weight, as DeepSpeed or FSDP split it."""
    if isinstance(weight, DTensor):
        return weight.to_local()
    return getattr(weight, "ds_tensor", weight)


@contextmanager
def unsharded() -> Generator[None]:
    """Load models whole.

    While a trainer uses stage 3, transformers splits every model that is loaded over all ranks; one
    that rank 0 loads by itself would wait for the others for ever.
    """
    noted = deepspeed._hf_deepspeed_config_weak_ref  # pyright: ignore[reportPrivateUsage]
    deepspeed.unset_hf_deepspeed_config()
    try:
        yield
    finally:
        deepspeed._hf_deepspeed_config_weak_ref = noted  # pyright: ignore[reportPrivateUsage]
