"""``staract recipes``, ``environments`` and ``methods``: what there is to choose from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.errors import RecipeError


def recipes(
    folder: Annotated[Path, typer.Argument(help="Where to look.")] = Path("recipes"),
) -> None:
    """List the recipes below a folder, each with its description."""
    from pipeline.recipe.load import load_recipe

    for path in sorted(folder.rglob("*.yaml")):
        try:
            description = load_recipe(path).description
        except RecipeError as error:
            description = f"(not usable: {str(error).splitlines()[0]})"
        typer.echo(f"{path}\n    {description}")


def environments() -> None:
    """List the environments, each with its panels and actions."""
    from pipeline.environments.registry import environment_class, environment_names
    from pipeline.rollout.panels import panel_names

    for name in environment_names():
        environment = environment_class(name)
        typer.echo(f"{name}: {_summary(environment)}")
        typer.echo(f"    panels: {', '.join(panel_names(environment)) or 'none named'}")
        for tool in environment.tools:
            typer.echo(f"    {tool.name}[{tool.argument}]  {tool.description}")


def methods() -> None:
    """List the methods."""
    from pipeline.methods.registry import load_hybrid, load_method, method_names
    from pipeline.recipe.models import MethodRecipe

    for name in method_names():
        recipe = MethodRecipe(name=name)
        method = load_hybrid(recipe) or load_method(recipe)
        typer.echo(f"{name:20s} {_summary(type(method))}")


def _summary(described: type) -> str:
    """The first line of a class's docstring."""
    return next(iter((described.__doc__ or "").strip().splitlines()), "")
