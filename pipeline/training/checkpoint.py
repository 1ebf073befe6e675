"""The folder of a trained student: what it records, how it appears, and how a run is taken up again."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import shutil
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from pipeline.errors import StoreError, TrainingError
from pipeline.models.addresses import STAMP, load_tokenizer, template_hash, tokenizer_hash
from pipeline.recipe.models import TrainRecipe
from pipeline.trajectories.files import read_json, write_json
from pipeline.trajectories.schema import digest

IDENTITY = "identity.json"
WHOLE = "whole"
"""The file that an intermediate checkpoint gets last: without it, saving was cut."""
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
_GATHER = "set zero3_save_16bit_model: true in the accelerate config"
_NO_WEIGHTS = {"trainer_state.json", STAMP, "README.md"}


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
    """Prepare the folder of intermediate checkpoints; return the newest whole one, if any.

    Raises:
        TrainingError: the folder belongs to another recipe.
    """
    whole = [path.parent for path in folder.glob(f"checkpoint-*/{WHOLE}")]
    if whole:
        require_same(folder, _read(folder / IDENTITY), wanted)
    else:
        write_json(folder / IDENTITY, dict(wanted))
    return max(whole, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


class WholeCallback(TrainerCallback):
    """Marks an intermediate checkpoint when its last file is written: a torn one has no mark."""

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Write the mark."""
        if state.is_world_process_zero:
            (Path(str(args.output_dir)) / f"checkpoint-{state.global_step}" / WHOLE).touch()


@contextmanager
def new_folder(target: Path) -> Generator[Path]:
    """Yield an empty folder that becomes ``target`` when the block ends without an error.

    Raises:
        TrainingError: the disk is full or not writable.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
            fresh = Path(scratch, "new")
            fresh.mkdir()
            yield fresh
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
    if (folder / "adapter_model.safetensors").is_file():
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
    for path in weight_files(best or last):
        # A copy: the best weights must outlive a full disk.
        shutil.copy2(path, fresh / path.name)
    if best is not None and (fresh / "config.json").is_file():
        shutil.copy2(last / "config.json", fresh / "config.json")
    _check_whole(fresh)


def _check_whole(folder: Path) -> None:
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


def versions() -> dict[str, str]:
    """Versions of what decides the weights."""
    return {
        name: importlib.metadata.version(name)
        for name in ("torch", "transformers", "trl", "peft", "accelerate")
    }


def remove(folder: Path) -> None:
    """Delete a folder of intermediate checkpoints: the finished student takes its place."""
    shutil.rmtree(folder, ignore_errors=True)


def _finish_adapter(folder: Path, address: str) -> None:
    """Refuse an adapter without effect, and name its base by address (not by this machine's path)."""
    path = folder / "adapter_model.safetensors"
    with safe_open(str(path), framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    empty = [name for name, tensor in tensors.items() if tensor.numel() == 0]
    if not tensors or empty:
        raise TrainingError(
            f"the adapter was saved empty ({', '.join(empty[:3])}); train without sharding stage 3"
        )
    if not any(tensor.any() for name, tensor in tensors.items() if "lora_B" in name):
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
