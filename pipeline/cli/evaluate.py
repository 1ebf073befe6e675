"""``staract evaluate``."""

from __future__ import annotations

from pipeline.cli import options


def evaluate(
    recipe: options.RecipePath,
    overrides: options.Overrides = None,
    runs: options.Runs = options.RUNS,
    checkpoints: options.Checkpoints = options.CHECKPOINTS,
    dry_run: options.DryRun = False,
) -> None:
    """Play the held-out panel with every method and model of the recipe, then report."""
    from pipeline.cli import stages

    stages.perform(["evaluate"], recipe, overrides or [], runs, checkpoints, dry_run=dry_run)
