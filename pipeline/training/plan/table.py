"""A plan as lines of at most 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from pipeline.training.plan.gpus import GB
from pipeline.training.plan.plan import Plan, gigabytes

WIDTH = 80
_PARTS = {
    "weights": "weights",
    "reference": "a frozen copy to compare with",
    "gradients": "gradients",
    "optimizer": "optimiser",
    "communication": "buffers to send gradients",
    "gathered": "weights gathered for use",
    "activations": "activations and logits",
    "reserve": "CUDA, NCCL, fragmentation",
}


def lines(plan: Plan, name: str) -> Iterator[str]:
    """The plan of the recipe of that name, for people."""
    machine, gpu = plan.machine, plan.machine.gpu
    title = f"{name}: {machine.gpus} × {gpu.name}, {gpu.memory / GB:g} GB, {gpu.flops / 1e12:g} TFLOP/s"
    yield from textwrap.wrap(f"{title}, sharding {machine.sharding.name}", WIDTH)
    yield ""
    yield from _student(plan)
    yield ""
    yield from _memory(plan)
    yield ""
    yield from _time(plan)


def _student(plan: Plan) -> Iterator[str]:
    counts, train = plan.counts, plan.train
    yield _row("model", plan.base.name)
    bare = counts.total - counts.embedding
    yield _row("parameters", f"{counts.total:,} ({bare:,} without embeddings)")
    how = f"LoRA of rank {train.lora.rank}" if train.lora else "every weight"
    how += ", base in 4 bits" if train.lora and train.lora.quantize else ""
    yield _row("trained", f"{counts.trained:,} ({how})")
    lengths = f"{train.max_length:,} tokens"
    lengths += f" and targets of {train.target_length}" if plan.base.encoder_decoder else ""
    yield _row("a pass", f"{train.batch_size} {_kind(plan)} of {'2 × ' if train.dpo else ''}{lengths}")
    yield _row("activations", "computed twice" if plan.checkpointing else "kept")


def _memory(plan: Plan) -> Iterator[str]:
    yield "GB on each GPU"
    for part, label in _PARTS.items():
        size: float = getattr(plan.memory, part)
        if size:
            yield f"  {label:30}{gigabytes(size):>10}"
    verdict = "fits" if plan.fits else "DOES NOT FIT"
    total, there = gigabytes(plan.memory.total), gigabytes(plan.machine.gpu.memory)
    yield f"  {'in all':30}{total:>10}  of {there}: {verdict}"
    if plan.memory.host:
        yield f"GB of host memory, all GPUs{gigabytes(plan.memory.host):>15}"


def _time(plan: Plan) -> Iterator[str]:
    yield _row("data", plan.data.source)
    passes = f"{plan.train.batch_size} × {plan.passes} × {plan.machine.gpus}"
    step = f"{plan.rows_per_step:,} {_kind(plan)}, {plan.tokens_per_step:,.0f} tokens"
    yield _row("a step", f"{passes} = {step}")
    share = f"{plan.machine.utilisation:.0%} of the peak, an assumption"
    yield _row("speed", f"{plan.tokens_per_second:,.0f} tokens/s ({share})")
    if plan.steps is None or plan.hours is None:
        yield _row("steps", "unknown: say --rows and --tokens-per-row, or train.max_steps")
        return
    yield _row("steps", f"{plan.steps:,}")
    yield _row("time", f"{plan.hours:.2f} h, {plan.hours * plan.machine.gpus:.2f} GPU hours")
    if plan.cost is not None:
        yield _row("cost", f"{plan.cost:,.2f} at {plan.machine.price:g} a GPU hour")


def _kind(plan: Plan) -> str:
    """What a pass is counted in."""
    if plan.train.dpo:
        return "pairs"
    return "blocks" if plan.train.packing else "rows"


def _row(label: str, text: str) -> str:
    return "\n".join(textwrap.wrap(f"{label:15}{text}", WIDTH, subsequent_indent=" " * 15))
