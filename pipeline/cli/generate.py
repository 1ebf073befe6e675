"""``staract generate``."""

from __future__ import annotations

from pipeline.cli import options


def generate(
    recipe: options.RecipePath,
    overrides: options.Overrides = None,
    runs: options.Runs = options.RUNS,
    checkpoints: options.Checkpoints = options.CHECKPOINTS,
    dry_run: options.DryRun = False,
) -> None:
    """Collect trajectories: one episode a task and sample, kept whether good or bad."""
    from pipeline.cli import stages

    stages.perform(["generate"], recipe, overrides or [], runs, checkpoints, dry_run=dry_run)
