"""``staract merge``: a LoRA student and its base, written as one model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def merge(
    checkpoint: Annotated[Path, typer.Argument(help="A LoRA student's folder.")],
    out: Annotated[Path, typer.Argument(help="The folder to write; it may not be there yet.")],
    dtype: Annotated[
        str, typer.Option(help="float32, float16 or bfloat16; auto is what the base is kept in.")
    ] = "auto",
    dataset: Annotated[
        Path | None, typer.Option(help="An exported dataset to compare on; by default fixed prompts.")
    ] = None,
) -> None:
    """Merge an adapter into its base, and prove that the logits agree.

    What is written loads in plain transformers and in vLLM. Where it would not write what adapter and base
    write together, nothing is left and the status is 2.
    """
    from pipeline.training.merge import merge as work

    work(checkpoint, out, dtype=dtype, dataset=dataset, say=typer.echo)
    typer.echo(f"merge: done → {out}")
