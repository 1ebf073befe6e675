"""The stages of a run, in order, each reading what the one before it wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import typer

from pipeline.cli.clock import clocked
from pipeline.cli.output import Log
from pipeline.cli.verbs import STAGES
from pipeline.environments.base import Environment
from pipeline.environments.registry import load_environment
from pipeline.errors import RecipeError, StoreError
from pipeline.recipe.load import load_recipe
from pipeline.recipe.models import EvaluateRecipe, Recipe
from pipeline.trajectories.run import Run, open_run


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
        """The recipe's environment."""
        return load_environment(self.recipe.environment)

    def evaluation(self) -> EvaluateRecipe:
        """The recipe's evaluate section.

        Raises:
            RecipeError: it has none.
        """
        if self.recipe.evaluate is None:
            raise RecipeError(f"Recipe {self.recipe.name!r} has no evaluate section.")
        return self.recipe.evaluate

    def needs(self, path: Path, stage: str) -> Path:
        """A file of an earlier stage.

        Raises:
            StoreError: it is not there.
        """
        if not path.exists():
            raise StoreError(f"{path} is not there yet; run `staract {stage} {self.path}` first.")
        return path


def perform(
    stages: Sequence[str],
    path: Path,
    overrides: Sequence[str],
    runs: Path,
    checkpoints: Path,
    *,
    dry_run: bool,
) -> None:
    """Run stages of a recipe; of several, those that the recipe has no section for are passed over.

    Raises:
        StaractError: whatever is wrong with the input; nothing half-written is left.
    """
    recipe = load_recipe(path, overrides)
    wanted = _wanted(stages, recipe)
    if dry_run:
        typer.echo(recipe.model_dump_json(indent=2))
        return
    _check(wanted, recipe)
    run = open_run(runs, recipe, sections=_sections(wanted, recipe))
    for stage in wanted:
        timed = clocked(run.folder, stage) if recipe.rounds else nullcontext()
        with Log(run.logs / f"{stage}.log") as log, timed:
            _work(stage)(Job(recipe, path, overrides, run, checkpoints, log))


def _check(stages: Sequence[str], recipe: Recipe) -> None:
    if "rounds" in stages:
        from pipeline.cli.round import plan_rounds

        # Refused here, before hours of the stages before it.
        plan_rounds(recipe)


def _wanted(stages: Sequence[str], recipe: Recipe) -> list[str]:
    present = [stage for stage in stages if getattr(recipe, _section(stage)) is not None]
    if not present:
        raise RecipeError(f"Recipe {recipe.name!r} has no {_section(stages[0])} section.")
    return present


def _section(stage: str) -> str:
    return "evaluate" if stage == "report" else stage


def _sections(stages: Sequence[str], recipe: Recipe) -> list[str]:
    """What may not have changed since the run was begun: these stages, those before, their models."""
    last = max(STAGES.index(_section(stage)) for stage in stages)
    sections = STAGES[: last + 1]
    generate, evaluate = recipe.generate, recipe.evaluate
    models = [generate.model, generate.method.swift.model] if generate and "generate" in sections else []
    models += [recipe.train and recipe.train.model] if "train" in sections else []
    if "evaluate" in sections and evaluate:
        models += [name for entry in evaluate.entries for name in (entry.model, entry.method.swift.model)]
    if "rounds" in sections and recipe.rounds and recipe.rounds.rationalize:
        models += [recipe.rounds.rationalize.model]
    used = dict.fromkeys(f"models.{name}" for name in models if name in recipe.models)
    return [*sections, *used]


def _work(stage: str) -> Callable[[Job], None]:
    # Imported when needed: `staract --help` must not wait for torch, scipy or matplotlib.
    from pipeline.cli import collect, compare

    if stage == "rounds":
        from pipeline.cli.rounds import rounds

        return rounds
    return {
        "generate": collect.generate,
        "select": collect.select,
        "export": collect.export,
        "train": compare.train,
        "evaluate": compare.evaluate,
        "report": compare.report,
    }[stage]
