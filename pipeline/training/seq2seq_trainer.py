"""Seq2SeqTrainer as the engine, with a loss, an order and an evaluation that are exact on any layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments

from pipeline.errors import TrainingError
from pipeline.recipe.models import TrainRecipe
from pipeline.rendering.tokens import IGNORE
from pipeline.training.trainer import Counting, common_arguments, twice_computed


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


class ExampleTrainer(Counting, Seq2SeqTrainer):
    """Seq2SeqTrainer for ``EncodedExample`` rows."""

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


def seq2seq_config(
    recipe: TrainRecipe, folder: Path, run_name: str, *, bf16: bool, parameters: int, evaluates: bool
) -> Seq2SeqTrainingArguments:
    """The arguments of the trainer; as ``trainer_config``.

    Raises:
        TrainingError: an argument is refused (an unknown schedule, say).
    """
    common = common_arguments(recipe, folder, run_name, bf16=bf16, evaluates=evaluates)
    checkpointing = twice_computed(recipe, parameters)
    try:
        return Seq2SeqTrainingArguments(**common, activation_checkpointing=checkpointing)
    except (ValueError, TypeError) as error:
        raise TrainingError(f"the train section of the recipe cannot be used: {error}") from error
