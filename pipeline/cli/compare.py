"""The stages that need the dataset: train, evaluate, report."""

from __future__ import annotations

import asyncio
from typing import Final

from pipeline.cli.panels import check_unseen
from pipeline.cli.stages import Job
from pipeline.environments.base import Environment
from pipeline.environments.wiki.duplicates import duplicates
from pipeline.errors import TrainingError
from pipeline.evaluation.curves import vote_curves
from pipeline.evaluation.entrants import entrants
from pipeline.evaluation.metrics import SCORE, Metric
from pipeline.evaluation.play import play_panel
from pipeline.evaluation.report import build_report, terminal_table, write_report
from pipeline.evaluation.rows import Group, Settings
from pipeline.recipe.models import TrainRecipe
from pipeline.rollout.panels import recipe_panel
from pipeline.rollout.progress import RunProgress
from pipeline.trajectories.panels import Panel, save_panel
from pipeline.trajectories.store import TrajectoryStore

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
    """Play the held-out panel with every entry, then write the report."""
    environment = job.environment()
    _write(job, environment, *_play(job, environment))


def report(job: Job) -> None:
    """Write the report again; episodes that are missing are played."""
    job.needs(job.run.evaluation / "trajectories.jsonl", "evaluate")
    evaluate(job)


def _play(job: Job, environment: Environment) -> tuple[Panel, list[Group]]:
    panel = recipe_panel(environment, job.evaluation().panel)
    players = entrants(job.recipe, job.checkpoints)
    save_panel(job.run.evaluation / "panel.json", panel)
    job.log.say(f"evaluate: {len(players)} entries × {len(panel)} held-out tasks")
    if repeated := duplicates(panel.tasks).sentence():
        job.log.say(f"evaluate: {repeated}")
    with TrajectoryStore(job.run.evaluation / "trajectories.jsonl") as store:
        playing = play_panel(
            environment,
            panel,
            players,
            store,
            concurrency=job.evaluation().concurrency,
            run_seed=job.recipe.seed,
            progress=RunProgress,
        )
        return panel, asyncio.run(playing)


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
