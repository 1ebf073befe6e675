"""How near the memory model of `staract plan` comes to what torch really allocates.

    python benchmarks/memory_model.py [--json FILE]

Small random models take real training steps on the processor: the project's own batches, attention and
loss head, AdamW as the trainer uses it. Measured is the highest sum of bytes that torch's allocator has
given out at any moment of an optimiser step, as its profiler notes every allocation; predicted is what
the plan says of the same step from the config alone. What only a GPU has (context, NCCL, fragmentation,
sharding) is not measured here.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from transformers import AutoConfig

from pipeline.recipe.models import DpoRecipe, LoraRecipe, TrainRecipe
from pipeline.training.documents import separate_documents
from pipeline.training.head import add_label_head
from pipeline.training.plan.memory import memory_of
from pipeline.training.plan.sharding import SHARDINGS
from pipeline.training.plan.student import Base, build, count, inner
from pipeline.training.plan.trace import Work, trace
from pipeline.training.preference_head import add_logps_head
from pipeline.training.preference_trainer import pair_losses, reference_of
from pipeline.training.seq2seq_trainer import summed_loss

PLAIN = Work(
    batch=2,
    length=256,
    target=16,
    packing=True,
    label_only=True,
    labelled=0.4,
    lora=None,
    half=False,
    autocast=False,
    uniform=False,
    checkpointing=False,
    gpu=False,
)


@dataclass(frozen=True)
class Case:
    """A model and a way to train it."""

    name: str
    base: Base
    work: Work
    accumulation: int = 1


def llama(width: int, layers: int, vocabulary: int = 4000, kind: str = "llama", **rest: Any) -> Base:
    values = {
        "hidden_size": width,
        "intermediate_size": 3 * width,
        "num_hidden_layers": layers,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "vocab_size": vocabulary,
        "tie_word_embeddings": False,
        **rest,
    }
    return Base(AutoConfig.for_model(kind, **values), f"{kind}-{width}x{layers}")


def t5(width: int, layers: int, vocabulary: int = 4000) -> Base:
    config = AutoConfig.for_model(
        "t5",
        d_model=width,
        d_kv=32,
        d_ff=3 * width,
        num_layers=layers,
        num_heads=8,
        vocab_size=vocabulary,
        decoder_start_token_id=0,
    )
    return Base(config, f"t5-{width}x{layers}")


def cases() -> Iterator[Case]:
    small, middle = llama(128, 4), llama(384, 6)
    yield Case("packed", small, PLAIN)
    yield Case("packed, longer", small, replace(PLAIN, batch=4, length=512))
    yield Case("packed, short", middle, replace(PLAIN, batch=1, length=128))
    yield Case("packed", middle, PLAIN)
    yield Case("padded", middle, replace(PLAIN, packing=False))
    yield Case("accumulation 2", middle, PLAIN, accumulation=2)
    yield Case("all logits", small, replace(PLAIN, label_only=False, packing=False))
    yield Case("checkpointing", middle, replace(PLAIN, batch=4, length=512, checkpointing=True))
    yield Case("bfloat16 autocast", middle, replace(PLAIN, autocast=True))
    lora = replace(PLAIN, lora=LoraRecipe(), half=True, autocast=True)
    yield Case("LoRA, bfloat16", middle, lora)
    yield Case("preference", middle, replace(PLAIN, batch=4, packing=False, preference=True))
    yield Case("preference, LoRA", middle, replace(lora, batch=4, packing=False, preference=True))
    tied = llama(256, 4, 16000, "qwen3", tie_word_embeddings=True, head_dim=32)
    yield Case("tied, big vocabulary", tied, replace(PLAIN, length=512))
    examples = replace(PLAIN, packing=False)
    yield Case("examples", t5(128, 3), replace(examples, batch=8, length=128))
    yield Case("examples, longer", t5(192, 4), replace(examples, batch=4, length=512))
    yield Case("examples, large", t5(384, 6), replace(examples, batch=2, length=128))


def predicted(case: Case) -> float:
    counts = count(case.base, case.work.lora)
    moment = trace(case.base, case.work)
    return memory_of(counts, moment, case.work, SHARDINGS["none"], 1, case.accumulation).tensors


def measured(case: Case) -> float:
    """Peak bytes of the second optimiser step; in the first, the optimiser has no state yet."""
    torch.manual_seed(0)
    work = case.work
    dtype = torch.bfloat16 if work.half else torch.float32
    model = build(case.base, dtype=dtype, lora=work.lora, checkpointing=work.checkpointing)
    reference = reference_of(model, TrainRecipe(lora=work.lora)) if work.preference else None
    add_heads(case, model, reference)
    batch = seq2seq_batch(case) if case.base.encoder_decoder else causal_batch(case, model)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, fused=True)
    optimizer_step(case, model, reference, optimizer, batch)
    held = [one for each in (model, reference) if each for one in (*each.parameters(), *each.buffers())]
    held += [one for state in optimizer.state.values() for one in state.values() if torch.is_tensor(one)]
    start = sum(one.untyped_storage().nbytes() for one in {id(one): one for one in held}.values())
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        optimizer_step(case, model, reference, optimizer, batch)
    return start + highest(seen)


def add_heads(case: Case, model: Any, reference: Any) -> None:
    if case.work.preference:
        for one in (model, reference) if reference else (model,):
            add_logps_head(one)
    elif case.work.label_only and not case.base.encoder_decoder:
        add_label_head(model)


def highest(seen: Any) -> int:
    """The highest sum of what was allocated since the profile began."""
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def optimizer_step(case: Case, model: Any, reference: Any, optimizer: Any, batch: dict[str, Any]) -> None:
    for _ in range(case.accumulation):
        with torch.autocast("cpu", torch.bfloat16, enabled=case.work.autocast):
            loss = loss_of(case, model, reference, batch)
        loss.backward()
        del loss
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def loss_of(case: Case, model: Any, reference: Any, batch: dict[str, Any]) -> torch.Tensor:
    if case.base.encoder_decoder:
        outputs = model(**{name: value for name, value in batch.items() if name != "labels"}, use_cache=False)
        return summed_loss(outputs, batch["labels"])
    if case.work.preference:
        return preference_loss(model, reference, batch)
    only = {"label_only": True} if case.work.label_only else {}
    return model(**batch, use_cache=False, **only).loss


def preference_loss(model: Any, reference: Any, batch: dict[str, Any]) -> torch.Tensor:
    """As PreferenceTrainer: the model's own log-probabilities, then those that it is measured against."""
    asked = {**batch, "use_cache": False, "row_logps": True}
    policy = model(**asked).logits
    with torch.no_grad(), contextlib.nullcontext() if reference else model.disable_adapter():
        before = (reference or model)(**asked).logits
    words = (batch["labels"] != -100).sum(dim=1)
    return pair_losses(policy, before, words, DpoRecipe()).sum()


