"""Two ranks that train a sharded model by PyTorch's ``fully_shard``: a program for ``test_fsdp2``.

    python -m tests.training.fsdp2_ranks FOLDER

Each case is trained in turn. Rank N writes ``FOLDER/<case>-<N>.json``; rank 0 saves the student, whole, in
``FOLDER/<case>``. The ranks are forked, so that the libraries are loaded once. The environment says, as
``accelerate launch`` does, how accelerate's own sharding is laid out.
"""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import torch
import torch.distributed as dist
from accelerate.utils import FullyShardedDataParallelPlugin
from accelerate.utils.fsdp_utils import fsdp2_prepare_model
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from transformers import LlamaForCausalLM

from pipeline.rendering.tokens import IGNORE
from pipeline.training import head
from pipeline.training.sharding import weights_held
from pipeline.training.trainer import keep_outputs
from tests.training.forking import fork_ranks
from tests.training.making import make_model

RANKS, STEPS, ROWS, VOCABULARY = 2, 4, 4, 60
WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)


class Case(NamedTuple):
    """A way to lay out a model over the ranks."""

    accelerate: bool = False
    """As accelerate does, with units of their own for the ends; else each layer, and the model."""
    tied: bool = True
    logits: int = head.LOGITS_AT_ONCE
    twice: bool = False
    """Whether activations are computed again, as the trainer has it done."""
    bf16: bool = False
    """Whether accelerate computes in bfloat16."""


CASES = {
    "plain": Case(),
    "plain_parts": Case(logits=4 * VOCABULARY),
    "accelerate": Case(accelerate=True),
    "accelerate_parts": Case(accelerate=True, logits=4 * VOCABULARY),
    "accelerate_untied": Case(accelerate=True, tied=False, logits=4 * VOCABULARY),
    "accelerate_twice": Case(accelerate=True, logits=4 * VOCABULARY, twice=True),
    "accelerate_bf16": Case(accelerate=True, logits=4 * VOCABULARY, bf16=True),
}


def student(case: Case) -> Any:
    model = make_model(VOCABULARY)
    if not case.tied:
        model.config.tie_word_embeddings = False
        torch.manual_seed(1)
        model = LlamaForCausalLM(model.config)
    if case.twice:
        model.activation_checkpointing_enable()
    head.add_label_head(model)
    return model.train()


def rows(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The ids and labels of a step. In the third, the rows of the second rank hold no label."""
    made = torch.Generator().manual_seed(step)
    ids = torch.randint(1, VOCABULARY, (ROWS, 16), generator=made)
    labels = ids.masked_fill(torch.rand(ids.shape, generator=made) < 0.4, IGNORE)
    if step == 2:
        labels[1::RANKS] = IGNORE
    return ids, labels


def shard(model: Any, case: Case) -> None:
    if case.accelerate:
        plugin = FullyShardedDataParallelPlugin()
        if case.bf16:
            plugin.set_mixed_precision("bf16")
            keep_outputs(plugin)
        precision = "bf16" if case.bf16 else "no"
        state = SimpleNamespace(fsdp_plugin=plugin)
        of = SimpleNamespace(state=state, mixed_precision=precision, is_main_process=False)
        fsdp2_prepare_model(of, model)
        return
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)


def total(value: torch.Tensor, ranks: int) -> float:
    value = value.detach().clone()
    if ranks > 1:
        dist.all_reduce(value)
    return value.item()


def train(model: Any, rank: int = 0, ranks: int = 1) -> dict[str, list[float]]:
    """After each step its loss and gradient norm, and the loss of the next one's rows in evaluation."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    log: dict[str, list[float]] = {"loss": [], "norm": [], "development": []}
    for step in range(STEPS):
        ids, labels = rows(step)
        count = (labels[:, 1:] != IGNORE).sum()
        mine = {"input_ids": ids[rank::ranks], "labels": labels[rank::ranks]}
        summed = model(**mine, use_cache=False, label_only=True).loss
        assert summed.dtype is torch.float32
        # As StudentTrainer.compute_loss: gradients are averaged, while the count covers all ranks.
        (summed * ranks / count).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        log["loss"].append(total(summed, ranks) / count.item())
        log["norm"].append(norm.full_tensor().item() if isinstance(norm, DTensor) else norm.item())
        optimizer.step()
        optimizer.zero_grad()
        log["development"].append(evaluate(model, step + 1, rank, ranks))
    return log


def evaluate(model: Any, step: int, rank: int, ranks: int) -> float:
    ids, labels = rows(step)
    model.eval()
    with torch.no_grad():
        mine = {"input_ids": ids[rank::ranks], "labels": labels[rank::ranks]}
        summed = model(**mine, use_cache=False, label_only=True).loss
    model.train()
    return total(summed, ranks) / (labels[:, 1:] != IGNORE).sum().item()


def held(model: Any) -> dict[str, list[int]]:
    """Of each parameter: its elements, and those of this rank; 0 where it is not sharded."""
    return {
        name: [weight.numel(), weight.to_local().numel() if isinstance(weight, DTensor) else 0]
        for name, weight in model.named_parameters()
    }


def run(name: str, case: Case, folder: Path, rank: int) -> None:
    model = student(case)
    shard(model, case)
    before, kept = held(model), weights_held(model)
    with mock.patch.object(head, "label_loss", functools.partial(head.label_loss, at_once=case.logits)):
        log = train(model, rank, RANKS)
    # The last evaluation leaves some weights gathered; they are saved all the same, as the Trainer does.
    state = get_model_state_dict(model, options=WHOLE)
    if rank == 0:
        model.save_pretrained(folder / name, state_dict=state)
    (folder / f"{name}-{rank}.json").write_text(json.dumps({"log": log, "held": before, "kept": kept}))
    dist.barrier()


def start(rank: int, folder: Path) -> int:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=RANKS)
    for name, case in CASES.items():
        run(name, case, folder, rank)
    dist.destroy_process_group()
    return 0


def main(folder: Path) -> int:
    statuses = fork_ranks(RANKS, lambda rank: start(rank, folder))
    print("statuses", *statuses, file=sys.stderr, flush=True)
    return int(any(statuses))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
