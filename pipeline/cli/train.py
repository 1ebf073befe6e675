"""``staract train``."""

from __future__ import annotations

from pipeline.cli import options


def train(
    recipe: options.RecipePath,
    overrides: options.Overrides = None,
    runs: options.Runs = options.RUNS,
    checkpoints: options.Checkpoints = options.CHECKPOINTS,
    dry_run: options.DryRun = False,
) -> None:
    """Fine-tune one student a style: a thin wrapper of accelerate launch."""
    from pipeline.cli import stages

    stages.perform(["train"], recipe, overrides or [], runs, checkpoints, dry_run=dry_run)
