"""The folder of a trained student: what it records, which files make it one, how it appears."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from transformers import (
    GenerationConfig,
)
from transformers.utils import GENERATION_CONFIG_NAME

from pipeline.errors import StoreError, TrainingError
from pipeline.models.addresses import STAMP, load_tokenizer, template_hash, tokenizer_hash
from pipeline.training.identity import require_same
from pipeline.trajectories.files import read_json, write_json
from pipeline.trajectories.schema import digest

_SERVED = ("style", "renderer", "renderer_version", "spec_digest", "history")
"""What serving must agree with."""
_ADAPTER = "adapter_model.safetensors"
_GATHER = "set zero3_save_16bit_model: true in the accelerate config"
_NO_WEIGHTS = {"trainer_state.json", STAMP, "README.md"}


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
    stamp = read_notes(folder / STAMP)
    require_same(folder, stamp.get("identity", {}), wanted)
    return True


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
    config = read_notes(folder / "adapter_config.json")
    config["base_model_name_or_path"] = address
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def read_notes(path: Path) -> dict[str, Any]:
    """What a JSON file of a training says.

    Raises:
        TrainingError: it is missing or unreadable.
    """
    try:
        return read_json(path)
    except StoreError as error:
        raise TrainingError(f"{error}; delete {path.parent} and train again") from None
