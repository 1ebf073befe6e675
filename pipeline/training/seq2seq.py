"""Fine-tune encoder-decoder students (SWIFT): the program that ``accelerate launch`` runs.

    accelerate launch -m pipeline.training.seq2seq RECIPE [key=value …] [--style act]

One student a style of a dataset in the format ``swift``, written to ``<checkpoint root>/<run>/<style>``.
A finished style is skipped; an interrupted one goes on from its newest whole checkpoint. A base of the
kind ``new:<config.json>`` is made on the spot, and kept in ``<style>.start`` as it was before training.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from transformers import TrainerCallback

from pipeline.errors import RecipeError
from pipeline.models.addresses import resolve
from pipeline.models.transformers_load import load_seq2seq, pick_dtype
from pipeline.training import scratch
from pipeline.training.launch import SEQ2SEQ
from pipeline.training.program import Job, Program, run
from pipeline.training.progress import say
from pipeline.training.seq2seq_data import EncodedExample, Seq2SeqCollator, Seq2SeqReport, load_examples
from pipeline.training.seq2seq_trainer import ExampleTrainer, seq2seq_config
from pipeline.training.sharding import unsharded


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit status (2 for bad input, 130 when interrupted)."""
    return run(Program(SEQ2SEQ, __doc__ or "", _prepare), arguments)


def _prepare(job: Job, callbacks: list[TrainerCallback]) -> tuple[ExampleTrainer, Seq2SeqReport]:
    if job.train.lora is not None:
        raise RecipeError("train.lora: an encoder-decoder is trained with all its weights; remove the key")
    with unsharded():
        model, tokenizer = _load(job)
    start = _serve_plainly(model, tokenizer)
    rows, report = _rows(job, tokenizer, "train.jsonl")
    for line in report.lines():
        say(f"{job.style}: {line}")
    dev = _rows(job, tokenizer, "dev.jsonl")[0] if job.has_dev else None
    config = seq2seq_config(
        job.train,
        job.steps,
        job.name,
        bf16=pick_dtype(job.train.dtype) is torch.bfloat16,
        parameters=model.num_parameters(),
        evaluates=dev is not None,
    )
    trainer = ExampleTrainer(
        model=model,
        args=config,
        train_dataset=rows,
        eval_dataset=dev,
        data_collator=Seq2SeqCollator(tokenizer.pad_token_id, start),
        processing_class=tokenizer,
        callbacks=callbacks,
    )
    return trainer, report


def _load(job: Job) -> tuple[Any, Any]:
    """The model to start from, in float32: bfloat16 cannot hold the small steps of fine-tuning."""
    if resolve(job.address).kind == "new":
        return scratch.start(job)
    return load_seq2seq(job.address, torch.float32, "cpu")


def _rows(job: Job, tokenizer: Any, name: str) -> tuple[list[EncodedExample], Seq2SeqReport]:
    return load_examples(job.rows / name, tokenizer, job.train.max_length, job.train.target_length)


def _serve_plainly(model: Any, tokenizer: Any) -> int:
    """Make plain generation start and end as training does; returns what the decoder starts from.

    Raises:
        RecipeError: the tokeniser has no padding.
    """
    if tokenizer.pad_token_id is None:
        raise RecipeError("train.model: the tokeniser has no padding token; use one of T5's kind")
    if model.config.decoder_start_token_id is None:
        model.config.decoder_start_token_id = tokenizer.pad_token_id
    start: int = model.config.decoder_start_token_id
    model.generation_config.decoder_start_token_id = start
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return start


if __name__ == "__main__":
    sys.exit(main())
