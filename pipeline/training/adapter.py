"""Low-rank adapters, on a base in its own precision or in four bits (QLoRA)."""

from __future__ import annotations

import os
from typing import Any

import torch
from peft import LoraConfig, get_peft_model

from pipeline.errors import TrainingError
from pipeline.models.transformers_load import load_causal, load_quantized, peft_unheard
from pipeline.recipe.models import LoraRecipe, TrainRecipe
from pipeline.training.sharding import uses_deepspeed


def load_base(address: str, train: TrainRecipe, dtype: torch.dtype) -> tuple[Any, Any]:
    """The model to start from, and its tokeniser.

    Weights that are trained stay in float32: bfloat16 cannot hold the small steps of fine-tuning. Frozen
    ones are in the precision of the arithmetic, or in four bits. The latter get no further preparation:
    peft's would hold embeddings and head in float32, and with them all that flows between layers; norms
    and losses are computed in float32 as it is.

    Args:
        address: of the model.
        train: how it is trained.
        dtype: the precision of the arithmetic.

    Raises:
        ModelError: the model cannot be loaded.
        TrainingError: a base in four bits was to be split over devices.
    """
    if train.lora is None:
        return load_causal(address, torch.float32, "cpu")
    if train.lora.quantize is None:
        return load_causal(address, dtype, "cpu")
    if uses_deepspeed() or os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true":
        raise TrainingError(
            "train.lora.quantize: a base in four bits is not split over devices; take train.accelerate=ddp "
            "or single_gpu, where each holds all of it"
        )
    cuda = torch.cuda.is_available()
    return load_quantized(address, dtype, f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if cuda else "cpu")


def with_adapter(model: Any, lora: LoraRecipe) -> Any:
    """Wrap a model with a fresh low-rank adapter on every linear layer but the head."""
    settings = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,  # type: ignore[arg-type] - a float works, and scales smoothly
        lora_dropout=lora.dropout,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    with peft_unheard():
        return get_peft_model(model, settings)


def hold_in_float32(model: Any) -> None:
    """Undo that TRL turns the adapter of a base in four bits to bfloat16, before there is an optimiser."""
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data = weight.data.float()
