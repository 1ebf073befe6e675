"""``staract report``: write the comparison again from the episodes that are there."""

from __future__ import annotations

from pipeline.cli import options


def report(
    recipe: options.RecipePath,
    overrides: options.Overrides = None,
    runs: options.Runs = options.RUNS,
    checkpoints: options.Checkpoints = options.CHECKPOINTS,
    dry_run: options.DryRun = False,
) -> None:
    """Write report.md, report.json and the bar chart from a run's evaluation, and print the table."""
    from pipeline.cli import stages

    stages.perform(["report"], recipe, overrides or [], runs, checkpoints, dry_run=dry_run)
