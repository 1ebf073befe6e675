"""The stages that make a dataset: generate, select, export."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace

from pipeline.bootstrap.ledger import ledger_table
from pipeline.bootstrap.pairs import pair_into
from pipeline.bootstrap.rules import Excluded
from pipeline.bootstrap.select import select_into
from pipeline.cli.panels import training_panel
from pipeline.cli.stages import Job
from pipeline.environments.base import Environment
from pipeline.environments.wiki.duplicates import duplicates
from pipeline.errors import RecipeError, StoreError
from pipeline.evaluation.entrants import find_swift
from pipeline.evaluation.play import loaded
from pipeline.export.write import export_dataset
from pipeline.methods.hybrids import Hybrid
from pipeline.methods.prompts import exemplar_tasks, spec_for
from pipeline.methods.registry import load_hybrid
from pipeline.recipe.models import (
    ExportRecipe,
    GenerateRecipe,
    ModelRecipe,
    PairsRecipe,
    Recipe,
    SelectRecipe,
)
from pipeline.rendering.base import PromptSpec
from pipeline.rollout.crew import gathered, model_for
from pipeline.rollout.engine import REPEATED, Summary, run_episodes
from pipeline.rollout.goal import Goal, check_prices
from pipeline.rollout.hybrid import Host, joined, play_parts
from pipeline.rollout.panels import recipe_panel
from pipeline.rollout.progress import RunProgress
from pipeline.trajectories.pairs import PAIRS, Pair, read_pairs
from pipeline.trajectories.panels import Panel, save_panel
from pipeline.trajectories.run import recipe_digest
from pipeline.trajectories.schema import Trajectory, digest
from pipeline.trajectories.store import TrajectoryStore, read_trajectories


def generate(job: Job) -> None:
    """Play the training panel, to its end, a target or a budget; every episode is kept."""
    recipe = job.recipe.generate or GenerateRecipe()
    check_prices(recipe, _model(job, recipe))
    environment = job.environment()
    panel = training_panel(job.recipe, environment)
    save_panel(job.run.folder / "panel.json", panel)
    if repeated := duplicates(panel.tasks).sentence():
        job.log.say(f"generate: {repeated}")
    job.log.say(f"generate: {asked(recipe, len(panel))}, {recipe.method.name} by {recipe.model}")
    summary = asyncio.run(_play(job, recipe, environment, panel))
    job.log.say(f"generate: {describe(summary)} → {job.run.trajectories}")
    for line in ending(summary, Goal.of(recipe)):
        job.log.say(f"generate: {line}")


async def _play(job: Job, recipe: GenerateRecipe, environment: Environment, panel: Panel) -> Summary:
    hybrid = load_hybrid(recipe.method)
    fast = find_swift(job.recipe, recipe.method, job.checkpoints)
    extra = {"swift_checkpoint": digest(fast.trained)} if fast and fast.trained else {}
    async with gathered(job.recipe) as crew:
        model = model_for(crew, _model(job, recipe))
        try:
            async with loaded(fast, crew) as swift:
                host = Host(environment, model, job.recipe.seed, extra, swift, crew)
                if hybrid:
                    return await _play_hybrid(job, recipe, hybrid, host, panel)
                return await _play_method(job, recipe, host, panel)
        finally:
            await model.close()


async def _play_method(job: Job, recipe: GenerateRecipe, host: Host, panel: Panel) -> Summary:
    with TrajectoryStore(job.run.trajectories) as store:
        return await run_episodes(
            host.plan(recipe.method),
            panel.tasks,
            store,
            samples=recipe.samples,
            concurrency=recipe.concurrency,
            progress=RunProgress("generate", say=job.log.say),
            goal=Goal.of(recipe),
        )


async def _play_hybrid(job: Job, recipe: GenerateRecipe, hybrid: Hybrid, host: Host, panel: Panel) -> Summary:
    """Play the parts into a file of their own, and join them into the run's trajectories."""
    if Goal.of(recipe).bounded:
        raise RecipeError(f"generate: {hybrid.name!r} plays its whole panel; leave out until and the budgets")
    with (
        TrajectoryStore(job.run.folder / "parts.jsonl") as parts,
        TrajectoryStore(job.run.trajectories) as store,
    ):
        await play_parts(
            hybrid,
            host,
            panel.tasks,
            parts,
            samples=recipe.samples,
            concurrency=recipe.concurrency,
            progress=RunProgress,
        )
        summary = Summary(owed=len(panel) * recipe.samples)
        store.lock()
        held = store.outcomes()
        for trajectory in joined(hybrid, host, panel.tasks, parts, recipe.samples):
            if held.get(trajectory.id) in (None, *REPEATED):
                store.append(trajectory)
                summary.add(trajectory)
            else:
                summary.kept += 1
        return summary


