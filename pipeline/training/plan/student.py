"""The student that a recipe would train, built without weights: shapes only, whatever its size."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedModel

from pipeline.errors import ModelError
from pipeline.models.addresses import first_line, local_folder, resolve
from pipeline.models.folders import ADAPTER, base_address
from pipeline.recipe.models import LoraRecipe
from pipeline.training.adapter import with_adapter
from pipeline.trajectories.files import read_json

META: Final = torch.device("meta")
"""As a context: tensors made inside of it have shapes and types, and no content."""


@dataclass(frozen=True, eq=False)
class Base:
    """The config of a base model, and what errors and tables call it."""

    config: Any
    name: str

    @property
    def encoder_decoder(self) -> bool:
        """Whether it is an encoder-decoder."""
        return bool(self.config.is_encoder_decoder)


@dataclass(frozen=True)
class Counts:
    """Parameters. ``body`` is neither input embedding nor head, and is without adapters."""

    total: int
    trained: int
    embedding: int
    head: int
    body: int
    encoder: int
    """Of an encoder-decoder: the part of ``body`` that reads the source."""
    layer: int
    """The largest block that FSDP gathers by itself."""
    rest: int
    """What stands outside such blocks."""
    linear: int = 0
    """The part of ``body`` that four bits would hold: weights of linear layers."""
    matrix: int = 0
    """The largest of them."""


def read_base(address: str, config: Path | None = None) -> Base:
    """The base model at an address, by its config alone.

    Args:
        address: of the recipe; a hub id is asked for only where no ``config`` is given.
        config: a ``config.json`` to take instead.

    Raises:
        ModelError: the config is missing or of no model that transformers knows.
    """
    if config is not None:
        return Base(_from_file(config), address)
    found = resolve(address)
    if found.kind == "new":
        return Base(_from_file(Path(found.name)), address)
    if found.kind == "hub":
        return Base(_from_hub(found.name), address)
    folder = local_folder(address)
    if (folder / ADAPTER).is_file():
        return read_base(base_address(folder))
    return Base(_from_file(folder / "config.json"), address)


def build(
    base: Base,
    *,
    dtype: torch.dtype = torch.float32,
    lora: LoraRecipe | None = None,
    uniform: bool = False,
    checkpointing: bool = False,
) -> Any:
    """The student as training would hold it, on the default device (inside of ``META`` without content).

    Args:
        base: the model to start from.
        dtype: of its weights. Adapters are in float32 unless ``uniform``.
        lora: an adapter, if there is one.
        uniform: also hold adapters in ``dtype``, as DeepSpeed does.
        checkpointing: compute activations twice.

    Raises:
        ModelError: transformers cannot build a model of the config.
    """
    library: Any = AutoModelForSeq2SeqLM if base.encoder_decoder else AutoModelForCausalLM
    try:
        model: Any = library.from_config(copy.deepcopy(base.config), dtype=dtype, trust_remote_code=False)
    except Exception as error:
        raise ModelError(
            f"no model can be built from the config of {base.name!r}: {first_line(error)}"
        ) from None
    if lora is not None:
        model = with_adapter(model, lora)
        model = model.to(dtype) if uniform else model
    if checkpointing:
        model.enable_input_require_grads()
        model.activation_checkpointing_enable()
    return model.train()


def inner(model: Any) -> PreTrainedModel:
    """The transformers model, also where an adapter is wrapped around it."""
    return model.get_base_model() if hasattr(model, "peft_config") else model


@lru_cache
def count(base: Base, lora: LoraRecipe | None) -> Counts:
    """Count the parameters of a student.

    Raises:
        ModelError: as ``build``.
    """
    with META:
        model = build(base, lora=lora)
        sizes = {name: weight.numel() for name, weight in model.named_parameters()}
        trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
        plain: Any = inner(model)
        embedding: Any = plain.get_input_embeddings().weight
        head: Any = plain.get_output_embeddings().weight
        outside = embedding.numel() + (0 if head is embedding else head.numel())
        added = sum(size for name, size in sizes.items() if ".lora_" in name)
        matrices = [size.weight.numel() for size in _linear(plain)]
        layers = [_size(module) for module in plain.modules() if _is_block(plain, module)]
        return Counts(
            total=sum(sizes.values()),
            trained=trained,
            embedding=embedding.numel(),
            head=head.numel(),
            body=sum(sizes.values()) - added - outside,
            encoder=_size(plain.get_encoder()) - embedding.numel() if base.encoder_decoder else 0,
            layer=max(layers, default=0),
            rest=sum(sizes.values()) - sum(layers),
            linear=sum(matrices),
            matrix=max(matrices, default=0),
        )


def _size(module: Any) -> int:
    return sum(weight.numel() for weight in module.parameters())


def _linear(model: Any) -> list[torch.nn.Linear]:
    """Linear layers but the head, without adapters."""
    head, named = model.get_output_embeddings(), model.named_modules()
    return [
        module
        for name, module in named
        if isinstance(module, torch.nn.Linear) and module is not head and ".lora_" not in name
    ]


def _is_block(model: Any, module: Any) -> bool:
    return type(module).__name__ in (getattr(model, "_no_split_modules", None) or ())


def _from_file(path: Path) -> Any:
    values: Any = read_json(path)
    if not isinstance(values, dict) or not isinstance(values.get("model_type"), str):
        raise ModelError(f"{path} is no config of a model: it lacks model_type")
    try:
        return AutoConfig.for_model(**values)
    except Exception as error:
        raise ModelError(f"{path} is no config that transformers can read: {first_line(error)}") from None


def _from_hub(name: str) -> Any:
    try:
        return AutoConfig.from_pretrained(name, trust_remote_code=False)
    except Exception as error:
        raise ModelError(
            f"the config of {name!r} cannot be had from the hub ({first_line(error)}); give a copy of its "
            "config.json with --config FILE (recipes/configs holds some)"
        ) from None
