"""Attention that keeps packed documents apart, without a mask and without wasted work.

Packed rows lie end to end in one sequence. A block-diagonal mask over it would be right too, but the
kernel would still compute every pair of tokens in it; here each document attends by itself, causally.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from pipeline.errors import TrainingError

NAME = "staract_documents"
"""Under this name the attention is known to transformers."""


def document_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    document_lengths: Sequence[int] | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention inside each document.

    Args:
        module: the attention layer.
        query: shape (1, heads, tokens, head size).
        key: shape (1, key-value heads, tokens, head size).
        value: as ``key``.
        attention_mask: None, unless a call is not packed.
        dropout: chance of dropping a weight.
        scaling: factor of the scores.
        document_lengths: tokens of each document, in order; None for a call that is not packed.
        kwargs: what else transformers hands down.

    Returns:
        Shape (1, tokens, heads, head size), and None for the weights.
    """
    if document_lengths is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    sizes = list(document_lengths)
    outputs = [
        F.scaled_dot_product_attention(
            one,
            two,
            three,
            dropout_p=dropout,
            is_causal=True,
            scale=scaling,
            enable_gqa=one.shape[1] != two.shape[1],
        )
        for one, two, three in zip(
            query.split(sizes, 2), key.split(sizes, 2), value.split(sizes, 2), strict=True
        )
    ]
    return torch.cat(outputs, dim=2).transpose(1, 2).contiguous(), None


def separate_documents(model: Any) -> bool:
    """Prepare a model for packed rows; True where its attention wants ``document_lengths``.

    Models with plain causal attention get ``document_attention``. Others with attention only keep
    transformers' own mask, which separates documents by their positions.

    Raises:
        TrainingError: the model has layers that would mix packed documents.
    """
    config = model.config.get_text_config()
    kinds: set[str] = set(getattr(config, "layer_types", None) or ["full_attention"])
    attends = model._supports_sdpa or model._supports_attention_backend
    if kinds - {"full_attention", "sliding_attention", "chunked_attention"} or not attends:
        raise TrainingError(
            f"model type {config.model_type!r} would let packed rows see each other; set train.packing=false"
        )
    softcap = getattr(config, "attn_logit_softcapping", None)
    window = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    if kinds != {"full_attention"} or softcap or window or not model._supports_attention_backend:
        return False
    AttentionInterface.register(NAME, document_attention)
    AttentionMaskInterface.register(NAME, _mask)
    model.set_attn_implementation(NAME)
    return True


def _mask(*args: Any, **kwargs: Any) -> torch.Tensor | None:
    """No mask for packed calls (they come without one); for others, the one that sdpa would get."""
    from transformers.masking_utils import sdpa_mask

    return None if kwargs.get("attention_mask") is None else sdpa_mask(*args, **kwargs)
