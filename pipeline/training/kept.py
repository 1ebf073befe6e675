"""Checkpoints that are kept: every model that training saves, to be compared when it is over.

A kept checkpoint is a model that can be served: weights, configs, tokeniser and a stamp of its own,
without the optimiser. It stays when the student is finished.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from pipeline.training.checkpoint import (
    adapter_tensors,
    check_weights,
    copy_model,
    is_blank,
    new_folder,
)
from pipeline.training.progress import say
from pipeline.training.steps import is_due, is_whole, mark_whole


class Keep(TrainerCallback):
    """Keeps the model of each checkpoint as it is saved.

    Args:
        folder: where the models are kept, as ``checkpoint-N``.
        every: steps between checkpoints.
        describe: writes the stamp of a model into its folder.
    """

    def __init__(self, folder: Path, every: int, describe: Callable[[Path], Any]) -> None:
        self._folder = folder
        self._every = every
        self._describe = describe

    def take_up(self, checkpoint: Path, state: TrainerState) -> None:
        """Keep the checkpoint that training goes on from, if a kill came between.

        Raises:
            TrainingError: as ``on_save``.
        """
        if is_due(state, self._every) and state.is_world_process_zero:
            self._keep(checkpoint)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Keep the checkpoint just written.

        Raises:
            TrainingError: the disk is full or not writable, or the weights were saved in parts.
        """
        self.take_up(Path(str(args.output_dir)) / f"checkpoint-{state.global_step}", state)

    def _keep(self, checkpoint: Path) -> None:
        target = self._folder / checkpoint.name
        if is_whole(target):
            return
        # A warm-up begins with a rate of zero.
        if (adapter := adapter_tensors(checkpoint)) and is_blank(adapter):
            say(f"{checkpoint.name}: the adapter is all zeros still, its answers are the base's; not kept")
            return
        shutil.rmtree(target, ignore_errors=True)
        with new_folder(target) as fresh:
            copy_model(checkpoint, fresh)
            check_weights(fresh)
            self._describe(fresh)
            mark_whole(fresh)
