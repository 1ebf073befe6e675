"""Let students prefer what led to success: the program that ``accelerate launch`` runs on pairs.

    accelerate launch -m pipeline.training.preference RECIPE [key=value …] [--style react]

Direct preference optimisation (Rafailov et al. 2023) on a dataset that ``export.pairs`` wrote. The model that
``train.model`` names is corrected, and is what the correction is measured against; an adapter is merged into
its base in memory first, so that a fresh one starts where it ended. Folders, resumption and stamps are those
of every training.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import TrainerCallback

from pipeline.errors import RecipeError
from pipeline.models.addresses import read_stamp, resolve
from pipeline.models.transformers_load import pick_dtype
from pipeline.recipe.models import DpoRecipe
from pipeline.rendering.tokens import stop_token
from pipeline.training.adapter import hold_in_float32, load_base, with_adapter
from pipeline.training.checkpoint import serve_stop
from pipeline.training.launch import PREFERENCE
from pipeline.training.preference_data import (
    Preference,
    PreferenceCollator,
    PreferenceReport,
    load_preferences,
)
from pipeline.training.preference_trainer import PreferenceTrainer, preference_config, reference_of
from pipeline.training.program import Job, Program, run
from pipeline.training.progress import say
from pipeline.training.sharding import unsharded


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit status (2 for bad input, 130 when interrupted)."""
    return run(Program(PREFERENCE, __doc__ or "", _prepare), arguments)


def _prepare(job: Job, callbacks: list[TrainerCallback]) -> tuple[PreferenceTrainer, PreferenceReport]:
    _check_student(job)
    dtype = pick_dtype(job.train.dtype)
    with unsharded():
        model, tokenizer = load_base(job.address, job.train, dtype)
    if job.export.renderer != "text":
        serve_stop(model, stop_token(tokenizer))
    rows, report = _pairs(job, tokenizer, "train.jsonl")
    for line in report.lines():
        say(f"{job.style}: {line}")
    dev = _pairs(job, tokenizer, "dev.jsonl")[0] if job.has_dev else None
    reference = reference_of(model, job.train)
    if job.train.lora is not None:
        model = with_adapter(model, job.train.lora)
    trainer = PreferenceTrainer(
        dpo=job.train.dpo or DpoRecipe(),
        label_only=job.train.label_only_head,
        model=model,
        ref_model=reference,
        args=preference_config(
            job.train,
            job.steps,
            job.name,
            bf16=dtype is torch.bfloat16,
            parameters=model.num_parameters(),
            evaluates=dev is not None,
        ),
        train_dataset=Dataset.from_list(rows),
        eval_dataset=Dataset.from_list(dev) if dev else None,
        data_collator=PreferenceCollator(_pad(tokenizer)),
        processing_class=tokenizer,
        callbacks=callbacks,
    )
    if job.train.lora is not None and job.train.lora.quantize:
        hold_in_float32(model)
    return trainer, report


def _check_student(job: Job) -> None:
    """Refuse a student that is served otherwise than the pairs are written.

    Raises:
        RecipeError: its renderer, style or prompt is another.
    """
    found = resolve(job.address)
    stamp = read_stamp(Path(found.name)) if found.kind == "folder" else {}
    wanted = {**job.identity, "style": job.style}
    for key in ("renderer", "renderer_version", "style", "spec_digest"):
        if key in stamp and stamp[key] != wanted[key]:
            raise RecipeError(
                f"train.model: {job.address} was trained with {key} {stamp[key]!r}, and the pairs are "
                f"written with {wanted[key]!r}; export them for that student, or train another"
            )


def _pairs(job: Job, tokenizer: Any, name: str) -> tuple[list[Preference], PreferenceReport]:
    return load_preferences(job.rows / name, job.export.format, tokenizer, job.train.max_length)


def _pad(tokenizer: Any) -> int:
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    return pad or 0


if __name__ == "__main__":
    sys.exit(main())
