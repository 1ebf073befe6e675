"""What a person sees while a student trains, and what a signal does to it."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from types import FrameType
from typing import Any

import torch
from accelerate.utils import reduce
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from pipeline.errors import TrainingError
from pipeline.training.layout import world_size

SAME_SIGNAL = 5.0
"""Seconds in which a signal that comes to one of several ranks again is the launcher's echo of the first. The
SIGTERM that a launcher sends when another rank has ended never means more than the first signal."""


def say(line: str) -> None:
    """Print a line, once however many ranks there are."""
    if os.environ.get("RANK", "0") == "0":
        print(line, flush=True)


class ProgressCallback(TrainerCallback):
    """One line a log, or a rich bar on a terminal: step, loss, tokens per second, time left."""

    def __init__(self) -> None:
        self._started = 0.0
        self._first = 0
        self._bar: Progress | None = None
        self._task: Any = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start the clock (a resumed run starts it at its first own step)."""
        self._started, self._first = time.monotonic(), state.global_step
        if state.is_world_process_zero and sys.stdout.isatty():
            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
            )
            self._task = self._bar.add_task("training", total=state.max_steps, completed=self._first)
            self._bar.start()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Show a log; refuse to go on with a loss that is not a number.

        Raises:
            TrainingError: the loss is infinite or not a number.
        """
        if not logs:
            return
        if "eval_loss" in logs:
            self._show(f"epoch {logs.get('epoch', 0):.2f}: development loss {logs['eval_loss']:.4f}", state)
        if "loss" not in logs:
            return
        if not math.isfinite(logs["loss"]):
            raise TrainingError(
                f"the loss is {logs['loss']!r} at step {state.global_step}; lower train.learning_rate "
                "or set train.dtype=float32"
            )
        self._show(self._line(state, logs), state)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.stop()

    def _line(self, state: TrainerState, logs: dict[str, Any]) -> str:
        done = max(state.global_step - self._first, 1)
        left = (time.monotonic() - self._started) / done * (state.max_steps - state.global_step)
        return (
            f"step {state.global_step}/{state.max_steps}  loss {logs['loss']:.4f}  "
            f"{logs.get('tokens_per_second', 0):.0f} tokens/s  {int(left // 60)}:{int(left % 60):02d} left"
        )

    def _show(self, line: str, state: TrainerState) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=state.global_step, description=line)
        elif state.is_world_process_zero:
            say(line)


class StopCallback(TrainerCallback):
    """Ctrl-C (or SIGTERM) saves a checkpoint after the step in progress and stops; a second one kills.

    All ranks agree after every step whether one of them has a signal, and so stop after the same.
    """

    def __init__(self) -> None:
        self.stopped = False
        """What all ranks agreed on."""
        self._noted = 0.0

    def install(self) -> None:
        """Take over the signals."""
        signal.signal(signal.SIGINT, self._note)
        signal.signal(signal.SIGTERM, self._note)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Ask the trainer to save and stop where a signal has come, to any rank."""
        noted = torch.tensor(int(self._noted > 0), device=args.device)
        agreed: Any = reduce(noted, "max")
        if int(agreed):
            self.stopped = True
            control.should_save = True
            control.should_training_stop = True

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self._noted:
            self._noted = time.monotonic()
            say("stopping after this step; what is done is kept (once more to stop at once)")
            if world_size() == 1:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
        elif number == signal.SIGINT and time.monotonic() - self._noted > SAME_SIGNAL:
            raise KeyboardInterrupt
