"""Fine-tune causal students: the program that ``accelerate launch`` runs.

    accelerate launch -m pipeline.training.causal RECIPE [key=value …] [--style react]

One student a style of ``export.styles``, written to ``<checkpoint root>/<run>/<style>``. A finished
style is skipped; an interrupted one goes on from its newest whole checkpoint.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import set_seed
from transformers.utils import logging as transformers_logging

from pipeline.errors import RecipeError, StaractError, TrainingError
from pipeline.models.transformers_load import load_causal, pick_dtype
from pipeline.recipe.load import load_recipe
from pipeline.recipe.models import LoraRecipe, Recipe, TrainRecipe
from pipeline.rendering.tokens import stop_token
from pipeline.training import checkpoint
from pipeline.training.card import write_card
from pipeline.training.data import DataReport, load_rows
from pipeline.training.documents import separate_documents
from pipeline.training.launch import STATUS
from pipeline.training.packing import Block, PackedCollator, PaddedCollator, build_blocks
from pipeline.training.progress import ProgressCallback, StopCallback, say
from pipeline.training.rows import Export, read_export
from pipeline.training.trainer import StudentTrainer, trainer_config
from pipeline.trajectories.files import write_json


@dataclass(frozen=True)
class Job:
    """One style of one run."""

    recipe: Recipe
    train: TrainRecipe
    export: Export
    style: str
    dataset: Path
    folder: Path

    @property
    def address(self) -> str:
        """Where the base model is."""
        return self.recipe.models[self.train.model].address

    @property
    def steps(self) -> Path:
        """Where intermediate checkpoints are kept until the student is finished."""
        return self.folder.with_name(f"{self.style}.steps")

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the outcome."""
        part = {
            "renderer": self.export.renderer,
            "renderer_version": self.export.renderer_version,
            "spec_digest": self.export.styles[self.style].get("spec_digest", ""),
        }
        return checkpoint.identity(self.train, self.address, self.style, part, self.dataset)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit status (2 for bad input, 130 when interrupted)."""
    options = _parser().parse_args(arguments)
    try:
        recipe = load_recipe(options.recipe, options.overrides)
        done = train_styles(recipe, options.run_root, options.checkpoint_root, options.style)
        status = 0 if done else 130
    except StaractError as error:
        if os.environ.get("RANK", "0") == "0":
            print(f"error: {error}", file=sys.stderr, flush=True)
        status = 2
    except KeyboardInterrupt:
        status = 130
    if STATUS in os.environ and os.environ.get("RANK", "0") == "0":
        Path(os.environ[STATUS]).write_text(str(status), encoding="ascii")
    return status


def train_styles(recipe: Recipe, runs: Path, checkpoints: Path, only: str | None = None) -> bool:
    """Train the students of a recipe, one after the other; False when a signal stopped one.

    Args:
        recipe: the recipe.
        runs: the folder of run folders (the dataset lies in ``<runs>/<name>/dataset``).
        checkpoints: the folder of checkpoints.
        only: one style; None trains all.

    Raises:
        StaractError: the recipe, the dataset, the model or a folder is unusable.
    """
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    return all(train_style(job) for job in _jobs(recipe, runs, checkpoints, only))


def train_style(job: Job) -> bool:
    """Train one student and write its folder; False when a signal stopped it.

    Raises:
        StaractError: as ``train_styles``.
    """
    wanted = job.identity
    if checkpoint.finished(job.folder, wanted):
        say(f"{job.folder}: trained already from the same recipe and dataset; nothing to do")
        return True
    newest = checkpoint.open_steps(job.steps, wanted)
    set_seed(job.train.seed)
    stop = StopCallback()
    trainer, report = _prepare(job, stop)
    if trainer.accelerator.num_processes == 1:
        stop.install()
    if newest is not None:
        say(f"{job.style}: going on from {newest}")
    started = time.monotonic()
    trainer.train(resume_from_checkpoint=str(newest) if newest else None)
    if stop.stopped:
        say(f"{job.style}: stopped at step {trainer.state.global_step}; the same command goes on from there")
        return False
    _finish(job, trainer, report, wanted, time.monotonic() - started)
    return True


def _jobs(recipe: Recipe, runs: Path, checkpoints: Path, only: str | None) -> list[Job]:
    if recipe.train is None:
        raise RecipeError(f"recipe {recipe.name!r} lacks a train section: there is nothing to train")
    if recipe.train.model not in recipe.models:
        raise RecipeError(f"train.model: {recipe.train.model!r} is not one of models")
    if recipe.train.tracker != "none" and importlib.util.find_spec(recipe.train.tracker) is None:
        raise TrainingError(
            f"tracker {recipe.train.tracker!r} is not installed; run: pip install 'staract[tracking]'"
        )
    dataset = runs / (recipe.train.run or recipe.name) / "dataset"
    export = read_export(dataset)
    exported = recipe.export.styles if recipe.export and not recipe.train.run else export.styles
    styles = [only] if only else list(recipe.train.styles or exported)
    for style in styles:
        if style not in export.styles:
            known = ", ".join(export.styles)
            raise TrainingError(f"{dataset} holds no style {style!r} (only {known}); export it as well")
    root = checkpoints / recipe.name
    return [Job(recipe, recipe.train, export, style, dataset, root / style) for style in styles]


def _prepare(job: Job, stop: StopCallback) -> tuple[StudentTrainer, DataReport]:
    dtype = pick_dtype(job.train.dtype)
    # Weights that are trained stay in float32: bfloat16 cannot hold the small steps of fine-tuning.
    weights = torch.float32 if job.train.lora is None else dtype
    model, tokenizer = load_causal(job.address, weights, "cpu")
    if job.export.renderer != "text":
        _serve_stop(model, stop_token(tokenizer))
    blocks, report = _blocks(job, tokenizer, "train.jsonl")
    for line in report.lines():
        say(f"{job.style}: {line}")
    has_dev = (job.dataset / job.style / "dev.jsonl").is_file()
    dev = _blocks(job, tokenizer, "dev.jsonl")[0] if has_dev else None
    base = model
    if job.train.lora is not None:
        model = with_adapter(base, job.train.lora)
    config = trainer_config(
        job.train,
        job.steps,
        f"{job.recipe.name}-{job.style}",
        bf16=dtype is torch.bfloat16,
        parameters=sum(weight.numel() for weight in model.parameters()),
        evaluates=dev is not None,
    )
    if job.train.tracker == "wandb":
        os.environ["WANDB_PROJECT"] = job.train.project
    callbacks = [ProgressCallback(), checkpoint.WholeCallback(), stop]
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
    return trainer, report


def _blocks(job: Job, tokenizer: Any, name: str) -> tuple[list[Block], DataReport]:
    path = job.dataset / job.style / name
    rows, report = load_rows(path, job.export.format, tokenizer, job.train.max_length)
    return build_blocks(rows, job.train.max_length, job.train.seed, packing=job.train.packing), report


def _collator(train: TrainRecipe, model: Any, tokenizer: Any) -> PackedCollator | PaddedCollator:
    if train.packing:
        return PackedCollator(documents=separate_documents(model))
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    return PaddedCollator(pad or 0)


def with_adapter(model: Any, lora: LoraRecipe) -> Any:
    """Wrap a model with a fresh low-rank adapter on every linear layer but the head."""
    settings = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,  # type: ignore[arg-type] - a float works, and scales smoothly
        lora_dropout=lora.dropout,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, settings)


def _serve_stop(model: Any, stop: int) -> None:
    """Make generation end at the token that the template ends a turn with, whoever serves the student."""
    known = model.generation_config.eos_token_id
    ends = known if isinstance(known, list) else [] if known is None else [known]
    if stop not in ends:
        model.generation_config.eos_token_id = [stop, *ends]


def _finish(
    job: Job, trainer: StudentTrainer, report: DataReport, wanted: dict[str, Any], seconds: float
) -> None:
    scratch = job.steps / "final"
    # Training turned the cache off in the config; whoever serves the student wants it.
    model: Any = trainer.model
    model.config.use_cache = True
    trainer.save_model(str(scratch))
    if trainer.is_world_process_zero():
        log = _log(trainer, report, seconds)
        counts = {
            "rows": report.rows_kept,
            "tokens": report.tokens,
            "labelled_tokens": report.labelled_tokens,
        }
        with checkpoint.new_folder(job.folder) as fresh:
            for path in scratch.iterdir():
                # A pickle of this machine's settings is no part of a model.
                if path.name != "training_args.bin":
                    path.rename(fresh / path.name)
            stamp = checkpoint.describe(fresh, trainer.processing_class, wanted, counts, job.train.seed)
            write_json(fresh / "train.json", log)
            write_card(fresh, f"{job.recipe.name}-{job.style}", stamp, log)
        checkpoint.remove(job.steps)
        say(f"{job.folder}: {report.rows_kept} rows, {len(log['steps'])} logs, {seconds:.0f} s")
    trainer.accelerator.wait_for_everyone()


def _log(trainer: StudentTrainer, report: DataReport, seconds: float) -> dict[str, Any]:
    history: list[dict[str, Any]] = trainer.state.log_history
    return {
        "steps": [entry for entry in history if "loss" in entry],
        "development": [entry for entry in history if "eval_loss" in entry],
        "data": report.as_dict(),
        "seconds": round(seconds, 2),
        "processes": trainer.accelerator.num_processes,
        "distributed": str(trainer.accelerator.distributed_type.value),
        "device": str(trainer.accelerator.device),
        "threads": torch.get_num_threads(),
        "mixed_precision": trainer.accelerator.mixed_precision,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="accelerate launch -m pipeline.training.causal", description=__doc__
    )
    parser.add_argument("recipe", type=Path)
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--run-root", type=Path, default=Path("trajectories"))
    parser.add_argument("--checkpoint-root", type=Path, default=Path("checkpoints"))
    parser.add_argument("--style")
    return parser


if __name__ == "__main__":
    sys.exit(main())
