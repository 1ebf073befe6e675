"""What the makers say of their GPUs. No torch here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pipeline.errors import RecipeError

GB: Final = 1e9
"""A GB of a data sheet, taken at its word. Drivers report a little more of most GPUs, never less."""


@dataclass(frozen=True)
class Gpu:
    """One kind of GPU: ``memory`` in bytes, ``flops`` in dense bfloat16 operations a second."""

    name: str
    memory: float
    flops: float


_SHEETS: Final = {
    # Name: GB, dense bfloat16 TFLOP/s with float32 sums. NVIDIA's data sheets and architecture papers;
    # where a sheet only prints the figure "with sparsity", half of it.
    "b200": (180, 2250),
    "h200": (141, 989.5),
    "h100": (80, 989.5),
    "h100-pcie": (80, 756.5),
    "a100": (80, 312),
    "a100-40": (40, 312),
    "l40s": (48, 362),
    "6000ada": (48, 364.2),
    "a6000": (48, 154.8),
    "5090": (32, 209.5),
    "a10": (24, 125),
    "l4": (24, 121),
    "4090": (24, 165.2),
    "3090": (24, 71),
}

GPUS: Final = {name: Gpu(name, memory * GB, rate * 1e12) for name, (memory, rate) in _SHEETS.items()}
"""By the name that the command line takes."""


_NAMED_OTHERWISE: Final = {
    "h100-pcie": {"h100", "pcie"},
    "a100-40": {"a100", "40gb"},
    "6000ada": {"6000", "ada"},
}
"""The words by which drivers name a GPU, where they are not the key itself."""
_ANOTHER: Final = {"laptop", "mobile", "mig", "nvl", "d", "max"}
"""Words that make a name that of a slower relative, or of a part."""


def by_device_name(name: str) -> Gpu | None:
    """The GPU that a driver calls by a name (``NVIDIA H100 80GB HBM3``); None where the sheet has it not."""
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    if words & _ANOTHER:
        return None
    fitting = {key: _NAMED_OTHERWISE.get(key, {key}) for key in GPUS}
    found = [key for key, wanted in fitting.items() if wanted <= words]
    return GPUS[max(found, key=lambda key: len(fitting[key]))] if found else None


def find_gpu(name: str, memory: float | None = None, tflops: float | None = None) -> Gpu:
    """The GPU of a name, or one described by its figures, which replace those of the name.

    Args:
        name: a key of ``GPUS``, or empty where both figures are given.
        memory: GB.
        tflops: dense bfloat16 TFLOP/s.

    Raises:
        RecipeError: no such name, or too little is said.
    """
    known = GPUS.get(name.lower())
    if name and known is None:
        raise RecipeError(
            f"--gpu: {name!r} is none of {', '.join(GPUS)}; give its figures with --memory and --tflops"
        )
    size = memory * GB if memory is not None else known.memory if known else None
    rate = tflops * 1e12 if tflops is not None else known.flops if known else None
    if size is None or rate is None:
        raise RecipeError("say which GPU: --gpu NAME, or both --memory (GB) and --tflops (dense bfloat16)")
    return Gpu(known.name if known else "GPU", size, rate)
