"""The causal program under ``accelerate launch``, with a note of what each rank holds when it saves.

    accelerate launch … -m tests.training.ranks_program FOLDER [--stop STEP] ROOT ...

The roots are trained one after the other. Each rank writes ``FOLDER/<root's name>-<rank>.json``.
With ``--stop`` the last rank sends itself a SIGTERM during that step.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from pipeline.training.causal import main
from pipeline.training.sharding import weights_held
from pipeline.training.trainer import StudentTrainer

SAVE, COMPUTE = StudentTrainer.save_model, StudentTrainer.compute_loss


def elements(value: Any) -> int:
    """Numbers in all tensors of a state, however nested; the counts of steps are not counted."""
    if isinstance(value, torch.Tensor):
        return value.numel() if value.dim() else 0
    if isinstance(value, dict):
        return sum(elements(each) for each in value.values())
    return 0


def state_held(trainer: Any) -> int:
    """Numbers in this rank's optimiser state."""
    optimizer = trainer.optimizer
    while hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    return elements(dict(optimizer.state))


def note(trainer: Any, path: Path) -> None:
    whole, held = weights_held(trainer.model)
    about = {
        "distributed": trainer.accelerator.distributed_type.value,
        "world": torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1,
        "backend": torch.distributed.get_backend() if torch.distributed.is_initialized() else "",
        "weights": whole,
        "weights_held": held,
        "trained": sum(
            getattr(weight, "ds_numel", weight.numel())
            for weight in trainer.model.parameters()
            if weight.requires_grad
        ),
        "state_held": state_held(trainer),
    }
    path.write_text(json.dumps(about))


def train(folder: Path, root: Path, stop: int) -> int:
    rank, seen = os.environ["RANK"], []

    def save(self: StudentTrainer, *arguments: Any, **options: Any) -> None:
        note(self, folder / f"{root.name}-{rank}.json")
        SAVE(self, *arguments, **options)

    def compute(self: StudentTrainer, model: Any, inputs: Any, *rest: Any, **options: Any) -> Any:
        seen.append(inputs["input_ids"].flatten().tolist() if (inputs["labels"] != -100).any() else [])
        (folder / f"{root.name}-{rank}.order.json").write_text(json.dumps(seen))
        if self.state.global_step + 1 == stop and rank == str(int(os.environ["WORLD_SIZE"]) - 1):
            os.kill(os.getpid(), signal.SIGTERM)
        return COMPUTE(self, model, inputs, *rest, **options)

    with mock.patch.multiple(StudentTrainer, save_model=save, compute_loss=compute):
        roots = ["--run-root", str(root / "runs"), "--checkpoint-root", str(root / "checkpoints")]
        return main([str(root / "recipe.yaml"), *roots])


if __name__ == "__main__":
    words = sys.argv[2:]
    stop = int(words[1]) if words[0] == "--stop" else 0
    if stop:
        words = words[2:]
    statuses = [train(Path(sys.argv[1]), Path(word), stop) for word in words]
    sys.exit(max(statuses))
