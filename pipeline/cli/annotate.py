"""``staract annotate``: read a random sample of episodes, and say by one key what became of each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.errors import StoreError


def annotate(
    run: Annotated[Path, typer.Argument(help="A run folder or a file of trajectories (.jsonl).")],
    method: Annotated[str | None, typer.Option(help="Only episodes of this method.")] = None,
    model: Annotated[str | None, typer.Option(help="Only episodes of this model (its address).")] = None,
    per_class: Annotated[
        int, typer.Option(min=1, help="Right episodes of each method × model, and as many wrong ones.")
    ] = 50,
    seed: Annotated[int, typer.Option(help="Decides the draw; the same for all annotators.")] = 0,
    annotator: Annotated[
        str | None, typer.Option(help="Whose labels these are; by default the user's name.")
    ] = None,
    table: Annotated[
        bool, typer.Option("--table", help="Print and write the table of labels and signs; ask nothing.")
    ] = False,
) -> None:
    """Label episodes by hand, as table 2 of the ReAct paper does; the same command goes on later.

    Labels go to annotations/ in the run folder, each as soon as it is given. --table shows all
    annotators' labels beside automatic signs, and writes table.md and table.json there.
    """
    source, folder = _places(run)
    if table:
        _table(source, folder, (method, model))
    else:
        _session(source, folder, (method, model), per_class, seed, annotator or _user())


def _places(run: Path) -> tuple[Path, Path]:
    """The episodes (of the evaluation, where there is one), and where annotations stand."""
    if not run.is_dir():
        source, folder = run, run.parent
    else:
        evaluation = run / "evaluation" / "trajectories.jsonl"
        source, folder = evaluation if evaluation.exists() else run / "trajectories.jsonl", run
    if not source.exists():
        raise StoreError(f"{source}: there are no episodes here; name a run folder or a .jsonl file.")
    return source, folder / "annotations"


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container may run as a user that has no name.
        return "annotator"


def _table(source: Path, folder: Path, only: tuple[str | None, str | None]) -> None:
    from rich.console import Console

    from pipeline.evaluation.annotations import Annotation, read_annotations
    from pipeline.evaluation.failure_report import failure_report, report_sheets, write_failure_report
    from pipeline.evaluation.tables import to_terminal
    from pipeline.trajectories.schema import Trajectory
    from pipeline.trajectories.store import TrajectoryStore

    method, model = only

    def wanted(one: Trajectory | Annotation) -> bool:
        return method in (None, one.method) and model in (None, one.model)

    labels = filter(wanted, read_annotations(folder))
    report = failure_report(filter(wanted, TrajectoryStore(source).read()), list(labels))
    write_failure_report(folder, report)
    Console().print(to_terminal(report_sheets(report)))
    typer.echo(f"annotate: table → {folder}/table.md")


def _session(
    source: Path, folder: Path, only: tuple[str | None, str | None], per_class: int, seed: int, annotator: str
) -> None:
    from pipeline.cli.labelling import Session, plan
    from pipeline.evaluation.annotations import AnnotationFile
    from pipeline.trajectories.store import TrajectoryStore

    store = TrajectoryStore(source)
    sample = plan(store, only, per_class, seed)
    with AnnotationFile(folder, annotator) as labels:
        Session(store, sample, labels).run()
