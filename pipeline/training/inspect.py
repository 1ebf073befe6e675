"""What training would see of a recipe's dataset. The tokeniser is loaded, never the weights."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import T5Config
from transformers.utils import logging as transformers_logging

from pipeline.errors import StoreError, TrainingError
from pipeline.models.addresses import check_stamp, load_tokenizer, local_folder, resolve
from pipeline.models.folders import base_address
from pipeline.recipe.models import Recipe, TrainRecipe
from pipeline.training.inspect_findings import Choice, Findings
from pipeline.training.inspect_preference import inspect_preference
from pipeline.training.inspect_rows import inspect_rows
from pipeline.training.inspect_seq2seq import inspect_seq2seq
from pipeline.training.launch import config_file
from pipeline.training.layout import accumulation, processes_and_options
from pipeline.training.subsets import Subsets, find_subsets
from pipeline.trajectories.files import read_json


@dataclass(frozen=True)
class Inspected:
    """One file of one style, and how training would cut it into steps on so many ``devices``."""

    style: str
    name: str
    findings: Findings
    train: TrainRecipe
    devices: int = 1

    @property
    def accumulation(self) -> int:
        """Forward passes of a step on each device."""
        return accumulation(self.train, self.devices)

    @property
    def batch(self) -> int:
        """Blocks (or rows) of an optimiser step, over accumulation and devices."""
        return self.train.batch_size * self.accumulation * self.devices

    @property
    def steps(self) -> int:
        """Optimiser steps of an epoch; the last one may be smaller."""
        return -(-self.findings.units // self.batch)

    @property
    def rows_per_step(self) -> float:
        """Rows of a full step, on average."""
        kept, units = self.findings.report.rows_kept, self.findings.units
        return self.batch * kept / units if units else 0.0

    def figures(self) -> dict[str, Any]:
        """Every count by name, the faults row by row."""
        found, report = self.findings, self.findings.report
        return {
            "rows_unlabelled": found.count("unlabelled"),
            **report.as_dict(),
            "labelled_share": report.labelled_tokens / report.tokens if report.tokens else 0.0,
            "rows_refused": found.count("refused"),
            "rows_without_stop": found.count("stop"),
            "control_ids_in_text": found.control_ids,
            "units": found.units,
            "packing_fill": found.fill,
            "rows_per_step": self.rows_per_step,
            "steps_per_epoch": self.steps,
            "faults": [
                {"kind": one.kind, "row": one.row, "detail": one.detail} for one in self.findings.faults
            ],
        }


@dataclass(frozen=True)
class Inspection(Subsets):
    """What is inspected: the dataset of a recipe, for the model that it trains."""

    def files(self, choice: Choice, devices: int) -> Iterator[Inspected]:
        """Inspect every file of every style, one at a time.

        Args:
            choice: which rows to show (of those held out, only by name).
            devices: how many devices a step is spread over.

        Raises:
            ModelError: there is no tokeniser.
            RecipeError: the rows of a step cannot be split over the devices.
            TrainingError: a file cannot be read, or holds no row.
        """
        accumulation(self.train, devices)
        transformers_logging.set_verbosity_error()
        for style in self.styles:
            tokenizer = self._tokenizer(self.dataset / style)
            yield self._file(style, "train", tokenizer, choice, devices)
            if (self.dataset / style / "dev.jsonl").is_file():
                yield self._file(style, "dev", tokenizer, Choice(0, choice.row), devices)

    def _file(self, style: str, name: str, tokenizer: Any, choice: Choice, devices: int) -> Inspected:
        path = self.dataset / style / f"{name}.jsonl"
        found = self._inspect(path, style, tokenizer, choice)
        if not found.report.rows_read:
            raise TrainingError(f"{path} holds no row; export the dataset again")
        return Inspected(style, name, found, self.train, devices)

    def _inspect(self, path: Path, style: str, tokenizer: Any, choice: Choice) -> Findings:
        if self.export.format == "swift":
            return inspect_seq2seq(path, tokenizer, self.train, choice)
        inspect = inspect_preference if self.export.pairs else inspect_rows
        return inspect(path, self.export.format, style, tokenizer, self.train, choice)

    def _tokenizer(self, rows: Path) -> Any:
        """The base model's own, or the one that training would make of the rows."""
        found = resolve(self.address)
        if found.kind == "new" and self.export.format == "swift":
            from pipeline.training.scratch import build_tokenizer, texts

            return build_tokenizer(texts(rows / "train.jsonl"), _vocabulary(Path(found.name)))
        folder = local_folder(self.address)
        if (folder / "adapter_config.json").is_file() and not (folder / "tokenizer_config.json").is_file():
            return load_tokenizer(local_folder(base_address(folder)))
        tokenizer = load_tokenizer(folder)
        check_stamp(folder, tokenizer)
        return tokenizer


def plan_inspection(recipe: Recipe, runs: Path, only: str | None = None) -> Inspection:
    """What there is to inspect.

    Args:
        recipe: a recipe with a train section.
        runs: the folder of run folders.
        only: one style; None inspects all that would be trained.

    Raises:
        RecipeError: the recipe trains nothing.
        TrainingError: there is no dataset, or it lacks a style.
    """
    return Inspection(**vars(find_subsets(recipe, runs, only)))


def devices_of(train: TrainRecipe, recipe: Path) -> int:
    """How many devices ``staract train`` would use here.

    Raises:
        RecipeError: the launch configuration is not there, or not for this machine.
    """
    if train.processes is not None or train.accelerate is None:
        return train.processes or 1
    return processes_and_options(config_file(train.accelerate, recipe), None, os.environ)[0]


def _vocabulary(config: Path) -> int:
    """The limit on words that a model's config sets."""
    try:
        limit = read_json(config).get("vocab_size", T5Config().vocab_size)
        return int(limit)
    except StoreError as error:
        raise TrainingError(f"{error}; give a T5 config") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise TrainingError(f"{config} is no T5 config ({error!r})") from None
