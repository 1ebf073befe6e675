"""The log-probability of each row's labels, from labelled positions only (see ``head``)."""

from __future__ import annotations

import functools
import types
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers.modeling_outputs import CausalLMOutput

from pipeline.rendering.tokens import IGNORE
from pipeline.training.head import LOGITS_AT_ONCE, forwarding, inner_model


def label_logps(
    head: Any, hidden: torch.Tensor, labels: torch.Tensor, at_once: int = LOGITS_AT_ONCE
) -> torch.Tensor:
    """Log-probabilities of the labels, summed over each row, in float32.

    Args:
        head: the output projection.
        hidden: last hidden states, shape (rows, tokens, width).
        labels: shape (rows, tokens), not shifted; ``IGNORE`` counts for nothing.
        at_once: logits to hold at a time.

    Returns:
        Shape (rows,); zero where a row has no label.
    """
    wanted = labels[:, 1:] != IGNORE
    chosen, targets = hidden[:, :-1][wanted], labels[:, 1:][wanted]
    if not len(targets):
        # Still connected to every weight, or ranks of a distributed run would wait for each other.
        return head(hidden[:, :1]).float().sum(dim=(1, 2)) * 0.0
    found = chosen_logps(head, chosen, targets, at_once)
    rows = wanted.nonzero()[:, 0]
    return torch.zeros(len(labels), device=hidden.device).index_add(0, rows, found)


def chosen_logps(
    head: Any, chosen: torch.Tensor, targets: torch.Tensor, at_once: int = LOGITS_AT_ONCE
) -> torch.Tensor:
    """Log-probabilities of positions that were chosen; arguments as ``head.chosen_loss``.

    Returns:
        Shape (positions,), in float32.
    """
    # DeepSpeed's stage 3 leaves an empty weight between uses, and notes its shape.
    size = max(1, at_once // getattr(head.weight, "ds_shape", head.weight.shape)[0])
    if len(targets) <= size:
        return _logps(head, chosen, targets)
    project = head.forward

    def in_parts(chosen: torch.Tensor) -> torch.Tensor:
        parts = zip(chosen.split(size), targets.split(size), strict=True)
        return torch.cat(
            [checkpoint(_logps, project, part, goal, use_reentrant=False) for part, goal in parts]
        )

    # One call of the module for all parts, as in ``head.chosen_loss``.
    with forwarding(head, in_parts):
        return head(chosen)


def _logps(head: Any, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return -F.cross_entropy(head(hidden).float(), targets, reduction="none")


def add_logps_head(model: Any) -> None:
    """Let ``model(…, labels=…, row_logps=True)`` return ``label_logps`` as its logits.

    As in ``head.add_label_head``, the forward itself is replaced. Calls without ``row_logps`` are unchanged.
    """
    inner = inner_model(model)
    original = inner.forward

    @functools.wraps(type(inner).forward)
    def forward(
        self: Any, *args: Any, row_logps: bool = False, labels: torch.Tensor | None = None, **kwargs: Any
    ) -> Any:
        if not row_logps or labels is None:
            return original(*args, labels=labels, **kwargs)
        hidden = self.base_model(*args, **kwargs).last_hidden_state
        return CausalLMOutput(logits=label_logps(self.get_output_embeddings(), hidden, labels))  # type: ignore[arg-type]

    inner.forward = types.MethodType(forward, inner)
