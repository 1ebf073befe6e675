"""The stages that make a dataset: generate, select, export."""

from __future__ import annotations

import asyncio

from pipeline.bootstrap.ledger import ledger_table
from pipeline.bootstrap.rules import Excluded
from pipeline.bootstrap.select import select_into
from pipeline.cli.panels import recipe_panel, training_panel
from pipeline.cli.stages import Job
from pipeline.environments.base import Environment
from pipeline.export.write import export_dataset
from pipeline.methods.prompts import exemplar_tasks, spec_for
from pipeline.methods.registry import load_method
from pipeline.models.registry import load_model
from pipeline.recipe.models import ExportRecipe, GenerateRecipe, ModelRecipe, Recipe, SelectRecipe
from pipeline.rollout.engine import Plan, Summary, run_episodes
from pipeline.rollout.progress import RunProgress
from pipeline.trajectories.panels import Panel, save_panel
from pipeline.trajectories.run import recipe_digest
from pipeline.trajectories.store import TrajectoryStore, read_trajectories


def generate(job: Job) -> None:
    """Play the training panel; every episode is kept."""
    recipe = job.recipe.generate or GenerateRecipe()
    environment = job.environment()
    panel = training_panel(job.recipe, environment)
    save_panel(job.run.folder / "panel.json", panel)
    job.log.say(f"generate: {len(panel)} tasks × {recipe.samples}, {recipe.method.name} by {recipe.model}")
    summary = asyncio.run(_play(job, recipe, environment, panel))
    job.log.say(f"generate: {describe(summary)} → {job.run.trajectories}")


async def _play(job: Job, recipe: GenerateRecipe, environment: Environment, panel: Panel) -> Summary:
    model = load_model(job.recipe.models.get(recipe.model, ModelRecipe(address=recipe.model)))
    method = load_method(recipe.method)
    try:
        with TrajectoryStore(job.run.trajectories) as store:
            return await run_episodes(
                Plan(environment, method, recipe.method, model, run_seed=job.recipe.seed),
                panel.tasks,
                store,
                samples=recipe.samples,
                concurrency=recipe.concurrency,
                progress=RunProgress("generate"),
            )
    finally:
        await model.close()


def describe(summary: Summary) -> str:
    """A summary of episodes as one line."""
    outcomes = ", ".join(f"{count} {outcome.value}" for outcome, count in summary.outcomes.most_common())
    before = f" ({summary.kept} more were there before)" if summary.kept else ""
    return f"{summary.done} episodes, {summary.correct} correct{f'; {outcomes}' if outcomes else ''}{before}"


def select(job: Job) -> None:
    """Keep the correct, well-formed and distinct trajectories, and say what fell to which rule."""
    source = job.needs(job.run.trajectories, "generate")
    with TrajectoryStore(source) as store:
        selection = select_into(
            job.run.folder,
            store.read,
            job.recipe.select or SelectRecipe(),
            _excluded(job.recipe, job.environment()),
        )
    job.log.say(ledger_table(selection.ledger))
    job.log.say(f"select: kept {len(selection.ids)} → {job.run.selected}")


def _excluded(recipe: Recipe, environment: Environment) -> Excluded:
    """Tasks that may never be trained on: the evaluation's and the exemplars'."""
    panels = [recipe_panel(environment, recipe.evaluate.panel)] if recipe.evaluate else []
    return Excluded.of(panels, exemplar_tasks(environment))


def export(job: Job) -> None:
    """Write the selected trajectories as a dataset."""
    source = job.needs(job.run.selected, "select")
    recipe = job.recipe.export or ExportRecipe()
    environment = job.environment()
    report = export_dataset(
        job.run.dataset,
        lambda: read_trajectories(source),
        recipe,
        {style: spec_for(environment, style, 0) for style in recipe.styles},
        {"recipe": job.recipe.name, "digest": recipe_digest(job.recipe)},
    )
    for style, part in report.styles.items():
        job.log.say(
            f"export: {style}, {part.trajectories} trajectories, {part.rows} rows → {job.run.dataset}"
        )
