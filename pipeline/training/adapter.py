"""Low-rank adapters."""

from __future__ import annotations

from typing import Any

from peft import LoraConfig, get_peft_model

from pipeline.recipe.models import LoraRecipe


def with_adapter(model: Any, lora: LoraRecipe) -> Any:
    """Wrap a model with a fresh low-rank adapter on every linear layer but the head."""
    settings = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,  # type: ignore[arg-type] - a float works, and scales smoothly
        lora_dropout=lora.dropout,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, settings)
