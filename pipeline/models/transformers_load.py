"""Loading local models, causal and encoder-decoder: precision, device, adapters, quantised files."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import shutil
import sys
import tempfile
import warnings
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, get_peft_model_state_dict
from safetensors import safe_open
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    GenerationConfig,
    GgufConfig,
)
from transformers.utils import GENERATION_CONFIG_NAME
from transformers.utils import logging as transformers_logging

from pipeline.errors import ModelError
from pipeline.models.addresses import check_stamp, first_line, load_tokenizer, local_folder
from pipeline.models.folders import ADAPTER, base_address, whole_base

_NO_EFFECT = "the answers would be the base model's; train it again"


def pick_dtype(wanted: str = "auto") -> torch.dtype:
    """The precision to compute in.

    ``auto`` is bfloat16 on a GPU and on processors with bfloat16 arithmetic (AVX512-BF16 or AMX);
    elsewhere bfloat16 is emulated, several times slower than float32, so it is float32.

    Raises:
        ModelError: ``wanted`` is none of auto, float32, bfloat16.
    """
    if wanted == "auto":
        return torch.bfloat16 if torch.cuda.is_available() or _has_bfloat16() else torch.float32
    chosen = {"float32": torch.float32, "bfloat16": torch.bfloat16}.get(wanted)
    if chosen is None:
        raise ModelError(f"dtype {wanted!r} is none of auto, float32, bfloat16")
    return chosen


def pick_device(wanted: str = "auto") -> torch.device:
    """The device to compute on: ``auto`` is the first GPU if there is one, else the processor.

    Raises:
        ModelError: ``wanted`` is no device of this machine.
    """
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device {wanted!r} cannot be used here: {first_line(error)}") from error
    return device


def describe_device() -> str:
    """What ``auto`` means here, in one line for people."""
    device, dtype = pick_device(), str(pick_dtype()).removeprefix("torch.")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "the processor"
    return f"torch computes on {name} in {dtype}, with {torch.get_num_threads()} threads"


def load_causal(address: str, dtype: torch.dtype, device: torch.device | str) -> tuple[Any, Any]:
    """Load a causal model and its tokeniser, in evaluation mode; an adapter is merged in memory.

    Only safetensors are read and no code of the model's own is run.

    Raises:
        ModelError: the model is missing, damaged, stamped with another tokeniser or template, or is
            an adapter without effect.
    """
    return _load(address, dtype, device, AutoModelForCausalLM)


def load_quantized(address: str, dtype: torch.dtype, device: torch.device | str) -> tuple[Any, Any]:
    """Load a causal model with the weights of its linear layers in four bits (NF4, quantised twice).

    Embeddings, norms and the head stay in ``dtype``, in which products are computed as well. A GGUF file is
    unpacked before: what it holds is already rounded in another way.

    Source: QLoRA (Dettmers et al. 2023), section 3.

    Raises:
        ModelError: bitsandbytes is missing, the model is an adapter; or as ``load_causal``.
    """
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ModelError(
            "train.lora.quantize: nf4 needs bitsandbytes, which is not installed; run: "
            "pip install 'staract[qlora]'"
        )
    folder = local_folder(address)
    if (folder / ADAPTER).is_file():
        raise ModelError(
            f"{str(folder)!r} is an adapter, which four bits would round away; merge it into its base with "
            "`staract merge` and train on that"
        )
    four_bits = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )
    model = _load_full(
        folder, dtype, AutoModelForCausalLM, quantization_config=four_bits, device_map={"": device}
    )
    tokenizer = load_tokenizer(folder)
    check_stamp(folder, tokenizer)
    return model.eval(), tokenizer


def load_seq2seq(address: str, dtype: torch.dtype, device: torch.device | str) -> tuple[Any, Any]:
    """Load an encoder-decoder (T5) as ``load_causal`` loads a causal model.

    Raises:
        ModelError: as ``load_causal``; or the model is no encoder-decoder.
    """
    return _load(address, dtype, device, AutoModelForSeq2SeqLM)


def unpack_gguf(source: Path, target: Path) -> None:
    """Dequantise a GGUF file into a folder of bfloat16 safetensors with its tokeniser.

    The folder appears whole or not at all; where two processes unpack at once, the first one wins.

    Raises:
        ModelError: the file cannot be read or the folder cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise ModelError(
            f"model cache {str(target.parent)!r} cannot be written ({error}); set STARACT_CACHE"
        ) from error
    try:
        _write_unpacked(source, scratch)
        _move_into_place(scratch, target)
    except Exception as error:
        raise ModelError(
            f"{str(source)!r} cannot be unpacked into {str(target)!r}: {first_line(error)}"
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _write_unpacked(source: Path, folder: Path) -> None:
    transformers_logging.disable_progress_bar()
    settings: dict[str, Any] = {
        "gguf_file": source.name,
        "local_files_only": True,
        "trust_remote_code": False,
    }
    print(f"unpacking {source.name}, once", file=sys.stderr, flush=True)
    # The library's own bar takes no switch; it would fill a log.
    with contextlib.redirect_stderr(io.StringIO()):
        model: Any = AutoModelForCausalLM.from_pretrained(
            str(source.parent),
            quantization_config=GgufConfig(dequantize=True),
            dtype=torch.bfloat16,
            **settings,
        )
    tokenizer: Any = AutoTokenizer.from_pretrained(str(source.parent), **settings)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _move_into_place(scratch: Path, target: Path) -> None:
    # mkdtemp makes the folder private, and safetensors the weights; a cache that several users share must
    # stay readable.
    scratch.chmod(0o755)
    for path in scratch.iterdir():
        path.chmod(0o644)
    try:
        scratch.rename(target)
    except OSError:
        if not (target / "config.json").is_file():
            raise


def _has_bfloat16() -> bool:
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, probe)() for probe in probes)


