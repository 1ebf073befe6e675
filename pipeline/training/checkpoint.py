"""The folder of a trained student: what it records, how it appears, and how a run is taken up again."""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import json
import os
import shutil
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import wait_for_everyone
from safetensors import SafetensorError, safe_open
from transformers import (
    GenerationConfig,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.utils import GENERATION_CONFIG_NAME

from pipeline.errors import StaractError, StoreError, TrainingError
from pipeline.models.addresses import STAMP, load_tokenizer, template_hash, tokenizer_hash
from pipeline.recipe.models import TrainRecipe
from pipeline.trajectories.files import read_json, write_json
from pipeline.trajectories.schema import digest

IDENTITY = "identity.json"
WHOLE = "whole"
"""The file that an intermediate checkpoint gets last: without it, saving was cut. It holds the other files'
sizes: after a power cut, a file can be shorter than it was."""
_SERVED = ("style", "renderer", "renderer_version", "spec_digest", "history")
"""What serving must agree with."""
_FREE_KEYS = {
    *("model", "tracker", "project", "log_every", "save_every", "accelerate", "processes"),
    *("keep_checkpoints", "activation_checkpointing"),
}
"""Keys of ``train`` that may change without making another student."""
_SPLIT_KEYS = {"batch_size", "accumulation"}
"""Where ``rows_a_step`` says how many rows a step holds, these only say how it is split."""
_TRAINED = "train."
_ADAPTER = "adapter_model.safetensors"
_GATHER = "set zero3_save_16bit_model: true in the accelerate config"
_NO_WEIGHTS = {"trainer_state.json", STAMP, "README.md"}
# As the system, safetensors, tokenizers (by number) and torch (which hides the reason) say it.
_FULL = (
    *(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)),
    *(f"os error {number}" for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)),
    *("PytorchStreamWriter failed", "iostream error", "unexpected pos"),
)


def identity(
    recipe: TrainRecipe, address: str, style: str, part: Mapping[str, Any], dataset: Path
) -> dict[str, Any]:
    """Everything that decides what a style's training comes to, by the name of its recipe key.

    Args:
        recipe: the ``train`` section.
        address: the base model.
        style: the style trained.
        part: renderer, its version and the style's prompt digest, from the export.
        dataset: the exported dataset's folder.
    """
    # Whoever compares checkpoints compares those that there are.
    free = _FREE_KEYS - ({"save_every"} if recipe.stop_on else set[str]())
    free |= _SPLIT_KEYS if recipe.rows_a_step is not None else set[str]()
    train = recipe.model_dump(mode="json", exclude=free)
    if recipe.validate_on is not None:
        del train["validate_on"]["concurrency"]
    if recipe.lora is not None and recipe.lora.quantize is None:
        del train["lora"]["quantize"]  # a key that older stamps lack
    data = {path.name: sha256(path) for path in sorted((dataset / style).glob("*.jsonl"))}
    return {
        "style": style,
        **part,
        "data": data,
        "model": address,
        **{_TRAINED + k: v for k, v in train.items()},
    }


def finished(folder: Path, wanted: Mapping[str, Any]) -> bool:
    """Whether the student is there already, trained from exactly this.

    Raises:
        TrainingError: the folder holds something else, or a student of another recipe.
    """
    if not folder.exists():
        return False
    if not (folder / STAMP).is_file():
        raise TrainingError(
            f"{folder} holds something else (no {STAMP}): move it away or rename the run (name=…)"
        )
    stamp = _read(folder / STAMP)
    require_same(folder, stamp.get("identity", {}), wanted)
    return True


def open_steps(folder: Path, wanted: Mapping[str, Any]) -> Path | None:
    """Prepare a folder of checkpoints; return the newest whole one, if any. Torn ones are deleted.

    Raises:
        TrainingError: the folder belongs to another recipe.
    """
    whole = [path for path in folder.glob("checkpoint-*") if is_whole(path)]
    if whole:
        require_same(folder, _read(folder / IDENTITY), wanted)
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


@contextmanager
def new_folder(target: Path) -> Generator[Path]:
    """Yield an empty folder that becomes ``target`` when the block ends without an error.

    Its files are as readable as the umask says, whatever the library that wrote them thinks.

    Raises:
        TrainingError: the disk is full or not writable.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
            fresh = Path(scratch, "new")
            fresh.mkdir()
            yield fresh
            for path in fresh.iterdir():
                path.chmod(fresh.stat().st_mode & 0o666)
            fresh.rename(target)
    except (OSError, SafetensorError) as error:
        raise TrainingError(
            f"{target} cannot be written ({error}); free the disk or choose another folder"
        ) from error


def describe(
    folder: Path, tokenizer: Any, wanted: Mapping[str, Any], counts: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """Write ``staract.json`` into a saved checkpoint, after checking that it can be served.

    Raises:
        TrainingError: the saved tokeniser is not the one that trained, or an adapter has no effect.
    """
    saved = load_tokenizer(folder)
    hashes = {"template_hash": template_hash(tokenizer), "tokenizer_hash": tokenizer_hash(tokenizer)}
    if hashes != {"template_hash": template_hash(saved), "tokenizer_hash": tokenizer_hash(saved)}:
        raise TrainingError(
            f"{folder}: the tokeniser reads back otherwise than it trained; report it with the model"
        )
    if (folder / _ADAPTER).is_file():
        _finish_adapter(folder, wanted["model"])
    stamp = {
        **{key: wanted[key] for key in _SERVED if key in wanted},
        "base": wanted["model"],
        **hashes,
        **counts,
        "seed": seed,
        "versions": versions(),
        "digest": digest(dict(wanted)),
        "identity": dict(wanted),
    }
    write_json(folder / STAMP, stamp)
    return stamp


def weight_files(folder: Path) -> list[Path]:
    """The files that make a checkpoint a model: weights, configs, tokeniser; not the trainer's own."""
    kinds = {".json", ".safetensors", ".jinja", ".model", ".txt"}
    return sorted(path for path in folder.iterdir() if path.suffix in kinds and path.name not in _NO_WEIGHTS)


