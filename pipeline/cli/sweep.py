"""``staract sweep``: every checkpoint of a run on the evaluation's panel, success against steps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.output import Log
from pipeline.cli.verbs import Overrides, RecipePath, Runs
from pipeline.errors import RecipeError

if TYPE_CHECKING:
    from pipeline.recipe.models import Recipe
    from pipeline.trajectories.run import Run


def sweep(
    recipe: RecipePath,
    overrides: Overrides = None,
    checkpoints: Annotated[
        Path | None,
        typer.Option(help="A folder with checkpoint-N or students below; by default checkpoints/<recipe>."),
    ] = None,
    runs: Runs = Path("trajectories"),
) -> None:
    """Play the panel of evaluate with every checkpoint of a run; plot success against training steps.

    The entries of the recipe whose model is "student" are played, each by the checkpoints of its style and
    by the base before training. Stopped, the same command goes on. Results: <run>/sweep/.
    """
    from pipeline.recipe.load import load_recipe
    from pipeline.trajectories.run import open_run

    loaded = load_recipe(recipe, overrides or [])
    if loaded.train is None or loaded.evaluate is None:
        raise RecipeError(f"recipe {loaded.name!r}: a sweep needs a train and an evaluate section")
    run = open_run(runs, loaded, sections=["evaluate", f"models.{loaded.train.model}"])
    with Log(run.logs / "sweep.log") as log:
        _perform(loaded, run, checkpoints or Path("checkpoints") / loaded.name, log)


def _perform(recipe: Recipe, run: Run, folder: Path, log: Log) -> None:
    import asyncio

    from pipeline.environments.registry import load_environment
    from pipeline.evaluation.play import play_panel
    from pipeline.evaluation.sweep import build_sweep, find_checkpoints, players
    from pipeline.evaluation.sweep_figures import no_effect_lines, sweep_sheet, write_sweep
    from pipeline.evaluation.tables import to_terminal
    from pipeline.rollout.panels import recipe_panel
    from pipeline.rollout.progress import RunProgress
    from pipeline.trajectories.panels import save_panel
    from pipeline.trajectories.store import TrajectoryStore

    assert recipe.evaluate is not None  # noqa: S101 - sweep has looked
    found, torn = find_checkpoints(folder)
    for path in torn:
        log.say(f"sweep: {path} was not saved to its end; passed over")
    who = players(recipe, folder, found)
    environment = load_environment(recipe.environment)
    panel = recipe_panel(environment, recipe.evaluate.panel)
    target = run.folder / "sweep"
    save_panel(target / "panel.json", panel)
    log.say(f"sweep: {len(found)} checkpoints, {len(who)} × {len(panel)} episodes")
    with TrajectoryStore(target / "trajectories.jsonl") as store:
        playing = play_panel(
            environment,
            panel,
            [one.entrant for one in who],
            store,
            concurrency=recipe.evaluate.concurrency,
            run_seed=recipe.seed,
            progress=RunProgress,
        )
        groups = asyncio.run(playing)
    result = build_sweep(recipe, panel, who, groups)
    write_sweep(target, result)
    log.show(to_terminal([sweep_sheet(result)]))
    for line in no_effect_lines(result):
        log.say(line)
    log.say(f"sweep: done → {target}/sweep.md")
