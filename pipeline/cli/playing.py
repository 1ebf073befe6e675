"""A comparison is played: the evaluation's panel, its episodes in a folder of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from pipeline.cli.stages import Job
from pipeline.environments.base import Environment
from pipeline.environments.wiki.duplicates import duplicates
from pipeline.evaluation.entrants import Entrant
from pipeline.evaluation.play import play_panel
from pipeline.evaluation.rows import Group
from pipeline.rollout.crew import gathered
from pipeline.rollout.panels import recipe_panel
from pipeline.rollout.progress import RunProgress
from pipeline.trajectories.panels import Panel, save_panel
from pipeline.trajectories.store import TrajectoryStore


def results(job: Job) -> Path:
    """The folder of an evaluation's episodes; those of a sweep over checkpoints lie apart."""
    return job.run.evaluation if job.evaluation().checkpoints is None else job.run.folder / "sweep"


def store_of(job: Job) -> Path:
    """The file that the episodes are kept in."""
    return results(job) / "trajectories.jsonl"


def play(job: Job, environment: Environment, players: Sequence[Entrant]) -> tuple[Panel, list[Group]]:
    """Play what the store still lacks; the panel, and the episodes of each player in order.

    Raises:
        ModelError: a model cannot be loaded or asked, or is asked otherwise than it was trained.
        StoreError: the folder is of another panel, or cannot be written.
    """
    recipe = job.evaluation()
    panel = recipe_panel(environment, recipe.panel)
    save_panel(results(job) / "panel.json", panel)
    job.log.say(f"evaluate: {len(players)} entries × {len(panel)} held-out tasks")
    if repeated := duplicates(panel.tasks).sentence():
        job.log.say(f"evaluate: {repeated}")
    return panel, asyncio.run(_play(job, environment, panel, players))


async def _play(job: Job, environment: Environment, panel: Panel, players: Sequence[Entrant]) -> list[Group]:
    with TrajectoryStore(store_of(job)) as store:
        async with gathered(job.recipe) as crew:
            return await play_panel(
                environment,
                panel,
                players,
                store,
                concurrency=job.evaluation().concurrency,
                run_seed=job.recipe.seed,
                progress=RunProgress,
                crew=crew,
            )
