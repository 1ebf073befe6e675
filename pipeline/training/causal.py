"""Fine-tune causal students: the program that ``accelerate launch`` runs.

    accelerate launch -m pipeline.training.causal RECIPE [key=value …] [--style react]

One student a style of ``export.styles``, written to ``<checkpoint root>/<run>/<style>``. A finished
style is skipped; an interrupted one goes on from its newest whole checkpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from datasets import Dataset
from transformers import TrainerCallback

from pipeline.models.transformers_load import pick_dtype
from pipeline.recipe.models import TrainRecipe
from pipeline.rendering.tokens import stop_token
from pipeline.training.adapter import hold_in_float32, load_base, with_adapter
from pipeline.training.checkpoint import serve_stop
from pipeline.training.data import DataReport, load_rows
from pipeline.training.documents import separate_documents
from pipeline.training.launch import CAUSAL
from pipeline.training.packing import Block, PackedCollator, PaddedCollator, build_blocks
from pipeline.training.program import Job, Program, run
from pipeline.training.progress import say
from pipeline.training.sharding import unsharded
from pipeline.training.trainer import StudentTrainer, trainer_config


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit status (2 for bad input, 130 when interrupted)."""
    return run(Program(CAUSAL, __doc__ or "", _prepare), arguments)


def _prepare(job: Job, callbacks: list[TrainerCallback]) -> tuple[StudentTrainer, DataReport]:
    dtype = pick_dtype(job.train.dtype)
    with unsharded():
        model, tokenizer = load_base(job.address, job.train, dtype)
    if job.export.renderer != "text":
        serve_stop(model, stop_token(tokenizer))
    blocks, report = _blocks(job, tokenizer, "train.jsonl")
    for line in report.lines():
        say(f"{job.style}: {line}")
    dev = _blocks(job, tokenizer, "dev.jsonl")[0] if job.has_dev else None
    base = model
    if job.train.lora is not None:
        model = with_adapter(base, job.train.lora)
    config = trainer_config(
        job.train,
        job.steps,
        job.name,
        bf16=dtype is torch.bfloat16,
        parameters=model.num_parameters(),  # of four bits, two are in one element
        evaluates=dev is not None,
    )
    trainer = StudentTrainer(
        label_only=job.train.label_only_head,
        model=model,
        args=config,
        train_dataset=Dataset.from_list(blocks),
        eval_dataset=Dataset.from_list(dev) if dev else None,
        data_collator=_collator(job.train, base, tokenizer),
        processing_class=tokenizer,
        callbacks=callbacks,
    )
    if job.train.lora is not None and job.train.lora.quantize:
        hold_in_float32(model)
    return trainer, report


def _blocks(job: Job, tokenizer: Any, name: str) -> tuple[list[Block], DataReport]:
    rows, report = load_rows(job.rows / name, job.export.format, tokenizer, job.train.max_length)
    return build_blocks(rows, job.train.max_length, job.train.seed, packing=job.train.packing), report


def _collator(train: TrainRecipe, model: Any, tokenizer: Any) -> PackedCollator | PaddedCollator:
    if train.packing:
        return PackedCollator(documents=separate_documents(model))
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    return PaddedCollator(pad or 0)


if __name__ == "__main__":
    sys.exit(main())
