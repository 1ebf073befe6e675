"""``staract export``."""

from __future__ import annotations

from pipeline.cli import options


def export(
    recipe: options.RecipePath,
    overrides: options.Overrides = None,
    runs: options.Runs = options.RUNS,
    checkpoints: options.Checkpoints = options.CHECKPOINTS,
    dry_run: options.DryRun = False,
) -> None:
    """Write the selected trajectories as a dataset that datasets.load_dataset reads."""
    from pipeline.cli import stages

    stages.perform(["export"], recipe, overrides or [], runs, checkpoints, dry_run=dry_run)
