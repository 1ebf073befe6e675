"""SFTTrainer as the engine: the project's own ids, labels, collator and loss go in, nothing is redone."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Sampler
from transformers import Trainer
from transformers.trainer_callback import PrinterCallback
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from pipeline.errors import TrainingError
from pipeline.recipe.models import TrainRecipe
from pipeline.rendering.tokens import IGNORE
from pipeline.training.evenly import (
    Filled,
    FilledCollator,
    FilledSampler,
    LengthSampler,
    Shuffled,
    shares,
)
from pipeline.training.head import add_label_head, can_skip
from pipeline.training.layout import accumulation, world_size
from pipeline.training.sharding import uses_deepspeed

CHECKPOINTED_FROM = 2_000_000_000
"""Parameters from which a GPU trades time for memory by computing activations twice."""


class Counting(Trainer):
    """What all trainers here share: each row counts once on any layout; tokens per second are logged."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.remove_callback(PrinterCallback)
        if self.is_fsdp_enabled:
            keep_outputs(self.accelerator.state.fsdp_plugin)
        self._seen = torch.zeros(2, dtype=torch.float64)
        self._since = time.perf_counter()
        rows: Any = self.train_dataset
        collate: Any = self.data_collator
        self.data_collator = FilledCollator(collate, rows[0])

    def get_train_dataloader(self) -> DataLoader[Any]:
        """The rows in their order; where they do not fall evenly over the ranks, places stay empty."""
        rows: Any = self.train_dataset
        together = self.args.per_device_train_batch_size * self.accelerator.num_processes
        return self._get_dataloader(
            Filled(rows),  # type: ignore[arg-type]
            "Training",
            self.args.per_device_train_batch_size,
            sampler_fn=lambda _: FilledSampler(self._get_train_sampler(rows), together),
            is_training=True,
        )

    def evaluate(
        self,
        eval_dataset: Any = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
        **options: Any,
    ) -> dict[str, float]:
        """The mean loss of a label over exactly the development rows, whatever the batches and ranks.

        The Trainer's own evaluation averages batches, and counts the rows that fill up the last batch of
        each rank (trap 2).
        """
        rows: Any = self.eval_dataset if eval_dataset is None else eval_dataset
        metrics = {f"{metric_key_prefix}_loss": self._mean_loss(rows)}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _mean_loss(self, rows: Any) -> float:
        # Sharded weights are gathered by what wraps the model; elsewhere the bare model does.
        sharded = self.is_deepspeed_enabled or self.is_fsdp_enabled
        model: Any = self.model_wrapped if sharded else self.model
        training = model.training
        model.eval()
        sums = torch.zeros(2, dtype=torch.float64, device=self.args.device)
        size, rank, ranks = (
            self.args.per_device_eval_batch_size,
            self.accelerator.process_index,
            self.accelerator.num_processes,
        )
        collate: Any = self.data_collator
        with torch.no_grad():
            for batch in shares(rows, size, rank, ranks, self.row_length):
                inputs = self._prepare_inputs(collate(batch))
                with self.compute_loss_context_manager():
                    total, labels = self.label_sums(model, inputs)
                sums += torch.stack([total.double(), labels.double()])
        model.train(training)
        reduced: Any = self.accelerator.reduce(sums, "sum")
        return float(reduced[0] / reduced[1].clamp(min=1))

    def by_length(self, rows: Any) -> LengthSampler:
        """An order in which rows of like length come together: less of a padded batch is padding."""
        step = self.args.per_device_train_batch_size * self.args.gradient_accumulation_steps
        return LengthSampler(
            [self.row_length(row) for row in rows],
            step * self.accelerator.num_processes,
            self.args.seed,
            self.epoch,
        )

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler[int]:
        return self.by_length(self.train_dataset if train_dataset is None else train_dataset)

    def epoch(self) -> int:
        """The current one, from 0 on."""
        return int(self.state.epoch or 0)

    def row_length(self, row: Any) -> int:
        """By which rows of like length come together in a batch."""
        raise NotImplementedError

    def label_sums(self, model: Any, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """Cross-entropy summed over a batch's labels, and the number of them."""
        raise NotImplementedError

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add tokens (all ranks) per second, and labels, since the last log."""
        if "loss" in logs:
            seen: Any = self.accelerator.reduce(self._seen.to(self.accelerator.device), "sum")
            now = time.perf_counter()
            logs["tokens_per_second"] = round(float(seen[0]) / max(now - self._since, 1e-9), 1)
            logs["labelled_tokens"] = int(seen[1])
            self._seen.zero_()
            self._since = now
        super().log(logs, start_time)

    def count(self, tokens: int, labels: int) -> None:
        """Count a batch that is trained on."""
        self._seen += torch.tensor([tokens, labels])

    def _send_telemetry(self) -> None:
        """Nothing about a run leaves the machine unasked."""


def keep_outputs(plugin: Any) -> None:
    """Let FSDP return what a model computed.

    In bfloat16 accelerate has all outputs rounded to it, the summed loss among them: to three digits.
    """
    policy = plugin.mixed_precision_policy
    if getattr(policy, "output_dtype", None) is not None:
        plugin.mixed_precision_policy = dataclasses.replace(policy, output_dtype=None)


class StudentTrainer(Counting, SFTTrainer):
    """SFTTrainer that projects labelled positions only and logs tokens per second."""

    def __init__(self, *, label_only: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._label_only = label_only and can_skip(self.model)
        if self._label_only:
            add_label_head(self.model)
        # The loss is divided by the labels of the whole step here, whatever the model's forward takes.
        self.model_accepts_loss_kwargs = True

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """Cross-entropy summed over the batch's labels, over the labels of the whole optimiser step.

        Args:
            model: the model, wrapped for distribution or not.
            inputs: a collated batch.
            return_outputs: also return the model's outputs (then all logits are computed).
            num_items_in_batch: labels in the optimiser step on all ranks; None counts the batch's own.
        """
        if model.training:
            self._count(inputs)
        if not self._label_only or return_outputs:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        total = model(**inputs, use_cache=False, label_only=True).loss
        if num_items_in_batch is None:
            return total / (inputs["labels"][:, 1:] != IGNORE).sum().clamp(min=1)
        # Ranks average their gradients, while the count covers all ranks.
        return total * self.accelerator.num_processes / torch.as_tensor(num_items_in_batch).clamp(min=1)

    def row_length(self, row: Any) -> int:
        return len(row["input_ids"])

    def label_sums(self, model: Any, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        targets = inputs["labels"][:, 1:]
        if self._label_only:
            total = model(**inputs, use_cache=False, label_only=True).loss
        else:
            unlabelled = {name: value for name, value in inputs.items() if name != "labels"}
            logits = model(**unlabelled, use_cache=False).logits[:, :-1].float()
            total = F.cross_entropy(
                logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="sum"
            )
        return total, (targets != IGNORE).sum()

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler[int]:
        if self.args.train_sampling_strategy == "group_by_length":
            return super()._get_train_sampler(train_dataset)
        rows: Any = self.train_dataset if train_dataset is None else train_dataset
        return Shuffled(len(rows), self.args.seed, self.epoch)

    def _count(self, inputs: dict[str, Any]) -> None:
        mask = inputs.get("attention_mask")
        tokens = inputs["input_ids"].numel() if mask is None else int(mask.sum())
        self.count(tokens, int((inputs["labels"] != IGNORE).sum()))


def trainer_config(
    recipe: TrainRecipe, folder: Path, run_name: str, *, bf16: bool, parameters: int, evaluates: bool
) -> SFTConfig:
    """The arguments of the trainer.

    Args:
        recipe: how to train.
        folder: where intermediate checkpoints go.
        run_name: the run's name for a tracker.
        bf16: compute in bfloat16 (weights that are trained stay in float32).
        parameters: size of the model.
        evaluates: whether there is a development set to score after each epoch.

    Raises:
        TrainingError: an argument is refused (an unknown schedule, say).
    """
    common = common_arguments(recipe, folder, run_name, bf16=bf16, evaluates=evaluates)
    try:
        return SFTConfig(
            **common,
            activation_checkpointing=twice_computed(recipe, parameters),
            # Packed rows leave nothing to pad.
            train_sampling_strategy="random" if recipe.packing else "group_by_length",
            max_length=None,
            dataset_kwargs={"skip_prepare_dataset": True},
        )
    except (ValueError, TypeError) as error:
        raise TrainingError(f"the train section of the recipe cannot be used: {error}") from error


def twice_computed(recipe: TrainRecipe, parameters: int) -> bool:
    """Whether activations are computed again in the backward pass, so that they need not be held."""
    if recipe.activation_checkpointing is not None:
        return recipe.activation_checkpointing
    return torch.cuda.is_available() and parameters >= CHECKPOINTED_FROM


def common_arguments(
    recipe: TrainRecipe, folder: Path, run_name: str, *, bf16: bool, evaluates: bool
) -> dict[str, Any]:
    """The arguments that trainers of every kind take; as ``trainer_config``.

    Raises:
        RecipeError: the rows of a step cannot be split over the processes.
    """
    cuda = torch.cuda.is_available()
    ranks = world_size()
    return {
        "output_dir": str(folder),
        "run_name": run_name,
        "project": recipe.project,
        "report_to": [],  # tracking.py tells the tracker, whose faults must not end the training
        "num_train_epochs": recipe.epochs,
        "max_steps": recipe.max_steps or -1,
        "per_device_train_batch_size": recipe.batch_size,
        "per_device_eval_batch_size": recipe.batch_size,
        "gradient_accumulation_steps": accumulation(recipe, ranks),
        "learning_rate": recipe.learning_rate,
        "lr_scheduler_type": recipe.schedule,
        "warmup_steps": recipe.warmup if recipe.warmup < 1 else int(recipe.warmup),
        "weight_decay": recipe.weight_decay,
        "adam_epsilon": recipe.adam_epsilon,
        "bf16": bf16,
        # DeepSpeed computes on the processor only where it is not told to.
        "use_cpu": not cuda and not uses_deepspeed(),
        "ddp_backend": "gloo" if not cuda and ranks > 1 else None,
        # Ranks wait while the first one lets a checkpoint play.
        "ddp_timeout": 24 * 3600,
        "remove_unused_columns": False,
        "dataloader_pin_memory": cuda,
        "logging_steps": recipe.log_every,
        "logging_nan_inf_filter": False,
        # Where checkpoints are compared, the development loss is asked for together with them.
        "eval_strategy": "epoch" if evaluates and not recipe.stop_on else "no",
        "prediction_loss_only": True,
        "save_strategy": "steps" if recipe.save_every else "no",
        "save_steps": recipe.save_every or 500,
        "save_total_limit": 2,
        "seed": recipe.seed,
        "disable_tqdm": True,
    }
