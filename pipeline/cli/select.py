"""``staract select``."""

from __future__ import annotations

from pipeline.cli import options


def select(
    recipe: options.RecipePath,
    overrides: options.Overrides = None,
    runs: options.Runs = options.RUNS,
    checkpoints: options.Checkpoints = options.CHECKPOINTS,
    dry_run: options.DryRun = False,
) -> None:
    """Keep the correct, well-formed, distinct trajectories, and write a ledger of the rest."""
    from pipeline.cli import stages

    stages.perform(["select"], recipe, overrides or [], runs, checkpoints, dry_run=dry_run)
