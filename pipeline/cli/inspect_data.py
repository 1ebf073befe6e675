"""``staract inspect-data``: look at what training would see, before it trains."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.verbs import Overrides, RecipePath, Runs

if TYPE_CHECKING:
    from rich.console import Console

    from pipeline.evaluation.tables import Sheet
    from pipeline.training.inspect import Inspected, Inspection

FAULTY = 1
"""The exit status where a row is at fault."""


def inspect_data(
    recipe: RecipePath,
    overrides: Overrides = None,
    runs: Runs = Path("trajectories"),
    style: Annotated[str | None, typer.Option(help="One style; by default all that are trained.")] = None,
    rows: Annotated[int, typer.Option(min=0, help="Rows of each style to print with their labels.")] = 2,
    row: Annotated[str | None, typer.Option(metavar="ID", help="Print the rows whose id begins so.")] = None,
    devices: Annotated[
        int | None, typer.Option(min=1, help="Devices to train on; by default what training takes here.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Marks instead of colours, as in a pipe.")] = False,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the figures and faults.")] = None,
) -> None:
    """Look at the exported rows exactly as training would: ids, labels, what is lost, how steps are filled.

    Prints a few rows of each style with what is trained marked, then a table a style. The recipe's
    tokeniser and training's own encoding are used; weights are not loaded, nothing is trained.

    Ends with status 1, and a sentence for each fault, where a row trains nothing, does not end its turns
    with the stop, or holds control tokens in text from outside; with 2 on bad input.

    For example: staract inspect-data recipes/atlas/quickstart.yaml --row 4cdde910
    """
    from pipeline.recipe.load import load_recipe

    loaded = load_recipe(recipe, overrides or [])
    typer.echo(f"inspect-data: reading the rows of {loaded.name} …", err=True)
    # Imported when needed: `staract --help` must not wait for torch.
    from pipeline.training.inspect import plan_inspection
    from pipeline.training.inspect_findings import Choice

    inspection = plan_inspection(loaded, runs, style)
    count = devices or _devices(inspection, recipe)
    files = list(inspection.files(Choice(rows, row), count))
    _check_found(files, row)
    _print(files, plain)
    if json is not None:
        _write(json, inspection, files, count)
    _judge(files)


def _devices(inspection: Inspection, recipe: Path) -> int:
    from pipeline.errors import RecipeError
    from pipeline.training.inspect import devices_of

    try:
        return devices_of(inspection.train, recipe)
    except RecipeError as error:
        # Data for a cluster may be looked at on a laptop.
        typer.echo(f"inspect-data: {error}; steps are counted for one device, or --devices", err=True)
        return 1


def _check_found(files: Sequence[Inspected], row: str | None) -> None:
    from pipeline.errors import TrainingError

    if row is not None and not any(one.findings.shown for one in files):
        raise TrainingError(f"--row: no row has an id that begins with {row!r}; ids stand in the dataset")


def _print(files: Sequence[Inspected], plain: bool) -> None:
    from rich.console import Console

    from pipeline.evaluation.tables import to_terminal

    console = Console()
    plain = plain or console.color_system is None or console.no_color
    for one in files:
        _print_rows(one, console, plain)
    for _, group in groupby(files, key=lambda one: one.style):
        console.print(to_terminal([_sheet(list(group))]))


def _print_rows(one: Inspected, console: Console, plain: bool) -> None:
    from pipeline.cli.inspect_dump import COLOURS, PLAIN, coloured_row, plain_row

    if one.findings.shown:
        typer.echo(f"{one.style}, {one.name}.jsonl ({PLAIN if plain else COLOURS}):\n")
    for row in one.findings.shown:
        if plain:
            typer.echo(f"{plain_row(row)}\n")
        else:
            console.print(coloured_row(row), soft_wrap=True)
            console.print()


def _sheet(files: Sequence[Inspected]) -> Sheet:
    """One table for a style: a column a file."""
    from pipeline.evaluation.tables import Sheet

    columns = [_column(one) for one in files]
    names = list(columns[0])
    return Sheet(
        title=files[0].style,
        headings=("", *(one.name for one in files)),
        rows=[[name, *(column[name] for column in columns)] for name in names],
        note=_note(files[0]),
        words=1,
    )


def _note(one: Inspected) -> str:
    train = one.train
    packed = one.findings.fill is not None
    whole = "pairs" if train.dpo else ("blocks" if packed else "rows")
    layout = f"{train.batch_size} {whole} × {one.accumulation} accumulated × {one.devices} devices"
    return f"A step: {layout}. max_length {train.max_length}. The last three lines must be 0."


def _column(one: Inspected) -> dict[str, str]:
    figures = one.figures()
    fill, trains = figures["packing_fill"], one.name == "train"
    return {
        "rows": f"{figures['rows_kept']:,} of {figures['rows_read']:,}",
        "tokens": f"{figures['tokens']:,}",
        "of them labels": f"{figures['labelled_tokens']:,} ({figures['labelled_share']:.1%})",
        **_lengths(figures),
        "dropped": _dropped(figures),
        "packing fill": "–" if fill is None else f"{fill:.1%} of {figures['units']:,} blocks",
        "rows a step": f"{figures['rows_per_step']:.1f}" if trains else "–",
        "steps an epoch": f"{figures['steps_per_epoch']:,}" if trains else "–",
        "control ids in text": f"{figures['control_ids_in_text']:,}",
        "rows without a label": f"{figures['rows_unlabelled']:,}",
        "rows without their stop": f"{figures['rows_without_stop']:,}",
    }


def _lengths(figures: dict[str, Any]) -> dict[str, str]:
    if "longest_source" in figures:
        lost = f"{figures['entries_left_out']} entries, {figures['characters_left_out']} characters left out"
        return {
            "longest source": f"{figures['longest_source']:,}",
            "longest target": f"{figures['longest_target']:,}",
            "cut to fit": f"{figures['rows_cut']:,} ({lost})",
        }
    truncated = f"{figures['rows_truncated']:,} ({figures['turns_dropped']} turns dropped)"
    if "prompt_tokens" in figures:
        return {
            "tokens that the halves share": f"{figures['prompt_tokens']:,}",
            "longest half": f"{figures['longest']:,}",
            "truncated": truncated,
        }
    return {
        "longest row": f"{figures['longest']:,}",
        "truncated": truncated,
        "seams that joined text would encode otherwise": f"{figures['joint_differences']:,}",
    }


def _dropped(figures: dict[str, Any]) -> str:
    reasons = {
        "too long": figures["rows_too_long"],
        "target too long": figures.get("targets_too_long", 0),
        "without a label": figures["rows_unlabelled"],
        "not as they would be served": figures.get("rows_unserved", 0),
    }
    dropped = figures["rows_read"] - figures["rows_kept"]
    reasons["refused"] = dropped - sum(reasons.values())
    said = ", ".join(f"{count} {reason}" for reason, count in reasons.items() if count)
    return f"{dropped} ({said})" if said else "0"


def _write(path: Path, inspection: Inspection, files: Sequence[Inspected], devices: int) -> None:
    from pipeline.trajectories.files import write_json

    train = inspection.train
    styles: dict[str, dict[str, Any]] = {}
    for one in files:
        styles.setdefault(one.style, {})[one.name] = one.figures()
    about = {
        "dataset": str(inspection.dataset),
        "format": inspection.export.format,
        "model": inspection.address,
        "max_length": train.max_length,
        "packing": files[0].findings.fill is not None,
        "batch": files[0].batch,
        "devices": devices,
    }
    write_json(path, {**about, "faulty": any(one.findings.faults for one in files), "styles": styles})


def _judge(files: Sequence[Inspected]) -> None:
    """Say what is wrong, and end with the status of it; or that nothing is."""
    from pipeline.cli.show import visible

    said = [f"{one.style}/{one.name}.jsonl: {text}." for one in files for text in one.findings.sentences()]
    for sentence in said:
        typer.echo(f"inspect-data: {visible(' '.join(sentence.split()))}", err=True)
    if said:
        raise typer.Exit(FAULTY)
    typer.echo("inspect-data: every row trains something, stops, and keeps foreign text from acting.")
