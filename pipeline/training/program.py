"""What every training program has in common: its jobs, their resumption, and the students' folders."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from transformers import TrainerCallback, TrainerState, set_seed
from transformers.utils import logging as transformers_logging

from pipeline.errors import StaractError, TrainingError
from pipeline.models.addresses import read_stamp, resolve
from pipeline.recipe.load import load_recipe
from pipeline.recipe.models import Recipe, TrainRecipe
from pipeline.training import checkpoint, steps, tracking
from pipeline.training.card import write_card
from pipeline.training.episodes import Episodes
from pipeline.training.identity import identity_of, sha256
from pipeline.training.kept import Keep
from pipeline.training.launch import STATUS, module_for
from pipeline.training.layout import accumulation, use_one_gpu, world_size
from pipeline.training.progress import ProgressCallback, StopCallback, say
from pipeline.training.rows import Export
from pipeline.training.sharding import weights_held
from pipeline.training.subsets import find_subsets
from pipeline.training.watch import Watch
from pipeline.trajectories.files import write_json
from pipeline.trajectories.schema import digest


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
    def name(self) -> str:
        """What the student is called."""
        return f"{self.recipe.name}-{self.style}"

    @property
    def rows(self) -> Path:
        """The folder of the style's rows."""
        return self.dataset / self.style

    @property
    def has_dev(self) -> bool:
        """Whether rows were held out."""
        return (self.rows / "dev.jsonl").is_file()

    @property
    def steps(self) -> Path:
        """Where intermediate checkpoints are kept until the student is finished."""
        return self.folder.with_name(f"{self.style}.steps")

    @property
    def kept(self) -> Path:
        """Where the model of every checkpoint stays, if the recipe asks for it."""
        return self.folder.with_name(f"{self.style}.checkpoints")

    @property
    def start(self) -> Path:
        """Where a model is kept as it was before training, if it is trained from nothing."""
        return self.folder.with_name(f"{self.style}.start")

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the outcome."""
        part: dict[str, Any] = {
            "renderer": self.export.renderer,
            "renderer_version": self.export.renderer_version,
            "spec_digest": self.export.styles[self.style].get("spec_digest", ""),
        }
        if self.export.history is not None:
            part["history"] = self.export.history
        address = resolve(self.address)
        if address.kind == "new":
            part["config"] = sha256(Path(address.name))
        if self.train.dpo is not None and address.kind == "folder":
            # The student that is corrected may be trained anew in the same folder.
            part["start"] = read_stamp(Path(address.name)).get("digest", "")
        return identity_of(self.train, self.address, self.style, part, self.dataset)


class Report(Protocol):
    """What became of the rows."""

    rows_kept: int
    tokens: int
    labelled_tokens: int

    def lines(self) -> list[str]:
        """For people."""
        ...

    def as_dict(self) -> dict[str, int]:
        """For ``train.json``."""
        ...


@dataclass(frozen=True)
class Program:
    """One kind of training.

    ``prepare`` makes the trainer of a job, with the given callbacks, and says what became of the rows.
    """

    module: str
    about: str
    prepare: Callable[[Job, list[TrainerCallback]], tuple[Any, Report]]


def run(program: Program, arguments: Sequence[str] | None = None) -> int:
    """Run a program; returns its exit status (2 for bad input, 130 when interrupted)."""
    options = _parser(program).parse_args(arguments)
    use_one_gpu()
    try:
        recipe = load_recipe(options.recipe, options.overrides)
        done = train_styles(program, recipe, options.run_root, options.checkpoint_root, options.style)
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


def train_styles(
    program: Program, recipe: Recipe, runs: Path, checkpoints: Path, only: str | None = None
) -> bool:
    """Train the students of a recipe, one after the other; False when a signal stopped one.

    Args:
        program: how to train.
        recipe: the recipe.
        runs: the folder of run folders (the dataset lies in ``<runs>/<name>/dataset``).
        checkpoints: the folder of checkpoints.
        only: one style; None trains all.

    Raises:
        StaractError: the recipe, the dataset, the model or a folder is unusable.
    """
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    return all(train_style(program, job) for job in _jobs(program, recipe, runs, checkpoints, only))


def train_style(program: Program, job: Job) -> bool:
    """Train one student and write its folder; False when a signal stopped it.

    Raises:
        StaractError: as ``train_styles``.
    """
    wanted = job.identity
    if checkpoint.finished(job.folder, wanted):
        say(f"{job.folder}: trained already from the same recipe and dataset; nothing to do")
        return True
    newest = steps.open_steps(job.steps, wanted)
    if job.train.keep_checkpoints:
        steps.open_steps(job.kept, wanted)
    set_seed(job.train.seed)
    stop = StopCallback()
    with Episodes.of(job.recipe, job.steps) as episodes:
        watch = Watch(job.train, job.steps, episodes, has_dev=job.has_dev)
        callbacks: list[TrainerCallback] = [ProgressCallback(), steps.WholeCallback(), stop, watch]
        trainer, report = program.prepare(job, callbacks)
        if job.train.tracker != "none":
            trainer.add_callback(tracking.Tracker(_tracked(job, report, wanted), watch))
        stop.install()
        describe = partial(_describe, job, trainer, report, wanted)
        started = time.monotonic()
        with steps.saving(job.steps):
            _go(job, trainer, watch, describe, newest)
        if stop.stopped:
            at = trainer.state.global_step
            say(f"{job.style}: stopped at step {at}; the same command goes on from there")
            return False
    _finish(job, trainer, report, watch, describe, time.monotonic() - started)
    return True


def _go(job: Job, trainer: Any, watch: Watch, describe: Callable[[Path], Any], newest: Path | None) -> None:
    """Train, from the newest checkpoint on if there is one."""
    keep = Keep(job.kept, job.train.save_every or 1, describe) if job.train.keep_checkpoints else None
    if keep is not None:
        trainer.add_callback(keep)
    if newest is not None:
        say(f"{job.style}: going on from {newest}")
        trainer.state = TrainerState.load_from_json(str(newest / "trainer_state.json"))
        # The file was written by the first process.
        trainer.state.is_world_process_zero = trainer.is_world_process_zero()
        if keep is not None:
            keep.take_up(newest, trainer.state)
        watch.take_up(newest, trainer.state)
    if not watch.exhausted:
        trainer.train(resume_from_checkpoint=str(newest) if newest else None)


def _jobs(program: Program, recipe: Recipe, runs: Path, checkpoints: Path, only: str | None) -> list[Job]:
    found = find_subsets(recipe, runs, only)
    accumulation(found.train, world_size())  # refused before a model is loaded
    tracking.check(found.train)
    if (wanted := module_for(found.export.format, pairs=found.export.pairs)) != program.module:
        kind = found.export.format
        raise TrainingError(f"{found.dataset} holds rows of the format {kind!r}: train them with {wanted}")
    root = checkpoints / recipe.name
    jobs = [
        Job(recipe, found.train, found.export, style, found.dataset, root / style) for style in found.styles
    ]
    for job in jobs:
        if found.train.stop_on == "loss" and not job.has_dev:
            raise TrainingError(f"train.stop_on: {job.rows} holds no dev.jsonl; set export.dev_fraction")
    return jobs


def _describe(job: Job, trainer: Any, report: Report, wanted: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write the stamp of a model that was saved into a folder."""
    counts = {"rows": report.rows_kept, "tokens": report.tokens, "labelled_tokens": report.labelled_tokens}
    return checkpoint.describe(folder, trainer.processing_class, wanted, counts, job.train.seed)


