"""The table, the files and the picture of rounds."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from pipeline.errors import StoreError
from pipeline.evaluation.report import build_report
from pipeline.evaluation.rounds_report import (
    Round,
    Rounds,
    draw_rounds,
    rounds_sheet,
    student_row,
    write_rounds,
)
from pipeline.evaluation.rows import Settings
from pipeline.evaluation.tables import to_terminal
from tests.evaluation.builders import make_panel, make_task, prompted, tuned, verdicts

TASKS = [make_task(i) for i in range(4)]


def a_round(number: int, dev: float, test: float, **changes: int) -> Round:
    values = {"tasks": 80, "correct": 30, "tried": 50, "rationalized": 20, "kept": 12, "rows": 82, **changes}
    return Round(
        number=number,
        run=f"r{number}",
        dev=dev,
        test=test,
        ci_low=test - 0.1,
        ci_high=test + 0.1,
        seconds=61.6,
        **values,
    )


def result(*rounds: Round, best: int = 1, name: str = "star") -> Rounds:
    return Rounds(
        recipe=name, metric="em", confidence=0.95, test_tasks=50, dev_tasks=40, best=best, rounds=list(rounds)
    )


TWO = result(a_round(0, 0.25, 0.3, tried=0, rationalized=0, kept=0, rows=40), a_round(1, 0.5, 0.44))


def test_every_figure_stands_in_its_column():
    sheet = rounds_sheet(TWO)
    assert sheet.headings[1:7] == ("tasks", "solved", "hinted", "right", "kept", "rows")
    assert sheet.rows == [
        ("0", "80", "30", "–", "–", "–", "40", "0.250", "0.300", "0.20–0.40", "62"),
        ("1 best", "80", "30", "50", "20", "12", "82", "0.500", "0.440", "0.34–0.54", "62"),
    ]
    assert "on 40 tasks" in sheet.note and "on 50 tasks" in sheet.note


def test_the_table_fits_a_terminal():
    text = io.StringIO()
    Console(file=text, width=80).print(to_terminal([rounds_sheet(TWO)]))
    assert "0.34–0.54" in text.getvalue() and "1 best" in text.getvalue()


def test_the_files_say_the_same(tmp_path):
    write_rounds(tmp_path, TWO)
    assert Rounds.model_validate(json.loads((tmp_path / "rounds.json").read_text())) == TWO
    assert "| 1 best | 80 | 30 | 50 | 20 | 12 | 82 | 0.500 | 0.440 |" in (tmp_path / "rounds.md").read_text()
    assert (tmp_path / "rounds.png").read_bytes().startswith(b"\x89PNG")
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_rounds(tmp_path, TWO)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first


@pytest.mark.parametrize("dev", [-1.0, 0.0, 1.0, 7.5])
def test_any_reward_and_any_name_can_be_drawn(dev):
    odd = result(a_round(0, dev, 0.0), best=0, name="star.$x^$_1")
    assert b"<svg" in draw_rounds(odd, "svg")


def test_the_students_row_is_that_of_the_rounds_method():
    groups = [
        prompted("react", verdicts(TASKS, "yyyy")),
        tuned("act", verdicts(TASKS, "yyyn")),
        tuned("react", verdicts(TASKS, "ynnn")),
    ]
    report = build_report("star", make_panel(TASKS), groups, Settings(resamples=199))
    assert (student_row(report, "react").method, student_row(report, "react").em) == ("react", 0.25)
    assert student_row(report, "cot").method == "act", "of other methods the best one"
    alone = build_report("star", make_panel(TASKS), groups[:1], Settings(resamples=199))
    with pytest.raises(StoreError, match="no row of a student"):
        student_row(alone, "react")
