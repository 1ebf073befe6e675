"""``staract wiki``: a Wikipedia on this machine, built from a data set and looked at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pipeline.environments.wiki.build import BuildState

app = typer.Typer(no_args_is_help=True, help="Build a Wikipedia on this machine, and look into it.")

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The wiki's folder.")]


@app.command("build")
def build(
    folder: Folder,
    sources: Annotated[
        list[str],
        typer.Option(
            "--from",
            metavar="SOURCE",
            help=(
                "A file or folder, or KIND:PATH with the kind hotpotqa (contexts of questions), abstracts"
                " (the 2017 dump), fever (wiki-pages) or wikipedia (title and text); give it again for more:"
                " of pages of the same title the first counts."
            ),
        ),
    ],
    redirects: Annotated[
        Path | None, typer.Option(help="Other titles: a file of other title, tab, title in each line.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Read at most so many pages.")] = None,
) -> None:
    """Build a wiki from data sets. A build that was stopped goes on with the same command."""
    from pipeline.cli.wiki_progress import BuildProgress
    from pipeline.environments.wiki.build import build_from_sources
    from pipeline.environments.wiki.sources import open_sources, read_redirects
    from pipeline.errors import EnvironmentFault

    opened = open_sources(sources)
    if redirects and not redirects.is_file():
        raise EnvironmentFault(f"--redirects: there is no file {redirects}")
    plan = f"{redirects.name} {redirects.stat().st_size}" if redirects else ""
    size = sum(source.size for source in opened)
    with BuildProgress(folder.name, size) as progress:
        state = build_from_sources(
            folder,
            opened,
            read_redirects(redirects) if redirects else (),
            limit=limit,
            plan=plan,
            report=progress.advance,
        )
    for line in _summary(folder, state):
        typer.echo(line)


@app.command("find")
def find(folder: Folder, title: Annotated[str, typer.Argument(help="What to search for.")]) -> None:
    """Show what a search answers: the page, or similar titles."""
    from pipeline.cli.show import visible
    from pipeline.environments.wiki.backend import Page
    from pipeline.environments.wiki.local import LocalWiki

    wiki = LocalWiki.open(folder)
    found = wiki.find(title)
    wiki.close()
    if isinstance(found, Page):
        typer.echo(visible(f"{found.title}\n\n{found.text}"))
    else:
        typer.echo("No such page. Similar titles:" if found else "No such page, and no similar title.")
        for name in found:
            typer.echo(visible(f"    {name}"))


def _summary(folder: Path, state: BuildState) -> list[str]:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    lines = [f"{folder}: {state.pages:,} pages, {size / 2**20:,.1f} MiB"]
    if state.repeated:
        lines.append(f"    pages left out, their titles being there already: {state.repeated:,}")
    if state.empty:
        lines.append(f"    pages left out, having no title or no text: {state.empty:,}")
    if state.redirects or state.dropped:
        lines.append(f"    redirects: {state.redirects:,}")
    if state.dropped:
        lines.append(f"    redirects left out, repeated, hiding a page or leading to none: {state.dropped:,}")
    return lines
