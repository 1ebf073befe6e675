"""Checkpoints on the way: which are whole, where a run is taken up again, what a full disk says."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accelerate.utils import wait_for_everyone
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from pipeline.errors import StaractError, StoreError, TrainingError
from pipeline.training.checkpoint import read_notes, save_stops
from pipeline.training.identity import require_same
from pipeline.trajectories.files import read_json, write_json

IDENTITY = "identity.json"
WHOLE = "whole"
"""The file that an intermediate checkpoint gets last: without it, saving was cut. It holds the other files'
sizes: after a power cut, a file can be shorter than it was."""
# As the system, safetensors, tokenizers (by number) and torch (which hides the reason) say it.
_FULL = (
    *(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)),
    *(f"os error {number}" for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)),
    *("PytorchStreamWriter failed", "iostream error", "unexpected pos"),
)


def open_steps(folder: Path, wanted: Mapping[str, Any]) -> Path | None:
    """Prepare a folder of checkpoints; return the newest whole one, if any. Torn ones are deleted.

    Raises:
        TrainingError: the folder belongs to another recipe.
    """
    whole = [path for path in folder.glob("checkpoint-*") if is_whole(path)]
    if whole:
        require_same(folder, read_notes(folder / IDENTITY), wanted)
    else:
        write_json(folder / IDENTITY, dict(wanted))
    if os.environ.get("RANK", "0") == "0":
        for path in folder.glob("*checkpoint-*"):
            if path not in whole:
                shutil.rmtree(path, ignore_errors=True)
    return max(whole, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def is_whole(folder: Path) -> bool:
    """Whether saving a checkpoint came to its end, and every file is as long as it was then."""
    mark = folder / WHOLE
    if not mark.is_file():
        return False
    if not mark.stat().st_size:
        return True  # marked by an earlier version
    try:
        sizes: dict[str, int] = read_json(mark)
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (StoreError, OSError, AttributeError):
        return False


def mark_whole(folder: Path) -> None:
    """Write the mark of a checkpoint whose last file is written.

    Raises:
        StoreError: the disk is full or not writable.
    """
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != WHOLE]
    write_json(folder / WHOLE, {path.relative_to(folder).as_posix(): path.stat().st_size for path in files})


class WholeCallback(TrainerCallback):
    """Marks an intermediate checkpoint when its last file is written: a torn one has no mark."""

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Write the mark, and before it the stops that an adapter's folder would lack.

        Raises:
            StoreError: the disk is full or not writable.
        """
        wait_for_everyone()  # every rank writes files of its own
        if state.is_world_process_zero:
            folder = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
            save_stops(kwargs["model"], folder)
            mark_whole(folder)


def is_due(state: TrainerState, every: int) -> bool:
    """Whether a checkpoint belongs to the run; the same run uninterrupted has none where one was stopped."""
    return state.global_step % every == 0 or state.global_step == state.max_steps


@contextmanager
def saving(folder: Path) -> Generator[None]:
    """Say in one sentence that the disk is full, however the library says it.

    Raises:
        TrainingError: the disk is full.
    """
    try:
        yield
    except StaractError:
        raise
    except Exception as error:
        if not any(word in str(error) for word in _FULL):
            raise
        raise TrainingError(
            f"{folder}: a checkpoint could not be saved: the disk is full, or a file may not grow so large;"
            " the last whole one is kept: make room, and the same command goes on from there"
        ) from error


def remove(folder: Path) -> None:
    """Delete a folder of intermediate checkpoints: the finished student takes its place."""
    shutil.rmtree(folder, ignore_errors=True)
