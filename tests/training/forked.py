"""Two ranks that train together, and are stopped together: a program for ``test_resume``.

    python -m tests.training.forked ROOT:STOP ...

STOP is a step, or 0 for a run that goes on to its end; the runs follow each other. Each rank writes the ids
of its batches to ``ROOT/order-<run>-<rank>.json``. The ranks are forked, so that the libraries are loaded
once; they find each other as ``accelerate launch`` has them do.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import pytest
import torch

from pipeline.training.causal import main
from tests.training.forking import fork_ranks
from tests.training.test_causal import record_order

RANKS = 2


def rank(number: int, port: int, root: Path, run: int, stop_at: int) -> int:
    os.environ |= {
        "RANK": str(number),
        "LOCAL_RANK": str(number),
        "WORLD_SIZE": str(RANKS),
        "LOCAL_WORLD_SIZE": str(RANKS),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "ACCELERATE_USE_CPU": "true",
    }
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        seen = record_order(patch, stop_at or None)
        roots = ["--run-root", str(root / "runs"), "--checkpoint-root", str(root / "checkpoints")]
        status = main([str(root / "recipe.yaml"), *roots])
    (root / f"order-{run}-{number}.json").write_text(json.dumps(seen))
    return status


def together(root: Path, run: int, stop_at: int) -> list[int]:
    """The exit statuses of the ranks of a run."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    return fork_ranks(RANKS, lambda number: rank(number, port, root, run, stop_at))


if __name__ == "__main__":
    for run, (folder, _, stop) in enumerate(argument.rpartition(":") for argument in sys.argv[1:]):
        print("statuses", *together(Path(folder), run, int(stop)), flush=True)
