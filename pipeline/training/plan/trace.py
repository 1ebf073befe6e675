"""A training step without numbers: the real model computes shapes, and every tensor's life is noted.

A closed formula for activations holds for one architecture, one attention and one library version. Here
the very modules that will be trained run forward and backward on tensors without content, so what
autograd keeps, what automatic mixed precision copies, and what checkpointing spares is all in it.
"""

from __future__ import annotations

import weakref
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from peft import PeftModel
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pipeline.errors import ModelError
from pipeline.models.addresses import first_line
from pipeline.recipe.models import DpoRecipe, LoraRecipe
from pipeline.training.documents import separate_documents
from pipeline.training.head import can_skip, chosen_loss
from pipeline.training.plan.student import META, Base, build, inner
from pipeline.training.preference_head import chosen_logps
from pipeline.training.preference_trainer import pair_losses
from pipeline.training.seq2seq_trainer import summed_loss


@dataclass(frozen=True)
class Work:
    """One forward and backward pass of one device.

    ``batch`` rows of ``length`` tokens (of an encoder-decoder, with targets of ``target``), of which
    ``labelled`` is the share that is trained on. ``preference``: they are halves of pairs.
    """

    batch: int
    length: int
    target: int
    packing: bool
    label_only: bool
    labelled: float
    lora: LoraRecipe | None
    half: bool
    """Weights that are not trained by torch itself are held in bfloat16."""
    autocast: bool
    uniform: bool
    checkpointing: bool
    preference: bool = False
    gpu: bool = True
    """With the attention kernels of a GPU; else those of a processor."""


@dataclass(frozen=True)
class Activations:
    """Bytes at the worst moment of a pass.

    ``peak`` counts neither weights nor gradients; ``growing`` counts the gradients that are there at that
    moment, where none were at the beginning.
    """

    peak: int
    growing: int


@lru_cache(maxsize=256)
def trace(base: Base, work: Work) -> Activations:
    """Run a pass and note its worst moment.

    Raises:
        ModelError: the model cannot run without numbers (its forward looks at values).
    """
    dtype = torch.bfloat16 if work.half else torch.float32
    with META:
        lora, uniform = work.lora, work.uniform
        model = build(base, dtype=dtype, lora=lora, uniform=uniform, checkpointing=work.checkpointing)
    with FakeTensorMode(allow_non_fake_inputs=True):
        _pretend(model)
        loss_of = _preference_loss if work.preference else _causal_loss
        loss_of = _seq2seq_loss if base.encoder_decoder else loss_of
        meter = Meter(model)
        try:
            with kernels(gpu=work.gpu), meter:
                with torch.autocast("cpu", torch.bfloat16, enabled=work.autocast):
                    loss = loss_of(model, work)
                loss.backward()
        except Exception as error:
            raise ModelError(
                f"{base.name!r}: a training step of this kind of model cannot be planned: {first_line(error)}"
            ) from error
    return Activations(meter.peak, meter.growing)


def _pretend(model: torch.nn.Module) -> None:
    """Give a model on the meta device tensors that pass for a processor's, so that autocast sees them."""
    known: dict[int, torch.nn.Parameter] = {}
    for module in model.modules():
        for name, weight in list(module.named_parameters(recurse=False, remove_duplicate=False)):
            if id(weight) not in known:
                empty = torch.empty_like(weight, device="cpu")
                known[id(weight)] = torch.nn.Parameter(empty, weight.requires_grad)
            setattr(module, name, known[id(weight)])
        for name, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, name, torch.empty_like(buffer, device="cpu"))


