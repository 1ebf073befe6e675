"""What kind of model lies in a folder, read from its config without loading it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline.errors import ModelError
from pipeline.models.addresses import local_folder, read_stamp

ADAPTER = "adapter_config.json"
"""The file that makes a folder an adapter."""


def is_encoder_decoder(address: str) -> bool:
    """Whether a local model, or the base of an adapter, has an encoder and a decoder.

    Raises:
        ModelError: the model is not on this machine and cannot be had, or its config is unreadable.
    """
    folder = local_folder(address)
    folder = whole_base(folder)
    path = folder / "config.json"
    try:
        config: Any = json.loads(path.read_text(encoding="utf-8"))
        return bool(config.get("is_encoder_decoder", False))
    except (OSError, ValueError, AttributeError) as error:
        raise ModelError(f"model config {str(path)!r} cannot be read: {error}") from error


def base_address(folder: Path) -> str:
    """The model that an adapter was trained on.

    Raises:
        ModelError: the adapter's config is unreadable or names none.
    """
    try:
        config: dict[str, Any] = json.loads((folder / ADAPTER).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"adapter {str(folder)!r} has an unreadable {ADAPTER}: {error}") from error
    base: Any = read_stamp(folder).get("base") or config.get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise ModelError(f"adapter {str(folder)!r} names no base model in {ADAPTER}")
    return base


def whole_base(folder: Path) -> Path:
    """The folder of the whole model at the bottom of an adapter, or of adapters upon adapters.

    Raises:
        ModelError: one names no base, or one that is not there; or they stand upon each other in a circle.
    """
    seen: set[Path] = set()
    while (folder / ADAPTER).is_file():
        if folder.resolve() in seen:
            raise ModelError(f"adapter {str(folder)!r} is its own base; name the model it was trained on")
        seen.add(folder.resolve())
        folder = local_folder(base_address(folder))
    return folder
