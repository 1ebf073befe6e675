"""The language-model head, on labelled positions only.

An agent's row is mostly what the environment said. Projecting those positions on the vocabulary
costs as much as projecting the labels and is then thrown away; here it is not done at all.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from peft import PeftModel
from torch.utils.checkpoint import checkpoint
from transformers.modeling_outputs import CausalLMOutput

from pipeline.rendering.tokens import IGNORE

LOGITS_AT_ONCE = 2**26
"""Logits held at a time (256 MiB in float32); what exceeds it is computed again in the backward pass."""

_SCALED = (
    "final_logit_softcapping",
    "logit_scale",
    "logits_scaling",
    "output_multiplier",
    "lm_head_multiplier",
)


def head_loss(
    head: Callable[[torch.Tensor], torch.Tensor], hidden: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    """Summed cross-entropy of a batch of positions, as a scalar."""
    return F.cross_entropy(head(hidden).float(), targets, reduction="sum")


def label_loss(
    head: Any, hidden: torch.Tensor, labels: torch.Tensor, at_once: int = LOGITS_AT_ONCE
) -> torch.Tensor:
    """Summed cross-entropy over the labels, projecting no other position.

    Args:
        head: the output projection.
        hidden: last hidden states, shape (batch, tokens, width).
        labels: shape (batch, tokens), not shifted; ``IGNORE`` trains nothing.
        at_once: logits to hold at a time.
    """
    wanted = labels[:, 1:] != IGNORE
    chosen, targets = hidden[:, :-1][wanted], labels[:, 1:][wanted]
    if not len(targets):
        # Still connected to every weight, or ranks of a distributed run would wait for each other.
        return head(hidden[:, :1]).float().sum() * 0.0
    return chosen_loss(head, chosen, targets, at_once)


def chosen_loss(
    head: Any, chosen: torch.Tensor, targets: torch.Tensor, at_once: int = LOGITS_AT_ONCE
) -> torch.Tensor:
    """Summed cross-entropy of positions that were chosen, as many at a time as may be held.

    Args:
        head: the output projection.
        chosen: hidden states, shape (positions, width).
        targets: ids, shape (positions,).
        at_once: logits to hold at a time.
    """
    # DeepSpeed's stage 3 leaves an empty weight between uses, and notes its shape.
    size = max(1, at_once // getattr(head.weight, "ds_shape", head.weight.shape)[0])
    if len(targets) <= size:
        return head_loss(head, chosen, targets)
    project = head.forward

    def in_parts(chosen: torch.Tensor) -> torch.Tensor:
        parts = zip(chosen.split(size), targets.split(size), strict=True)
        losses = [checkpoint(head_loss, project, part, goal, use_reentrant=False) for part, goal in parts]
        return torch.stack(losses).sum()

    # One call of the module for all parts: FSDP gathers and frees its weights around each call of it.
    with forwarding(head, in_parts):
        return head(chosen)


def can_skip(model: Any) -> bool:
    """Whether the model's loss is plain cross-entropy on ``head(body(x))``: nothing scaled or added."""
    inner = inner_model(model)
    config = inner.config.get_text_config()
    plain = all(getattr(config, name, None) in (None, 1, 1.0) for name in _SCALED)
    return plain and not getattr(config, "num_experts", None) and inner.base_model is not inner


def add_label_head(model: Any) -> None:
    """Let ``model(…, labels=…, label_only=True)`` return the summed loss and no logits.

    The forward itself is replaced, because distributed wrappers synchronise only what runs inside it.
    Calls without ``label_only`` are unchanged.
    """
    inner = inner_model(model)
    original = inner.forward

    @functools.wraps(type(inner).forward)
    def forward(
        self: Any, *args: Any, label_only: bool = False, labels: torch.Tensor | None = None, **kwargs: Any
    ) -> Any:
        if not label_only or labels is None:
            return original(*args, labels=labels, **kwargs)
        hidden = self.base_model(*args, **kwargs).last_hidden_state
        return CausalLMOutput(loss=label_loss(self.get_output_embeddings(), hidden, labels))

    inner.forward = types.MethodType(forward, inner)


@contextmanager
def forwarding(module: Any, forward: Callable[..., Any]) -> Generator[None]:
    """Let calls of the module run another forward between its hooks."""
    own = vars(module).get("forward")
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
        if own is not None:
            module.forward = own


def inner_model(model: Any) -> Any:
    """The model itself, without an adapter around it."""
    return model.get_base_model() if isinstance(model, PeftModel) else model
