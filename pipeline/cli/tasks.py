"""``staract tasks``: the tasks of an environment, one JSON object a line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pipeline.errors import RecipeError


def tasks(
    environment: Annotated[str, typer.Argument(help="An environment's name, as in staract environments.")],
    split: Annotated[
        Literal["train", "dev", "test"] | None, typer.Option(help="Every task of this split.")
    ] = None,
    panel: Annotated[
        str | None, typer.Option(help="The tasks of a named panel, or of a panel file (panel.json).")
    ] = None,
    family: Annotated[str, typer.Option(help="A family of tasks, such as questions or claims.")] = "",
    data: Annotated[
        Path | None, typer.Option(help="Where the environment's data lies, if it needs any.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Whole records; without it, id, kind and text.")
    ] = False,
) -> None:
    """Print tasks, one JSON object a line."""
    from itertools import islice

    from pipeline.environments.registry import load_environment
    from pipeline.environments.wiki.duplicates import duplicates
    from pipeline.recipe.models import EnvironmentRecipe

    if (split is None) == (panel is None):
        raise RecipeError("Say either --split (train, dev or test) or --panel (a name or a file).")
    settings: dict[str, Any] = {"data": str(data)} if data else {}
    world = load_environment(EnvironmentRecipe(name=environment, family=family, options=settings))
    found = world.tasks(split) if split else _panel_tasks(world, str(panel))
    shown: list[Any] = []
    for task in islice(found, limit):
        typer.echo(_line(task, whole=json))
        shown.append(task)
    if repeated := duplicates(shown).sentence():
        typer.echo(f"staract: {repeated}", err=True)


def _line(task: Any, *, whole: bool) -> str:
    from pipeline.trajectories.files import to_json

    short = {"id": task.id, "split": task.split, "kind": task.kind, "instruction": task.instruction}
    return to_json(task.model_dump() if whole else short)


def _panel_tasks(world: Any, name: str) -> Any:
    from pipeline.cli.panels import panel_tasks

    return panel_tasks(world, name)
