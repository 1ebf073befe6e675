"""Arguments that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RecipePath = Annotated[Path, typer.Argument(metavar="RECIPE", help="A recipe file (YAML).")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Overrides, such as name=trial or train.epochs=2."),
]
Runs = Annotated[Path, typer.Option("--runs", help="The folder that run folders stand in.")]
Checkpoints = Annotated[Path, typer.Option("--checkpoints", help="The folder that checkpoints stand in.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the resolved recipe as JSON and stop; nothing is written.")
]

RUNS = Path("trajectories")
CHECKPOINTS = Path("checkpoints")
