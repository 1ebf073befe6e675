"""The stages that need the dataset: train, evaluate, report."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pipeline.cli.panels import check_unseen
from pipeline.cli.playing import play, store_of
from pipeline.cli.stages import Job
from pipeline.environments.base import Environment
from pipeline.errors import TrainingError
from pipeline.evaluation.curves import vote_curves
from pipeline.evaluation.entrants import entrants
from pipeline.evaluation.metrics import SCORE, Metric
from pipeline.evaluation.report import build_report, terminal_table, write_report
from pipeline.evaluation.rows import Group, Settings
from pipeline.recipe.models import TrainRecipe
from pipeline.rollout.panels import recipe_panel
from pipeline.trajectories.panels import Panel

INTERRUPTED: Final = 130
"""The exit status of a program that was interrupted."""


def train(job: Job) -> None:
    """Fine-tune one student a style, in a child process of accelerate launch."""
    from pipeline.training.launch import train as launch

    recipe = job.recipe.train or TrainRecipe()
    dataset = job.run.folder.with_name(recipe.run or job.recipe.name) / "dataset"
    job.needs(dataset / "export.json", "export")
    if recipe.run and job.recipe.evaluate:
        held_out = recipe_panel(job.environment(), job.recipe.evaluate.panel)
        check_unseen(held_out, dataset.with_name("selected.jsonl"))
    status = launch(
        job.path,
        job.overrides,
        accelerate=recipe.accelerate,
        run_root=job.run.folder.parent,
        checkpoint_root=job.checkpoints,
    )
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    if status:
        raise TrainingError(f"Training ended with status {status}; what it said stands above.")
    job.log.say(f"train: done → {job.checkpoints / job.recipe.name}")


def evaluate(job: Job) -> None:
    """Play the held-out panel with every entry, or with every checkpoint of a folder; then report."""
    checkpoints = job.evaluation().checkpoints
    if checkpoints is not None:
        # Imported when needed: it reads checkpoints with torch.
        from pipeline.cli.sweep import sweep

        sweep(job, Path(checkpoints).expanduser())
        return
    environment = job.environment()
    players = entrants(job.recipe, job.checkpoints)
    _write(job, environment, *play(job, environment, players))


def report(job: Job) -> None:
    """Write the report again; episodes that are missing are played."""
    job.needs(store_of(job), "evaluate")
    evaluate(job)


def _write(job: Job, environment: Environment, panel: Panel, groups: list[Group]) -> None:
    recipe = job.evaluation()
    settings = Settings(_metric(groups), recipe.confidence, recipe.resamples, recipe.seed)
    votes = vote_curves(groups, environment, settings)
    kinds = getattr(environment, "kind_groups", None)
    report = build_report(job.recipe.name, panel, groups, settings, votes, kinds)
    write_report(job.run.report, report)
    job.log.show(terminal_table(report))
    job.log.say(f"report → {job.run.report}/report.md")


def _metric(groups: list[Group]) -> Metric:
    """Exact match or points, where any episode is measured so; else the verdict."""
    measured = {
        name for group in groups for trajectory in group.trajectories for name in trajectory.grade.metrics
    }
    return "em" if "em" in measured else "score" if SCORE in measured else "accuracy"
