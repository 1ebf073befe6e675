"""The verbs that perform stages of a recipe: all of them, or one each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

STAGES: Final = ("generate", "select", "export", "train", "evaluate", "rounds")
"""In the order in which they are performed."""

VERBS: Final = {
    "run": (STAGES, "Perform every stage of a recipe: generate, select, export, train, evaluate, rounds."),
    "generate": (["generate"], "Collect trajectories: one episode a task and sample, kept good or bad."),
    "select": (["select"], "Keep the correct, well-formed, distinct trajectories; write a ledger."),
    "export": (["export"], "Write the selected trajectories as a dataset for datasets.load_dataset."),
    "train": (["train"], "Fine-tune one student a style: a thin wrapper of accelerate launch."),
    "evaluate": (
        ["evaluate"],
        "Play the held-out panel with every entry, or with checkpoints=FOLDER, then report.",
    ),
    "rounds": (["rounds"], "STaR: the student generates, failures get a hint, the base is trained anew."),
    "report": (["report"], "Write table, tests and chart again from the episodes that are there."),
}
"""Each verb's stages, and what ``--help`` says of it."""

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


def add_verbs(app: typer.Typer) -> None:
    """Register every verb of ``VERBS``."""
    for name, (stages, summary) in VERBS.items():
        app.command(name, help=summary)(_verb(stages))


def _verb(stages: Sequence[str]) -> Callable[..., None]:
    def perform(
        recipe: RecipePath,
        overrides: Overrides = None,
        runs: Runs = Path("trajectories"),
        checkpoints: Checkpoints = Path("checkpoints"),
        dry_run: DryRun = False,
    ) -> None:
        from pipeline.cli import stages as work

        work.perform(stages, recipe, overrides or [], runs, checkpoints, dry_run=dry_run)

    return perform
