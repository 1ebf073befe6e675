"""``staract wiki``: build and find."""

import io
import json

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from pipeline.cli import wiki
from pipeline.cli.wiki_progress import BuildProgress
from pipeline.environments.wiki.build import BuildState
from pipeline.errors import EnvironmentFault

ROWS = [
    {"title": "Oslo", "text": "Oslo is a city."},
    {"title": "Bergen", "text": "Bergen is a town.\x1b[31m"},
    {"title": "Oslo", "text": "Again."},
    {"title": "Empty", "text": ""},
]


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


@pytest.fixture
def run():
    app = typer.Typer()
    app.add_typer(wiki.app, name="wiki")
    runner = CliRunner()
    return lambda *arguments: runner.invoke(app, ["wiki", *map(str, arguments)])


def test_build_then_find(tmp_path, rows, run):
    redirects = tmp_path / "redirects.tsv"
    redirects.write_text("Christiania\tOslo\nNowhere\tNo page\n", encoding="utf-8")
    folder = tmp_path / "wiki"
    built = run("build", folder, "--from", rows, "--redirects", redirects)
    assert built.exit_code == 0, built.exception
    assert f"{folder}: 2 pages" in built.stdout
    assert "their titles being there already: 1\n" in built.stdout
    assert "having no title or no text: 1\n" in built.stdout
    assert "redirects: 1\n" in built.stdout
    assert "2 pages" in built.stderr
    assert run("find", folder, "christiania").stdout == "Oslo\n\nOslo is a city.\n"
    assert "\x1b" not in run("find", folder, "Bergen").stdout
    assert run("find", folder, "Olso").stdout == "No such page. Similar titles:\n    Oslo\n"
    assert run("find", folder, "??").stdout == "No such page, and no similar title.\n"


def test_several_sources_and_a_limit(tmp_path, rows, run):
    more = tmp_path / "more.jsonl"
    more.write_text('{"id": "Troms\\u00f8", "text": "A town .", "lines": ""}\n', encoding="utf-8")
    run("build", tmp_path / "all", "--from", f"wikipedia:{rows}", "--from", more)
    assert run("find", tmp_path / "all", "tromso").stdout == "Tromsø\n\nA town.\n"
    assert "1 pages" in run("build", tmp_path / "one", "--from", rows, "--limit", 1).stdout


def test_bad_input_is_one_sentence(tmp_path, rows, run):
    rows.write_text('{"title": "A", "text": "a"}\n{"title": "B"\n', encoding="utf-8")
    failed = run("build", tmp_path / "wiki", "--from", rows)
    assert isinstance(failed.exception, EnvironmentFault)
    assert "line 2" in str(failed.exception)
    assert run("build", tmp_path / "wiki").exit_code == 2
    missing = run("build", tmp_path / "wiki", "--from", rows, "--redirects", tmp_path / "nowhere.tsv")
    assert isinstance(missing.exception, EnvironmentFault)


def shown(states, *, terminal=False):
    out, times = io.StringIO(), iter(range(0, 1000, 10))
    console = Console(file=out, force_terminal=terminal, width=160)
    with BuildProgress("[wiki]", 1000, console, clock=lambda: float(next(times))) as progress:
        for state in states:
            progress.advance(state)
    return out.getvalue()


def test_progress_tells_rate_share_and_time_left():
    lines = shown(
        [
            BuildState(),
            BuildState(pages=1000, read=250),
            BuildState("redirects", pages=4000, redirects=7),
            BuildState("titles", pages=4000),
            BuildState("titles", pages=4000, indexed=4000),
        ]
    ).split("\n")
    assert lines[0] == "[wiki]: 0 pages"
    assert lines[1].startswith("[wiki]: 1,000 pages, ")
    assert "25%" in lines[1]
    assert "left" in lines[1]
    assert lines[2] == "[wiki]: 4,000 pages, 7 redirects"
    assert lines[3] == "[wiki]: 0 of 4,000 titles indexed"
    assert "4,000 of 4,000 titles indexed" in lines[4]
    assert "100%" in lines[4]


def test_progress_of_a_resumed_build_counts_from_where_it_was():
    lines = shown([BuildState(pages=900, read=500), BuildState(pages=1000, read=600)]).split("\n")
    # Ten seconds and more went by for a hundred pages: never a rate of the nine hundred before.
    rate = float(lines[1].split(", ")[1].removesuffix("/s"))
    assert 0 < rate <= 10


def test_progress_on_a_terminal():
    assert "250 pages" in shown([BuildState(), BuildState(pages=250, read=500)], terminal=True)
