"""``staract plan``: whether a recipe's training fits a machine, and how long it takes there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.verbs import Overrides, RecipePath, Runs
from pipeline.errors import RecipeError

if TYPE_CHECKING:
    from pipeline.recipe.models import Recipe, TrainRecipe
    from pipeline.training.plan.data import Data
    from pipeline.training.plan.sharding import Sharding

UNFIT = 1
"""The exit status where the memory does not suffice."""


def plan(
    recipe: RecipePath,
    overrides: Overrides = None,
    gpus: Annotated[
        int | None, typer.Option(min=1, help="How many GPUs; as the config of accelerate says.")
    ] = None,
    gpu: Annotated[str, typer.Option(help="Which: h200, h100, a100, l40s, a6000, l4, 4090, …")] = "",
    memory: Annotated[float | None, typer.Option(min=0, help="GB of a GPU that has no name here.")] = None,
    tflops: Annotated[float | None, typer.Option(min=0, help="Its dense bfloat16 TFLOP/s.")] = None,
    sharding: Annotated[
        str,
        typer.Option(help="none, ddp, zero2, zero3, zero3_offload or fsdp2, whatever train.accelerate says."),
    ] = "",
    config: Annotated[
        Path | None, typer.Option(help="The base model's config.json, instead of asking the hub.")
    ] = None,
    utilisation: Annotated[
        float, typer.Option(min=0.01, max=1, help="Share of the peak that is reached.")
    ] = 0.4,
    price: Annotated[float | None, typer.Option(min=0, help="Of one GPU for an hour.")] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Rows of the dataset, where it is not there yet.")
    ] = None,
    tokens_per_row: Annotated[float | None, typer.Option(min=1, help="Their mean length.")] = None,
    labelled: Annotated[
        float | None, typer.Option(min=0, max=1, help="Share of tokens that are labels.")
    ] = None,
    style: Annotated[
        str | None, typer.Option(help="One of the dataset's styles; by default the first.")
    ] = None,
    runs: Runs = Path("trajectories"),
    json: Annotated[Path | None, typer.Option(help="Also write the figures to this file.")] = None,
) -> None:
    """Say what the recipe's training takes: memory, time, cost. Status 1 if it does not fit."""
    from pipeline.recipe.load import load_recipe
    from pipeline.training.plan.advice import refusal
    from pipeline.training.plan.gpus import find_gpu
    from pipeline.training.plan.plan import Machine, make_plan
    from pipeline.training.plan.student import read_base
    from pipeline.training.plan.table import lines
    from pipeline.trajectories.files import write_json

    loaded = load_recipe(recipe, overrides or [])
    train = _train(loaded)
    which = find_gpu(gpu, memory, tflops)
    split, processes = _sharding(train, recipe, sharding, gpus)
    base = read_base(loaded.models[train.model].address, config)
    if base.encoder_decoder and train.lora is not None:
        raise RecipeError("train.lora: an encoder-decoder is trained with all its weights; remove the key")
    if base.encoder_decoder and train.dpo is not None:
        raise RecipeError("train.dpo: an encoder-decoder imitates only; remove the key")
    # Examples and pairs are never packed, whatever the recipe says.
    if base.encoder_decoder or train.dpo is not None:
        train = train.model_copy(update={"packing": False})
    data = _data(loaded, train, runs, style, rows, tokens_per_row, labelled)
    made = make_plan(base, train, data, Machine(which, processes, split, utilisation, price))
    for line in lines(made, loaded.name):
        typer.echo(line)
    if json is not None:
        write_json(json, made.as_dict())
    if not made.fits:
        typer.echo(f"staract: {loaded.name} {refusal(made)}.", err=True)
        raise typer.Exit(UNFIT)


def _train(recipe: Recipe) -> TrainRecipe:
    if recipe.train is None:
        raise RecipeError(f"recipe {recipe.name!r} lacks a train section: there is nothing to plan")
    if recipe.train.model not in recipe.models:
        raise RecipeError(f"train.model: {recipe.train.model!r} is not one of models")
    return recipe.train


def _sharding(train: TrainRecipe, path: Path, named: str, gpus: int | None) -> tuple[Sharding, int]:
    from pipeline.training.launch import config_file
    from pipeline.training.plan.sharding import find_sharding, read_accelerate

    if named:
        return find_sharding(named), gpus or train.processes or 1
    if train.accelerate:
        split, processes = read_accelerate(config_file(train.accelerate, path))
        return split, gpus or train.processes or processes
    return find_sharding("ddp" if (gpus or 1) > 1 else "none"), gpus or 1


def _data(
    recipe: Recipe,
    train: TrainRecipe,
    runs: Path,
    style: str | None,
    rows: int | None,
    tokens: float | None,
    labelled: float | None,
) -> Data:
    from pipeline.training.plan import data

    if (rows is None) != (tokens is None):
        raise RecipeError("--rows and --tokens-per-row say the dataset's size together: give both or neither")
    if rows is not None and tokens is not None:
        return data.told(train, rows, tokens, labelled)
    there = data.found(recipe, train, runs, style) or data.unknown(train, labelled)
    return there if labelled is None else replace(there, labelled=labelled)
