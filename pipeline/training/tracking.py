"""A training tells wandb or trackio how it goes.

transformers' own callbacks tell losses and settings. This adds what they lack: the recipe, the share of the
devices' peak, how the episodes of checkpoints went, and what was played. Only rank 0 tells anything. Once
training has begun, a tracker that fails is told no more, and training goes on.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations.integration_utils import TrackioCallback, WandbCallback

from pipeline.errors import TrainingError
from pipeline.models.addresses import first_line
from pipeline.recipe.models import Recipe, TrainRecipe
from pipeline.training.tracking_table import COLUMNS, episode_rows, scrubbed
from pipeline.training.utilisation import Utilisation, utilisation
from pipeline.training.watch import Watch

AWAY = {"offline", "dryrun", "disabled"}
"""Modes of wandb in which nothing leaves the machine."""


@dataclass(frozen=True)
class Tracked:
    """One student's training.

    ``identity`` is the digest of what decides the outcome: a run that is taken up again continues what the
    tracker has. ``tokens`` are those of a row on average, ``labelled`` is the share of labels among them;
    ``episodes`` is where checkpoints leave what they played.
    """

    recipe: Recipe
    train: TrainRecipe
    name: str
    identity: str
    episodes: Path
    tokens: float
    labelled: float


def check(train: TrainRecipe) -> None:
    """Refuse a tracker that is not there, or that would ask for a key.

    Raises:
        TrainingError: it is not installed, or wandb is online and has no key.
    """
    if train.tracker == "none":
        return
    if importlib.util.find_spec(train.tracker) is None:
        raise TrainingError(
            f"tracker {train.tracker!r} is not installed; run: pip install 'staract[tracking]'"
        )
    # Nothing about a crash leaves the machine unasked.
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    if train.tracker == "wandb" and not _wandb_can_start():
        raise TrainingError(
            "train.tracker: wandb has no key; run `wandb login`, set WANDB_API_KEY, or keep the run on this "
            "machine with WANDB_MODE=offline"
        )


def _wandb_can_start() -> bool:
    """Whether wandb is to stay on this machine, or finds a key where it looks for one."""
    try:
        settings: Any = importlib.import_module("wandb").setup().settings
        if settings.mode in AWAY:
            return True
        login: Any = importlib.import_module("wandb.sdk.lib.wbauth")
        return bool(
            login.authenticate_session(
                host=settings.base_url, source="staract", prompt=False, update_session=False
            )
        )
    except Exception as error:
        raise TrainingError(f"train.tracker: wandb cannot be used: {scrubbed(first_line(error))}") from None


class Tracker(TrainerCallback):
    """Tells a tracker about one training; to be asked after the watch has looked.

    Args:
        about: the training.
        watch: whose looks are told.
    """

    def __init__(self, about: Tracked, watch: Watch) -> None:
        self._about = about
        self._watch = watch
        self._library: Any = importlib.import_module(about.train.tracker)
        self._told: TrainerCallback = WandbCallback() if self._wandb else TrackioCallback()
        self._on = False
        self._looked = 0
        self._speed: Utilisation | None = None

    @property
    def _wandb(self) -> bool:
        return self._about.train.tracker == "wandb"

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Open the tracker's run, or go on with the one that there is.

        Raises:
            TrainingError: it cannot be opened.
        """
        if not state.is_world_process_zero:
            return
        about = self._about
        self._speed = utilisation(
            kwargs["model"],
            about.train,
            about.tokens,
            about.labelled,
            bf16=bool(args.bf16),
            devices=args.world_size,
        )
        try:
            self._open(args, state, control, **kwargs)
        except Exception as error:
            reason = scrubbed(first_line(error))
            raise TrainingError(
                f"{about.train.tracker} cannot be started: {reason}; set train.tracker=none to train without"
            ) from error
        self._on = True
        # A look that was made after a kill, before training went on, has not been told.
        self._looked = state.global_step - 1
        self._tell_looks(args, state, control)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Pass a log on, with the share of the peak that its speed comes to."""
        told = dict(logs or {})
        if self._speed is not None and "tokens_per_second" in told:
            told["share_of_peak"] = round(self._speed.share(told["tokens_per_second"]), 4)
        self._tell(lambda: self._told.on_log(args, state, control, logs=told, **kwargs))

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Tell what the watch has seen of the checkpoint."""
        self._tell_looks(args, state, control)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Close the run: another student's training gets one of its own."""
        self._tell(lambda: self._told.on_train_end(args, state, control, **kwargs))
        if self._wandb:
            self._tell(self._library.finish)
        self._on = False

    def _open(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        about, named = self._about, copy.copy(args)
        config = {
            "recipe": scrubbed(about.recipe.model_dump(mode="json")),
            "peak_tflops": None if self._speed is None else round(self._speed.peak / 1e12, 3),
        }
        # trackio knows its runs by their names.
        named.run_name = about.name if self._wandb else f"{about.name}-{about.identity[:8]}"
        if self._wandb:
            _open_wandb(self._library, about, config)
        self._told.on_train_begin(named, state, control, **kwargs)
        if not self._wandb:
            self._library.config.update(config)

    def _tell_looks(self, args: TrainingArguments, state: TrainerState, control: TrainerControl) -> None:
        looks: list[dict[str, Any]] = self._watch.as_dict().get("looks", [])
        for look in looks:
            if look["step"] > self._looked and look["score"] is not None:
                self._tell(lambda score=look["score"]: self._tell_score(score, args, state, control))
                self._looked = look["step"]

    def _tell_score(
        self, score: float, args: TrainingArguments, state: TrainerState, control: TrainerControl
    ) -> None:
        self._told.on_log(args, state, control, logs={"eval_score": score})
        if rows := episode_rows(self._about.episodes, state.global_step):
            table = self._library.Table(columns=COLUMNS, data=rows)
            self._library.log({"episodes": table, "train/global_step": state.global_step})

    def _tell(self, what: Callable[[], object]) -> None:
        if not self._on:
            return
        try:
            what()
        except Exception as error:
            self._on = False
            failed = f"{self._about.train.tracker} failed ({scrubbed(first_line(error))})"
            print(f"warning: {failed} and is told no more; training goes on", file=sys.stderr, flush=True)


def _open_wandb(wandb: Any, about: Tracked, config: dict[str, Any]) -> None:
    """Open the run whose id is the training's identity.

    Neither the command line, nor the repository's address, nor what is printed is told: any of them may
    hold secrets.
    """
    if wandb.run is not None:
        wandb.finish()
    wandb.init(
        project=about.train.project,
        id=about.identity,
        name=about.name,
        group=about.recipe.name,
        config=config,
        resume=None if wandb.setup().settings.mode in AWAY else "allow",
        settings=wandb.Settings(console="off", disable_git=True, disable_code=True, x_disable_meta=True),
    )