def _load(
    address: str, dtype: torch.dtype, device: torch.device | str, library: type[Any]
) -> tuple[Any, Any]:
    folder = local_folder(address)
    if (folder / ADAPTER).is_file():
        model, tokenizer = _load_adapter(folder, dtype, library)
    else:
        model, tokenizer = _load_full(folder, dtype, library), load_tokenizer(folder)
    check_stamp(folder, tokenizer)
    return model.to(device).eval(), tokenizer


def _load_full(folder: Path, dtype: torch.dtype, library: type[Any], **how: Any) -> Any:
    transformers_logging.disable_progress_bar()
    settings: dict[str, Any] = {"use_safetensors": True, "trust_remote_code": False, "local_files_only": True}
    try:
        return library.from_pretrained(str(folder), dtype=dtype, **settings, **how)
    except Exception as error:
        raise ModelError(f"model {str(folder)!r} cannot be loaded: {first_line(error)}") from error


def _load_adapter(folder: Path, dtype: torch.dtype, library: type[Any]) -> tuple[Any, Any]:
    names = _adapter_tensors(folder)
    base = base_address(folder)
    whole_base(folder)
    # The base may be an adapter too: a student that was corrected afterwards.
    model, tokenizer = _load(base, dtype, "cpu", library)
    try:
        with peft_unheard():
            adapted: Any = PeftModel.from_pretrained(
                model, str(folder), use_safetensors=True, local_files_only=True
            )
    except Exception as error:
        raise ModelError(f"adapter {str(folder)!r} does not fit {base!r}: {first_line(error)}") from error
    _check_effect(folder, adapted, names)
    _take_stops(model, folder)
    own = (folder / "tokenizer_config.json").is_file()
    return adapted.merge_and_unload(), load_tokenizer(folder) if own else tokenizer


@contextlib.contextmanager
def peft_unheard() -> Generator[None]:
    """Keep a warning from users: peft asks transformers a question by a name that is going out of use."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
        yield


def _take_stops(model: Any, folder: Path) -> None:
    """Let the model stop where the adapter learned to: its base may end a turn with nothing."""
    if not (folder / GENERATION_CONFIG_NAME).is_file():
        return
    try:
        stops = GenerationConfig.from_pretrained(str(folder), local_files_only=True).eos_token_id
    except Exception as error:
        path = str(folder / GENERATION_CONFIG_NAME)
        raise ModelError(f"{path!r} cannot be read: {first_line(error)}") from error
    if stops is not None:
        model.generation_config.eos_token_id = stops


def _adapter_tensors(folder: Path) -> set[str]:
    """The names of an adapter's tensors, none of which may be empty."""
    path = folder / "adapter_model.safetensors"
    if not path.is_file():
        raise ModelError(f"adapter {str(folder)!r} holds no adapter_model.safetensors")
    try:
        with safe_open(str(path), framework="pt") as file:
            shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except Exception as error:
        raise ModelError(f"{str(path)!r} cannot be read: {first_line(error)}") from error
    if not shapes or any(0 in shape or not shape for shape in shapes.values()):
        raise ModelError(f"adapter has no effect: {str(path)!r} holds no weights or empty ones; {_NO_EFFECT}")
    return set(shapes)


def _check_effect(folder: Path, adapted: Any, names: set[str]) -> None:
    stray = sorted(names - set(get_peft_model_state_dict(adapted)))
    if stray:
        raise ModelError(
            f"adapter has no effect: {len(stray)} of {len(names)} weights in {str(folder)!r} match "
            f"nothing in its base model (first: {stray[0]!r}); {_NO_EFFECT}"
        )
    if not any(bool(delta.any()) for delta in _deltas(adapted)):
        raise ModelError(
            f"adapter has no effect: all that {str(folder)!r} adds to its base is zero; {_NO_EFFECT}"
        )


def _deltas(adapted: Any) -> Iterable[torch.Tensor]:
    """What each adapted layer adds to its weight, one at a time."""
    for module in adapted.modules():
        if hasattr(module, "get_delta_weight") and "default" in getattr(module, "lora_A", {}):
            yield module.get_delta_weight("default")