def move_model(last: Path, fresh: Path, best: Path | None) -> None:
    """Put a student together: the trainer's last save, or the best checkpoint with that save's config.

    Raises:
        TrainingError: the weights were saved in parts.
    """
    # A copy: the best weights must outlive a full disk.
    copy_model(best or last, fresh)
    if best is not None and (fresh / "config.json").is_file():
        shutil.copyfile(last / "config.json", fresh / "config.json")
    check_weights(fresh)


def copy_model(source: Path, target: Path) -> None:
    """Copy what makes a checkpoint a model into a folder."""
    for path in weight_files(source):
        shutil.copyfile(path, target / path.name)


def check_weights(folder: Path) -> None:
    """Refuse a folder without weights, or with a part of them.

    Raises:
        TrainingError: the weights were saved in parts, or not at all.
    """
    files = list(folder.glob("*.safetensors"))
    for path in files:
        with safe_open(str(path), framework="pt") as file:
            empty = [name for name in file.keys() if 0 in file.get_slice(name).get_shape()]  # noqa: SIM118
        if empty and not path.name.startswith("adapter"):
            raise TrainingError(f"the weights were saved in parts ({empty[0]!r} is empty); {_GATHER}")
    if not files:
        raise TrainingError(f"the trainer saved no weights; {_GATHER}")


def serve_stop(model: Any, stop: int) -> None:
    """Make generation end at the token that the template ends a turn with, whoever serves the model."""
    known = model.generation_config.eos_token_id
    ends = known if isinstance(known, list) else [] if known is None else [known]
    if stop not in ends:
        model.generation_config.eos_token_id = [stop, *ends]


def save_stops(model: Any, folder: Path) -> None:
    """Put the stops into an adapter's folder: its base, which saves its own, does not know the template's."""
    if not (folder / GENERATION_CONFIG_NAME).is_file():
        GenerationConfig(eos_token_id=model.generation_config.eos_token_id).save_pretrained(folder)


def versions() -> dict[str, str]:
    """Versions of what decides the weights."""
    return {
        name: importlib.metadata.version(name)
        for name in ("torch", "transformers", "trl", "peft", "accelerate")
    }


def remove(folder: Path) -> None:
    """Delete a folder of intermediate checkpoints: the finished student takes its place."""
    shutil.rmtree(folder, ignore_errors=True)


def adapter_tensors(folder: Path) -> dict[str, torch.Tensor]:
    """An adapter's weights by name; none where a folder holds no adapter."""
    path = folder / _ADAPTER
    if not path.is_file():
        return {}
    with safe_open(str(path), framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def is_blank(tensors: Mapping[str, torch.Tensor]) -> bool:
    """Whether an adapter is as it was before its first step: what it adds to its base is zero."""
    return not any(tensor.any() for name, tensor in tensors.items() if "lora_B" in name)


def _finish_adapter(folder: Path, address: str) -> None:
    """Refuse an adapter without effect, and name its base by address (not by this machine's path)."""
    tensors = adapter_tensors(folder)
    empty = [name for name, tensor in tensors.items() if tensor.numel() == 0]
    if not tensors or empty:
        raise TrainingError(
            f"the adapter was saved empty ({', '.join(empty[:3])}); train without sharding stage 3"
        )
    if is_blank(tensors):
        raise TrainingError(
            "the adapter is all zeros: nothing was learned; raise train.learning_rate or train longer"
        )
    config = _read(folder / "adapter_config.json")
    config["base_model_name_or_path"] = address
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def require_same(folder: Path, noted: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse a folder that comes from something else.

    A key of ``train`` that did not exist when the folder was written counts with its default.

    Raises:
        TrainingError: something that decides the outcome differs; it is named.
    """
    noted = {**_defaults(wanted), **noted}
    changed = sorted(key for key in {*noted, *wanted} if noted.get(key) != wanted.get(key))
    if changed:
        raise TrainingError(
            f"{folder} was trained from another recipe or dataset (changed: {', '.join(changed)}); "
            "rename the run (name=…) or delete the folder"
        )


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_json(path)
    except StoreError as error:
        raise TrainingError(f"{error}; delete {path.parent} and train again") from None


def _defaults(wanted: Mapping[str, Any]) -> dict[str, Any]:
    known = TrainRecipe().model_dump(mode="json")
    keys = (key.removeprefix(_TRAINED) for key in wanted if key.startswith(_TRAINED))
    return {_TRAINED + key: known[key] for key in keys if key in known}


def sha256(path: Path) -> str:
    """The hash of a file's content, shortened."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
