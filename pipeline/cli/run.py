"""``staract run``."""

from __future__ import annotations

from pipeline.cli import options


def run(
    recipe: options.RecipePath,
    overrides: options.Overrides = None,
    runs: options.Runs = options.RUNS,
    checkpoints: options.Checkpoints = options.CHECKPOINTS,
    dry_run: options.DryRun = False,
) -> None:
    """Run every stage of a recipe: generate, select, export, train, evaluate, report."""
    from pipeline.cli import stages

    stages.perform([*stages.STAGES], recipe, overrides or [], runs, checkpoints, dry_run=dry_run)
