"""What a process keeps of a model that is split, and models that DeepSpeed's stage 3 must leave alone."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from torch.distributed.tensor import DTensor
from transformers.integrations import deepspeed


def uses_deepspeed() -> bool:
    """Whether ``accelerate launch`` started us for DeepSpeed."""
    return os.environ.get("ACCELERATE_USE_DEEPSPEED", "false").lower() == "true"


def weights_held(model: Any) -> tuple[int, int]:
    """How many weights a model has, and how many of them this process keeps."""
    weights = list(model.parameters())
    return sum(map(_whole, weights)), sum(map(_held, weights))


def _whole(weight: Any) -> int:
    # In four bits, two weights lie in one element; DeepSpeed's stage 3 leaves an empty tensor.
    packed = getattr(weight, "quant_state", None)
    return packed.shape.numel() if packed else getattr(weight, "ds_numel", weight.numel())


def _held(weight: Any) -> int:
    """How much this process keeps of a weight that DeepSpeed or FSDP split."""
    if isinstance(weight, DTensor):
        return weight.to_local().numel()
    return weight.ds_tensor.numel() if hasattr(weight, "ds_tensor") else _whole(weight)


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