def _model(job: Job, recipe: GenerateRecipe) -> ModelRecipe:
    return job.recipe.models.get(recipe.model, ModelRecipe(address=recipe.model))


def asked(recipe: GenerateRecipe, tasks: int) -> str:
    """What a recipe asks of a panel of so many tasks, in words."""
    panel, goal = f"{tasks:,} tasks × {recipe.samples}", Goal.of(recipe)
    if goal.until is not None:
        panel = f"up to {panel} until {goal.until:,} are correct"
    return f"{panel}, {goal.budgets()}" if goal.budgets() else panel


def describe(summary: Summary) -> str:
    """A summary of episodes as one line."""
    outcomes = ", ".join(f"{count} {outcome.value}" for outcome, count in summary.outcomes.most_common())
    before = f" ({summary.kept} more were there before)" if summary.kept else ""
    return f"{summary.done} episodes, {summary.correct} correct{f'; {outcomes}' if outcomes else ''}{before}"


def ending(summary: Summary, goal: Goal) -> list[str]:
    """Why a run with a goal ended, and what its target takes where it was not reached."""
    got = f"{summary.counted:,} correct"
    if goal.until is not None:
        got = f"{summary.counted:,} of {goal.until:,} correct"
    lines = {
        "target": f"the target is reached: {got}",
        "budget": f"the budget ended the run ({goal.budgets()}): {got}; what is there is kept and used",
        "panel": f"the whole panel is played: {got}" if goal.bounded else "",
    }
    forecast = [str(summary.projection)] if summary.projection and summary.ended != "target" else []
    return [*filter(None, [lines[summary.ended]]), *forecast]


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
    """Tasks that may never be trained on: the evaluation's, the exemplars', and those the recipe names."""
    wanted = list(recipe.select.exclude) if recipe.select else []
    if recipe.evaluate:
        wanted.append(recipe.evaluate.panel)
    return Excluded.of([recipe_panel(environment, panel) for panel in wanted], exemplar_tasks(environment))


def _student_spec(environment: Environment, style: str, format_: str) -> PromptSpec:
    """The prompt's fixed part as a student is served it: no exemplars, and tools where it calls them."""
    spec = spec_for(environment, style, 0)
    return replace(spec, tools=environment.tools) if format_ == "tools" else spec


def export(job: Job) -> None:
    """Write the selected trajectories, or pairs of all that were played, as a dataset."""
    recipe = job.recipe.export or ExportRecipe()
    environment = job.environment()
    read = _paired(job, recipe.pairs, environment) if recipe.pairs else _selected(job)
    report = export_dataset(
        job.run.dataset,
        read,
        recipe,
        {style: _student_spec(environment, style, recipe.format) for style in recipe.styles},
        {"recipe": job.recipe.name, "digest": recipe_digest(job.recipe)},
    )
    for style, part in report.styles.items():
        job.log.say(
            f"export: {style}, {part.trajectories} trajectories, {part.rows} rows → {job.run.dataset}"
        )


def _selected(job: Job) -> Callable[[], Iterable[Trajectory]]:
    source = job.needs(job.run.selected, "select")
    return lambda: read_trajectories(source)


def _paired(job: Job, recipe: PairsRecipe, environment: Environment) -> Callable[[], Iterable[Pair]]:
    """Pair what this run and those that the recipe names have played."""
    sources = [job.needs(job.run.trajectories, "generate")]
    for name in recipe.runs:
        path = job.run.folder.with_name(name) / job.run.trajectories.name
        if not path.is_file():
            raise StoreError(
                f"export.pairs.runs: {path} is not there; generate that run first, or leave it out"
            )
        sources.append(path)
    max_steps = job.recipe.select.max_steps if job.recipe.select else None
    ledger = pair_into(
        job.run.folder,
        [TrajectoryStore(source) for source in sources],
        recipe,
        _excluded(job.recipe, environment),
        max_steps,
    )
    for line in ledger.lines():
        job.log.say(f"export: {line}")
    if not ledger.pairs:
        raise StoreError(
            f"{job.run.folder}: no success and failure of the same task make a pair (pairs.json counts why):"
            " play more samples a task at a temperature above 0, or name other runs under export.pairs.runs"
        )
    return lambda: read_pairs(job.run.folder / PAIRS)
