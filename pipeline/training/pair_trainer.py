"""Seq2SeqTrainer as the engine, with a loss, an order and an evaluation that are exact on any layout."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.data import Sampler
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments

from pipeline.errors import TrainingError
from pipeline.recipe.models import TrainRecipe
from pipeline.rendering.tokens import IGNORE
from pipeline.training.trainer import CHECKPOINTED_FROM, Counting, common_arguments

STEPS_AT_ONCE = 50
"""Optimiser steps among whose rows those of like length are brought together."""


def summed_loss(
    outputs: Any, labels: torch.Tensor, num_items_in_batch: torch.Tensor | int | None = None
) -> torch.Tensor:
    """Cross-entropy summed over a batch's labels, over the labels of the whole optimiser step.

    T5's forward takes the number of labels and ignores it (specs: training, trap 1). The Trainer
    multiplies what comes back by the number of ranks, whose gradients are averaged.

    Args:
        outputs: the model's, with logits of shape (rows, labels, vocabulary).
        labels: shape (rows, labels); ``IGNORE`` counts for nothing.
        num_items_in_batch: labels of the optimiser step on all ranks; None counts the batch's own.
    """
    total = _total(outputs.logits, labels)
    count = (labels != IGNORE).sum() if num_items_in_batch is None else torch.as_tensor(num_items_in_batch)
    return total / count.clamp(min=1)


def _total(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(
        logits.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORE, reduction="sum"
    )


class LengthSampler(Sampler[int]):
    """An order in which the rows of one optimiser step, and of one micro-batch, are of like length.

    It depends on the seed, the epoch and the rows a step alone: not on the layout, nor on where a run
    was taken up again.

    Args:
        lengths: of each row.
        step: rows of an optimiser step, over accumulation and ranks.
        seed: decides the order.
        epoch: tells the current one.
    """

    def __init__(self, lengths: Sequence[int], step: int, seed: int, epoch: Callable[[], int]) -> None:
        self._lengths = lengths
        self._step = step
        self._seed = seed
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[int]:
        chance = random.Random(f"{self._seed} {self._epoch()}")
        order = list(range(len(self._lengths)))
        chance.shuffle(order)
        chunk = self._step * STEPS_AT_ONCE
        steps: list[list[int]] = []
        for start in range(0, len(order), chunk):
            alike = sorted(order[start : start + chunk], key=lambda row: -self._lengths[row])
            steps += [alike[at : at + self._step] for at in range(0, len(alike), self._step)]
        # A last step that is not full stays the last, or every step after it would be shifted.
        full = [step for step in steps if len(step) == self._step]
        chance.shuffle(full)
        rest = [step for step in steps if len(step) < self._step]
        return (row for step in full + rest for row in step)


class PairTrainer(Counting, Seq2SeqTrainer):
    """Seq2SeqTrainer for ``Pair`` rows."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(compute_loss_func=summed_loss, **kwargs)
        self.model_accepts_loss_kwargs = False

    def compute_loss(self, model: Any, inputs: dict[str, Any], *rest: Any, **options: Any) -> Any:
        """As ``summed_loss``; batches that are trained on are counted."""
        if model.training:
            labels = int((inputs["labels"] != IGNORE).sum())
            self.count(int(inputs["attention_mask"].sum()) + labels, labels)
        return super().compute_loss(model, inputs, *rest, **options)

    def row_length(self, row: Any) -> int:
        return len(row.source)

    def label_sums(self, model: Any, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        labels = inputs.pop("labels")
        return _total(model(**inputs).logits, labels), (labels != IGNORE).sum()

    def _get_train_sampler(self, train_dataset: Any = None) -> LengthSampler:
        pairs: Any = self.train_dataset if train_dataset is None else train_dataset
        step = self.args.per_device_train_batch_size * self.args.gradient_accumulation_steps
        return LengthSampler(
            [len(pair.source) for pair in pairs],
            step * self.accelerator.num_processes,
            self.args.seed,
            lambda: int(self.state.epoch or 0),
        )


def pair_config(
    recipe: TrainRecipe, folder: Path, run_name: str, *, bf16: bool, parameters: int, evaluates: bool
) -> Seq2SeqTrainingArguments:
    """The arguments of the trainer; as ``trainer_config``.

    Raises:
        TrainingError: an argument is refused (an unknown schedule, say).
    """
    common = common_arguments(recipe, folder, run_name, bf16=bf16, evaluates=evaluates)
    checkpointing = torch.cuda.is_available() and parameters >= CHECKPOINTED_FROM
    try:
        return Seq2SeqTrainingArguments(**common, activation_checkpointing=checkpointing)
    except (ValueError, TypeError) as error:
        raise TrainingError(f"the train section of the recipe cannot be used: {error}") from error
