"""The stages of a run, in order, each reading what the one before it wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from pipeline.cli.output import Log
from pipeline.cli.panels import recipe_panel, training_panel
from pipeline.environments.base import Environment
from pipeline.environments.registry import load_environment
from pipeline.errors import RecipeError, StoreError
from pipeline.recipe.load import load_recipe
from pipeline.recipe.models import MethodRecipe, Recipe
from pipeline.trajectories.run import Run, open_run
from pipeline.trajectories.schema import Trajectory, digest

STAGES = ("generate", "select", "export", "train", "evaluate")


@dataclass(frozen=True)
class Job:
    """One call of the command line: a recipe, where it lies, and the folders it writes into."""

    recipe: Recipe
    path: Path
    overrides: Sequence[str]
    run: Run
    checkpoints: Path
    log: Log

    def environment(self) -> Environment:
        return load_environment(self.recipe.environment)


def perform(
    stages: Sequence[str],
    path: Path,
    overrides: Sequence[str],
    runs: Path,
    checkpoints: Path,
    *,
    dry_run: bool,
) -> None:
    """Run stages of a recipe. A stage that the recipe lacks is passed over when several are asked for.

    Raises:
        StaractError: whatever is wrong with the input; nothing half-written is left.
    """
    recipe = load_recipe(path, overrides)
    if dry_run:
        typer.echo(recipe.model_dump_json(indent=2))
        return
    wanted = _wanted(stages, recipe)
    run = open_run(runs, recipe, sections=_sections(wanted))
    for stage in wanted:
        with Log(run.logs / f"{stage}.log") as log:
            log.say(f"{stage}: {recipe.name}")
            _STAGES[stage](Job(recipe, path, overrides, run, checkpoints, log))


def _wanted(stages: Sequence[str], recipe: Recipe) -> list[str]:
    """The stages that the recipe has. Asking for one alone that it lacks is an error."""
    present = [stage for stage in stages if getattr(recipe, _section_of(stage)) is not None]
    if not present:
        raise RecipeError(f"Recipe {recipe.name!r} has no {_section_of(stages[0])} section.")
    return present


def _section_of(stage: str) -> str:
    return "evaluate" if stage == "report" else stage


def _sections(stages: Sequence[str]) -> list[str]:
    """What may not have changed since the run folder was made: the stages asked for and those before."""
    last = max(STAGES.index(_section_of(stage)) for stage in stages)
    return ["seed", "environment", "models", *STAGES[: last + 1]]


def _generate(job: Job) -> None:
    from pipeline.methods.registry import load_method
    from pipeline.models.registry import load_model
    from pipeline.rollout.engine import run_episodes
    from pipeline.trajectories.panels import save_panel
    from pipeline.trajectories.store import TrajectoryStore

    environment = job.environment()
    panel = training_panel(job.recipe, environment)
    recipe = job.recipe.generate
    assert recipe is not None
    save_panel(job.run.folder / "panel.json", panel)
    with TrajectoryStore(job.run.trajectories) as store:
        summary = asyncio.run(
            _closing(
                load_model(job.recipe.models[recipe.model]),
                lambda model: run_episodes(
                    panel.tasks,
                    environment=environment,
                    method=load_method(recipe.method),
                    limits=recipe.method,
                    model=model,
                    store=store,
                    samples=recipe.samples,
                    concurrency=recipe.concurrency,
                    run_seed=job.recipe.seed,
                ),
            )
        )
    job.log.say(str(summary))


_STAGES: dict[str, Callable[[Job], None]] = {}
