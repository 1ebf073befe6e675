"""The command ``staract``: a verb for every stage, and a few to look around."""

from __future__ import annotations

import os
import sys

import typer

from pipeline.cli import annotate, doctor, inspect_data, listing, merge, plan, show, tasks, wiki
from pipeline.cli.verbs import add_verbs
from pipeline.errors import StaractError

INTERRUPTED = 130
"""The status that typer ends with on Ctrl-C."""

app = typer.Typer(
    name="staract",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help=(
        "Small agents from a large teacher's trajectories: generate, select, export, fine-tune, evaluate.\n\n"
        "Start with: staract run recipes/atlas/quickstart.yaml"
    ),
    context_settings={"help_option_names": ["-h", "--help"]},
)

add_verbs(app)
app.command("show")(show.show)
app.add_typer(wiki.app, name="wiki")
app.command("annotate")(annotate.annotate)
app.command("inspect-data")(inspect_data.inspect_data)
app.command("merge")(merge.merge)
app.command("plan")(plan.plan)
app.command("tasks")(tasks.tasks)
app.command("recipes")(listing.recipes)
app.command("environments")(listing.environments)
app.command("methods")(listing.methods)
app.command("doctor")(doctor.doctor)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    if version:
        from pipeline import __version__

        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Entry point. Exit status: 0 done, 2 bad input, 130 interrupted."""
    try:
        app()
    except StaractError as error:
        typer.echo(f"staract: {error}", err=True)
        sys.exit(2)
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            typer.echo("staract: interrupted; what is done is kept, the same command goes on.", err=True)
        raise
    except BrokenPipeError:
        # The reader (head, less) has left; Python would complain once more while flushing at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        typer.echo(f"staract: {error.strerror or error} ({error.filename or 'input/output'}).", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