class Meter(TorchDispatchMode):
    """Adds up the tensors that are alive beside a model's own, in bytes."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.peak = self.growing = 0
        self._now = self._gradients = 0
        self._alive: dict[int, tuple[Any, int]] = {}
        for tensor in [*model.parameters(), *model.buffers()]:
            storage = tensor.untyped_storage()
            self._alive[id(storage)] = (storage, 0)
        for weight in model.parameters():
            if weight.requires_grad:
                weight.register_post_accumulate_grad_hook(self._grown)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._note(leaf.untyped_storage())
        return result

    def _note(self, storage: Any) -> None:
        key = id(storage)
        if key in self._alive:
            return

        def gone(_: Any) -> None:
            self._now -= self._alive.pop(key)[1]

        self._alive[key] = (weakref.ref(storage, gone), storage.nbytes())
        self._now += storage.nbytes()
        self.peak = max(self.peak, self._now)
        self.growing = max(self.growing, self._now + self._gradients)

    def _grown(self, weight: torch.Tensor) -> None:
        """A gradient is whole: from here on it counts as one, and no longer as an activation."""
        assert weight.grad is not None  # noqa: S101 - torch has just put it there
        storage = weight.grad.untyped_storage()
        size = self._alive[id(storage)][1]
        # Kept alive, as the real one is.
        self._alive[id(storage)] = (storage, 0)
        self._now -= size
        self._gradients += size


@contextmanager
def kernels(*, gpu: bool) -> Generator[None]:
    """Attention and dropout by the kernels that a device would choose; shapes alone do not say which.

    Without a mask both kinds of device keep inputs, output and one number a query. With one, a GPU does
    the same; a processor keeps every pair of tokens where the mask is itself trained, as T5's is.
    A mode of torch's would be off in the backward pass, where layers are computed again.
    """
    functional: Any = F
    attention, dropout = functional.scaled_dot_product_attention, functional.dropout
    functional.scaled_dot_product_attention = partial(_attend, gpu)
    functional.dropout = _dropout if gpu else dropout
    try:
        yield
    finally:
        functional.scaled_dot_product_attention, functional.dropout = attention, dropout


def _attend(
    gpu: bool,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    aten: Any = torch.ops.aten
    if torch.is_autocast_enabled("cpu"):
        query, key, value = query.bfloat16(), key.bfloat16(), value.bfloat16()
    mask = None if attn_mask is None else _as_scores(attn_mask, query.dtype)
    if mask is None or not (gpu or mask.requires_grad):
        flash = aten._scaled_dot_product_flash_attention_for_cpu
        return flash(query, key, value, 0.0, is_causal, attn_mask=mask, scale=scale)[0]
    if enable_gqa and query.shape[1] != key.shape[1]:
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    if not gpu:
        math = aten._scaled_dot_product_attention_math
        return math(query, key, value, mask, dropout_p, is_causal, scale=scale)[0]
    mask = mask.expand(*query.shape[:3], key.shape[2])
    efficient = aten._scaled_dot_product_efficient_attention
    return efficient(query, key, value, mask, True, dropout_p, is_causal, scale=scale)[0]


def _dropout(
    input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    """A GPU keeps one byte an element; a processor keeps factors of the input's own type."""
    return torch.native_dropout(input, p, True)[0] if training and p > 0 else input


def _as_scores(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros_like(mask, dtype=dtype) if mask.dtype is torch.bool else mask.to(dtype)


def _causal_loss(model: Any, work: Work) -> torch.Tensor:
    plain = inner(model)
    inputs = (_packed if work.packing else _padded)(plain, work)
    labels = torch.zeros_like(inputs["input_ids"])
    if not (work.label_only and can_skip(model)):
        return model(**inputs, labels=labels, use_cache=False).loss
    hidden = plain.base_model(**inputs, use_cache=False).last_hidden_state
    count = max(1, round(work.labelled * (labels.numel() - len(labels))))
    # As label_loss of training/head.py, but that picks the labels by their values.
    places = torch.zeros(count, dtype=torch.long)
    return chosen_loss(plain.get_output_embeddings(), hidden[:, :-1][places, places], places)


def _preference_loss(model: Any, work: Work) -> torch.Tensor:
    policy = _row_logps(model, work)
    # Another model would need as much, and is counted with the weights.
    adapter = model.disable_adapter() if isinstance(model, PeftModel) else nullcontext()
    with torch.no_grad(), adapter:
        reference = _row_logps(model, work)
    words = torch.ones(work.batch, dtype=torch.long)
    return pair_losses(policy, reference, words, DpoRecipe()).sum()


def _row_logps(model: Any, work: Work) -> torch.Tensor:
    plain = inner(model)
    inputs = _padded(plain, work)
    if not (work.label_only and can_skip(model)):
        logits = model(**inputs, use_cache=False).logits[:, :-1]
        return logits.float().log_softmax(-1)[..., 0].sum(dim=1)
    hidden = plain.base_model(**inputs, use_cache=False).last_hidden_state
    count = max(1, round(work.labelled * work.batch * (work.length - 1)))
    # As label_logps of training/preference_head.py, but that picks the labels by their values.
    places = torch.zeros(count, dtype=torch.long)
    found = chosen_logps(plain.get_output_embeddings(), hidden[:, :-1][places, places], places)
    return torch.zeros(work.batch).index_add(0, places, found)


def _packed(model: Any, work: Work) -> dict[str, Any]:
    tokens = work.batch * work.length
    inputs: dict[str, Any] = {
        "input_ids": torch.zeros(1, tokens, dtype=torch.long),
        "position_ids": torch.arange(work.length).repeat(work.batch)[None],
    }
    if separate_documents(model):
        inputs["document_lengths"] = (work.length,) * work.batch
    return inputs


def _padded(_: Any, work: Work) -> dict[str, Any]:
    ids = torch.zeros(work.batch, work.length, dtype=torch.long)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _seq2seq_loss(model: Any, work: Work) -> torch.Tensor:
    targets = torch.zeros(work.batch, work.target, dtype=torch.long)
    outputs = model(**_padded(model, work), decoder_input_ids=targets, use_cache=False)
    return summed_loss(outputs, targets)