def causal_batch(case: Case, model: Any) -> dict[str, Any]:
    work = case.work
    shape = (1, work.batch * work.length) if work.packing else (work.batch, work.length)
    ids = torch.randint(3, 1000, shape)
    labels = torch.where(torch.rand(shape) < work.labelled, ids, -100)
    batch: dict[str, Any] = {"input_ids": ids, "labels": labels}
    if not work.packing:
        mask = torch.ones_like(ids)
        mask[0, -1] = 0
        return {**batch, "attention_mask": mask}
    batch["position_ids"] = torch.arange(work.length).repeat(work.batch)[None]
    if separate_documents(inner(model)):
        batch["document_lengths"] = (work.length,) * work.batch
    return batch


def seq2seq_batch(case: Case) -> dict[str, Any]:
    work = case.work
    ids = torch.randint(3, 1000, (work.batch, work.length))
    mask = torch.ones_like(ids)
    mask[0, -1] = 0
    targets = torch.randint(3, 1000, (work.batch, work.target))
    return {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": targets, "labels": targets}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(f"{'model':14} {'way':22} {'rows':>10} {'measured MB':>12} {'predicted':>10} {'ratio':>6}")
    rows: list[dict[str, Any]] = []
    for case in cases():
        real, said = measured(case), predicted(case)
        rows.append(
            {
                "model": case.base.name,
                "way": case.name,
                "measured": real,
                "predicted": said,
                "ratio": said / real,
            }
        )
        shape = f"{case.work.batch} x {case.work.length}"
        line = f"{case.base.name:14} {case.name:22} {shape:>10} {real / 1e6:12.1f} {said / 1e6:10.1f}"
        print(f"{line} {said / real:6.3f}", flush=True)
    worst = max((row["ratio"] for row in rows), key=lambda ratio: abs(ratio - 1))
    print(f"furthest from 1: {worst:.3f}")
    if options.json:
        options.json.write_text(json.dumps({"ratio": worst, "rows": rows}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
