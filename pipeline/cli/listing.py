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
    """List the environments, each with its actions."""
    from pipeline.environments.registry import environment_names, load_environment
    from pipeline.recipe.models import EnvironmentRecipe

    for name in environment_names():
        environment = load_environment(EnvironmentRecipe(name=name))
        typer.echo(f"{name} (version {environment.version}, at most {environment.max_steps} steps)")
        for tool in environment.tools:
            typer.echo(f"    {tool.name}[{tool.argument}]  {tool.description}")


def methods() -> None:
    """List the methods."""
    from pipeline.methods.registry import load_hybrid, load_method, method_names
    from pipeline.recipe.models import MethodRecipe

    for name in method_names():
        recipe = MethodRecipe(name=name)
        method = load_hybrid(recipe) or load_method(recipe)
        summary = (type(method).__doc__ or "").strip().splitlines()
        typer.echo(f"{name:20s} {summary[0] if summary else ''}")