def _tracked(job: Job, report: Report, wanted: dict[str, Any]) -> tracking.Tracked:
    tokens, labelled = report.tokens / report.rows_kept, report.labelled_tokens / report.tokens
    identity = digest(wanted)
    return tracking.Tracked(job.recipe, job.train, job.name, identity, job.steps, tokens, labelled)


def _finish(
    job: Job,
    trainer: Any,
    report: Report,
    watch: Watch,
    describe: Callable[[Path], dict[str, Any]],
    seconds: float,
) -> None:
    scratch = job.steps / "final"
    # Training may have turned the cache off in the config; whoever serves the student wants it.
    trainer.model.config.use_cache = True
    with steps.saving(job.steps):
        if watch.best_folder is None:
            trainer.save_model(str(scratch))
        elif trainer.is_world_process_zero():
            trainer.model.config.save_pretrained(scratch)
    if trainer.is_world_process_zero():
        log = _log(trainer, report, watch, seconds)
        checkpoint.save_stops(trainer.model, scratch)
        with checkpoint.new_folder(job.folder) as fresh:
            checkpoint.move_model(scratch, fresh, watch.best_folder)
            stamp = describe(fresh)
            write_json(fresh / "train.json", log)
            write_card(fresh, job.name, stamp, log)
        steps.remove(job.steps)
        say(f"{job.folder}: {report.rows_kept} rows, {len(log['steps'])} logs, {seconds:.0f} s")
    trainer.accelerator.wait_for_everyone()


def _log(trainer: Any, report: Report, watch: Watch, seconds: float) -> dict[str, Any]:
    history: list[dict[str, Any]] = trainer.state.log_history
    weights, held = weights_held(trainer.model)
    return {
        "steps": [entry for entry in history if "loss" in entry],
        "development": [entry for entry in history if "eval_loss" in entry],
        **watch.as_dict(),
        "data": report.as_dict(),
        "seconds": round(seconds, 2),
        "processes": trainer.accelerator.num_processes,
        "distributed": str(trainer.accelerator.distributed_type.value),
        "weights": weights,
        "weights_per_process": held,
        "device": str(trainer.accelerator.device),
        "threads": torch.get_num_threads(),
        "mixed_precision": trainer.accelerator.mixed_precision,
    }


def _parser(program: Program) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"accelerate launch -m {program.module}", description=program.about)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--run-root", type=Path, default=Path("trajectories"))
    parser.add_argument("--checkpoint-root", type=Path, default=Path("checkpoints"))
    parser.add_argument("--style")
    return parser
