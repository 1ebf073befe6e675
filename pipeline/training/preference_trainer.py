"""DPOTrainer as the engine: the project's own ids, labels and loss go in, on any layout exactly.

TRL makes the models ready (adapter, reference, sharding, dropout). Its preparation of the data is passed
over; its loss averages micro-batches, which weighs the pairs of a short one more, so the same formulas are
summed here and divided by the pairs of the whole optimiser step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from peft import PeftModel
from trl.trainer.dpo_config import DPOConfig
from trl.trainer.dpo_trainer import DPOTrainer
from trl.trainer.utils import use_adapter

from pipeline.errors import TrainingError
from pipeline.recipe.models import DpoRecipe, TrainRecipe
from pipeline.rendering.tokens import IGNORE
from pipeline.training.head import can_skip
from pipeline.training.preference_head import add_logps_head
from pipeline.training.trainer import Counting, common_arguments, twice_computed


def pair_losses(
    policy: torch.Tensor, reference: torch.Tensor, words: torch.Tensor, dpo: DpoRecipe
) -> torch.Tensor:
    """The loss of each pair of a batch.

    ``sigmoid`` is equation 7 of Rafailov et al. 2023; ``hinge`` is SLiC's with the same margin; ``ipo`` is
    equation 17 of Azar et al. 2023 on log-probabilities a token, as its authors advise and TRL has it.
    ``imitate`` adds the mean cross-entropy a token of the better half.

    Args:
        policy: log-probabilities of the rows under the model that is trained, shape (2n,), better halves
            first.
        reference: the same under the model that training started from.
        words: labels of each row, shape (2n,).
        dpo: the loss and its weights.

    Returns:
        Shape (n,).
    """
    gained = policy - reference
    counts = words.clamp(min=1)
    chosen, rejected = (gained / counts if dpo.loss == "ipo" else gained).chunk(2)
    margin = chosen - rejected
    if dpo.loss == "ipo":
        losses = (margin - 1 / (2 * dpo.beta)) ** 2
    elif dpo.loss == "hinge":
        losses = torch.relu(1 - dpo.beta * margin)
    else:
        losses = -F.logsigmoid(dpo.beta * margin)
    return losses - dpo.imitate * (policy / counts).chunk(2)[0]


class PreferenceTrainer(Counting, DPOTrainer):
    """DPOTrainer for ``Preference`` rows.

    Args:
        dpo: the loss.
        label_only: project labelled positions only, where the model allows it.
        model: what is trained; with an adapter around it, it is its own reference without.
        ref_model: what it is compared to, where there is no adapter.
    """

    loss_is_scaled_for_ga = True

    def __init__(
        self, *, dpo: DpoRecipe, label_only: bool, model: Any, ref_model: Any = None, **kwargs: Any
    ) -> None:
        self._dpo = dpo
        self._label_only = label_only and can_skip(model)
        if self._label_only:
            # Before the trainer wraps them: what distributes a model synchronises only its own forward.
            for one in (model, ref_model):
                if one is not None:
                    add_logps_head(one)
        super().__init__(model=model, ref_model=ref_model, **kwargs)
        self.model_accepts_loss_kwargs = True

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """The losses of the batch's pairs, summed, over the pairs of the whole optimiser step.

        Args:
            model: the model, wrapped for distribution or not.
            inputs: a collated batch.
            return_outputs: not offered: no logits are computed.
            num_items_in_batch: pairs in the optimiser step on all ranks; None counts the batch's own.
        """
        losses, real = self._losses(model, inputs)
        if model.training:
            self.count(int(inputs["attention_mask"].sum()), int((inputs["labels"] != IGNORE).sum()))
        total = (losses * real).sum()
        if num_items_in_batch is None:
            return total / real.sum().clamp(min=1)
        # Ranks average their gradients, while the count covers all ranks.
        return total * self.accelerator.num_processes / torch.as_tensor(num_items_in_batch).clamp(min=1)

    def row_length(self, row: Any) -> int:
        return max(len(row["chosen_ids"]), len(row["rejected_ids"]))

    def label_sums(self, model: Any, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """The losses summed over a batch's pairs, and the number of them."""
        losses, real = self._losses(model, inputs)
        return (losses * real).sum(), real.sum()

    def row_logps(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """The log-probability of each row's labels, summed; shape (rows,)."""
        if self._label_only:
            return model(**inputs, use_cache=False, row_logps=True).logits
        return model(**inputs, use_cache=False, fused_lm_head=True).log_probs.sum(dim=1)

    def _losses(self, model: Any, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss of each pair, and whether it is one: a rank without rows computes on an empty one."""
        policy = self.row_logps(model, inputs)
        with torch.no_grad():
            reference = self._reference_logps(inputs)
        words = (inputs["labels"][:, 1:] != IGNORE).sum(dim=1)
        real = (words.chunk(2)[0] > 0).to(policy.dtype)
        if model.training:
            self._note((policy - reference).detach(), real)
        return pair_losses(policy, reference, words, self._dpo), real

    def _reference_logps(self, inputs: dict[str, Any]) -> torch.Tensor:
        if self.ref_model is not None:
            return self.row_logps(self.ref_model, inputs)
        adapted: Any = self.accelerator.unwrap_model(self.model)
        with use_adapter(adapted, None):
            return self.row_logps(self.model, inputs)

    def _note(self, gained: torch.Tensor, real: torch.Tensor) -> None:
        """Keep what is logged with the next loss: how often, and by how much, the better half gains more."""
        chosen, rejected = (self._dpo.beta * gained).chunk(2)
        margins = chosen - rejected
        sums = torch.stack([((margins > 0) * real).sum(), (margins * real).sum(), real.sum()])
        summed: Any = self.accelerator.reduce(sums, "sum")
        right, margin, pairs = summed.tolist()
        if pairs:
            self._metrics["train"]["rewards/accuracies"].append(right / pairs)
            self._metrics["train"]["rewards/margins"].append(margin / pairs)

    def _prepare_dataset(self, dataset: Any, processing_class: Any, args: Any, dataset_name: str) -> Any:
        # The rows are ids already, made by the serving path's own function.
        return dataset

    def _get_num_items_in_batch(self, batch_samples: list[Any], device: torch.device) -> torch.Tensor:
        """Pairs of an optimiser step, over all ranks."""
        pairs = sum(int((batch["labels"] != IGNORE).any(dim=1).sum()) // 2 for batch in batch_samples)
        counted: Any = self.accelerator.reduce(torch.tensor(pairs, device=device), "sum")
        return counted

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # TRL would write a card of its own beside every checkpoint.
        super(DPOTrainer, self)._save_checkpoint(model, trial)


def preference_config(
    recipe: TrainRecipe, folder: Path, run_name: str, *, bf16: bool, parameters: int, evaluates: bool
) -> DPOConfig:
    """The arguments of the trainer; as ``trainer_config``.

    Raises:
        TrainingError: an argument is refused (an unknown schedule, say).
    """
    common = common_arguments(recipe, folder, run_name, bf16=bf16, evaluates=evaluates)
    checkpointing = twice_computed(recipe, parameters)
    try:
        # Dropout would make the model differ from its reference before the first step.
        return DPOConfig(
            **common, activation_checkpointing=checkpointing, max_length=None, disable_dropout=True
        )
    except (ValueError, TypeError) as error:
        raise TrainingError(f"the train section of the recipe cannot be used: {error}") from error


def reference_of(model: Any, recipe: TrainRecipe) -> Any:
    """A frozen copy of the model to compare with; None where an adapter can be left out instead."""
    if recipe.lora is not None or isinstance(model, PeftModel):
        return None
    from copy import deepcopy

    return deepcopy(model).requires_grad_(False).eval()
