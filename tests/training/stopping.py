"""What a training saw, and a signal that comes in the middle of it."""

from __future__ import annotations

import signal
from types import ModuleType
from typing import Any

import pytest
from transformers import TrainerCallback

from pipeline.training.progress import StopCallback


class StopAt(TrainerCallback):
    """A signal that comes during a given step."""

    def __init__(self, step: int, stop: StopCallback) -> None:
        self.step, self.stop = step, stop

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step - 1:
            self.stop._note(2, None)


def record_batches(
    monkeypatch: pytest.MonkeyPatch, program: ModuleType, trainer: type[Any], stop_at: int | None = None
) -> list[list[int]]:
    """The ids of each batch in the order trained; optionally with a signal at a step."""
    seen: list[list[int]] = []
    compute, prepare = trainer.compute_loss, program._prepare

    def look(self: Any, model: Any, inputs: dict[str, Any], *rest: Any, **options: Any) -> Any:
        seen.append(inputs["input_ids"].flatten().tolist())
        return compute(self, model, inputs, *rest, **options)

    def with_stop(job: Any, callbacks: list[TrainerCallback]) -> Any:
        prepared, report = prepare(job, callbacks)
        if stop_at is not None:
            [stop] = [one for one in callbacks if isinstance(one, StopCallback)]
            prepared.callback_handler.callbacks.insert(0, StopAt(stop_at, stop))
        return prepared, report

    monkeypatch.setattr(trainer, "compute_loss", look)
    monkeypatch.setattr(program, "_prepare", with_stop)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return seen
