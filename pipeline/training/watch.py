"""Checkpoints compared while a student trains: which is the best, and when to stop.

Every ``save_every`` steps there is a look: the development loss, and the mean score of the episodes
that the checkpoint plays. All decisions follow from the list of looks, which lies beside the
checkpoints, so a run that is taken up again decides as an uninterrupted one does.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from accelerate.utils import broadcast_object_list
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from pipeline.errors import StaractError, StoreError, TrainingError
from pipeline.recipe.models import TrainRecipe
from pipeline.training.checkpoint import copy_model, new_folder
from pipeline.training.progress import say
from pipeline.training.steps import is_due
from pipeline.trajectories.files import read_json, write_json

Metric = Literal["loss", "score"]
LOOKS = "looks.json"


class Player(Protocol):
    """What lets a checkpoint play; only rank 0 asks it."""

    def score(self, checkpoint: Path, step: int) -> float:
        """The mean reward of the checkpoint's episodes."""
        ...


@dataclass(frozen=True)
class Look:
    """What was seen of one checkpoint."""

    step: int
    loss: float | None = None
    score: float | None = None

    def merit(self, metric: Metric) -> float:
        """More is better."""
        if metric == "score":
            return -1e9 if self.score is None else self.score
        return -1e9 if self.loss is None else -self.loss


def best_of(looks: Sequence[Look], metric: Metric) -> Look:
    """The best look; of equal ones the earliest."""
    return max(looks, key=lambda look: (look.merit(metric), -look.step))


def is_exhausted(looks: Sequence[Look], metric: Metric, patience: int) -> bool:
    """Whether the last ``patience`` looks brought nothing better than the best before them."""
    return bool(looks) and looks.index(best_of(looks, metric)) + patience < len(looks)


class Watch(TrainerCallback):
    """Looks at checkpoints where the recipe says so, keeps the best, and stops in time.

    Args:
        recipe: the ``train`` section.
        folder: where the checkpoints are.
        player: plays them; None where the recipe names no episodes.
        has_dev: whether there are development rows to evaluate.
    """

    def __init__(self, recipe: TrainRecipe, folder: Path, player: Player | None, *, has_dev: bool) -> None:
        self._has_dev = has_dev
        self._every = recipe.save_every or 0
        self._metric: Metric | None = recipe.stop_on
        self._patience = recipe.patience
        self._folder = folder
        self._player = player
        self._on = bool(self._every and (self._metric or player))
        self._looks: list[Look] = []

    @property
    def exhausted(self) -> bool:
        """Whether training is to stop."""
        return self._metric is not None and is_exhausted(self._looks, self._metric, self._patience)

    @property
    def best_folder(self) -> Path | None:
        """The weights of the best checkpoint; None where the last ones are the student."""
        if self._metric is None or not self._looks:
            return None
        return self._folder / f"best-{best_of(self._looks, self._metric).step}"

    def as_dict(self) -> dict[str, Any]:
        """For ``train.json``: the looks, and which became the student."""
        if not self._on:
            return {}
        chosen = best_of(self._looks, self._metric).step if self._metric and self._looks else None
        return {"looks": [asdict(look) for look in self._looks], "best_step": chosen}

    def take_up(self, checkpoint: Path, state: TrainerState) -> None:
        """Read what was seen up to a checkpoint, and look at it if a kill came between.

        Raises:
            TrainingError: the list of looks is damaged.
        """
        if not self._on:
            return
        path = self._folder / LOOKS
        try:
            noted = [Look(**look) for look in (read_json(path) if path.is_file() else [])]
        except (StoreError, TypeError) as error:
            raise TrainingError(f"{path} cannot be read ({error}); delete {self._folder}") from None
        self._looks = [look for look in noted if look.step <= state.global_step]
        if is_due(state, self._every) and not self._seen(state.global_step):
            self._look(checkpoint, state)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Ask for the development loss of a checkpoint that is about to be written."""
        if self._on and self._metric and self._has_dev and is_due(state, self._every):
            control.should_evaluate = True

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Look at the checkpoint just written."""
        if self._on and is_due(state, self._every) and not self._seen(state.global_step):
            self._look(Path(str(args.output_dir)) / f"checkpoint-{state.global_step}", state)
            control.should_training_stop = control.should_training_stop or self.exhausted

    def _seen(self, step: int) -> bool:
        return any(look.step == step for look in self._looks)

    def _look(self, checkpoint: Path, state: TrainerState) -> None:
        step = state.global_step
        seen = [entry for entry in state.log_history if entry["step"] == step and "eval_loss" in entry]
        loss = seen[-1]["eval_loss"] if seen else None
        look = Look(step, loss, self._score(checkpoint, step, state.is_world_process_zero))
        self._looks.append(look)
        if state.is_world_process_zero:
            self._keep(checkpoint, look)

    def _score(self, checkpoint: Path, step: int, first: bool) -> float | None:
        """Rank 0 plays; all ranks learn the score, or that it failed."""
        if self._player is None:
            return None
        told: list[Any] = [None, None]
        if first:
            try:
                told[0] = self._player.score(checkpoint, step)
            except StaractError as error:
                told[1] = str(error)
        broadcast_object_list(told)
        if told[1] is not None:
            raise TrainingError(f"checkpoint {step} could not be played: {told[1]}")
        return told[0]

    def _keep(self, checkpoint: Path, look: Look) -> None:
        """Note a look; before that, put the weights by if they are the best so far."""
        if look.score is not None:
            say(f"step {look.step}: mean score {look.score:.4f}")
        if self._metric and (best := best_of(self._looks, self._metric)) is look:
            target = self._folder / f"best-{best.step}"
            shutil.rmtree(target, ignore_errors=True)
            with new_folder(target) as fresh:
                copy_model(checkpoint, fresh)
        write_json(self._folder / LOOKS, [asdict(each) for each in self._looks])
        for old in self._folder.glob("best-*"):
            if old != self.best_folder:
                shutil.rmtree(old, ignore_errors=True)
