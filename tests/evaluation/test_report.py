"""The report's files: what they hold, that they are whole, and that foreign text stays text."""

import io
import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from pipeline.errors import RecipeError, StoreError
from pipeline.evaluation.comparisons import Comparison
from pipeline.evaluation.presentation import markdown, verdict
from pipeline.evaluation.report import build_report, load_report, terminal_table, write_report
from pipeline.evaluation.rows import Group, Settings
from tests.evaluation.builders import episode, make_panel, make_task, prompted, tuned, verdicts

TASKS = [make_task(i, kind="bridge2" if i % 3 else "comparison") for i in range(12)]
PANEL = make_panel(TASKS)
GROUPS = [
    prompted("standard", verdicts(TASKS, "nnnnnnnnnnnn")),
    prompted("react", verdicts(TASKS, "ynnnnnnsse--")),
    tuned("react", verdicts(TASKS, "yyyyyyyyynnn")),
]
HOSTILE = "m|x\n# Head\u2028<script>alert(1)</script> [l](javascript:x) `c` *b* $y$ \x1b[31mred \ud800"


def write(folder, groups=GROUPS, **options):
    report = build_report("atlas-quickstart", PANEL, groups, Settings(resamples=199, **options))
    write_report(folder, report)
    return report


def test_report_json_has_the_promised_keys(tmp_path):
    report = write(tmp_path / "run" / "report")
    data = json.loads((tmp_path / "run" / "report" / "report.json").read_text(encoding="utf-8"))
    assert data["recipe"] == "atlas-quickstart"
    assert data["panel"] == {"split": "test", "size": 12, "digest": PANEL.digest}
    promised = "method model kind n correct errored em f1 accuracy ci_low ci_high steps"
    promised += " prompt_tokens completion_tokens seconds"
    assert all(set(promised.split()) <= set(row) for row in data["rows"])
    assert all({"a", "b", "difference", "ci_low", "ci_high", "p"} <= set(c) for c in data["comparisons"])
    best = data["rows"][0]
    assert (best["method"], best["model"], best["kind"]) == ("react", "student", "fine-tuned")
    assert (best["n"], best["correct"], best["errored"], best["em"]) == (12, 9, 0, 0.75)
    assert load_report(tmp_path / "run" / "report") == report


def test_the_same_episodes_give_the_same_bytes(tmp_path):
    write(tmp_path / "a")
    write(tmp_path / "b", list(reversed(GROUPS)))
    names = sorted(p.name for p in (tmp_path / "a").iterdir())
    assert names == ["report.json", "report.md", "report.png"]
    assert all((tmp_path / "a" / n).read_bytes() == (tmp_path / "b" / n).read_bytes() for n in names)


def test_report_md_shows_errors_apart_and_speaks_of_every_comparison(tmp_path):
    write(tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| react | base | prompted | 0.08 |" in text
    assert "| 1/12 | 3 |" in text
    assert "| method | model | finished | step_limit | model_error | missing |" in text
    assert "| react | base | 7 | 2 | 1 | 2 |" in text
    assert "| react | student | 6/8 | 3/4 |" in text
    assert "- **react × student** against **react × base** (the best prompted row): +0.67" in text
    assert "- **react × student** against **standard × base**: +0.75" in text
    assert "![exact match of every method and model, with intervals](report.png)" in text


def tables(text):
    """The tables of a Markdown text as lists of rows of cells."""
    blocks = re.findall(r"(?:^\|.*\|$\n?)+", text, flags=re.M)
    return [[re.split(r"(?<!\\)\|", line)[1:-1] for line in block.splitlines()] for block in blocks]


def test_foreign_text_cannot_break_the_tables(tmp_path):
    group = Group("react", HOSTILE, "prompted", verdicts(TASKS, "ynnnnnnnnnnn"))
    report = write(tmp_path, [group, GROUPS[2]])
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert len(tables(text)) == 5
    assert all(len({len(row) for row in table}) == 1 for table in tables(text))
    assert all(len(table) == 4 for table in tables(text))
    assert not re.search(r"(?<!\\)<|\x1b|\u2028|^# Head|(?<!\\)\[l", text, flags=re.M)
    assert load_report(tmp_path).rows[-1].model.startswith("m|x\n# Head\u2028<script>")
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(terminal_table(report))
    shown = console.export_text()
    assert "\x1b" not in shown
    assert "<script>" in shown


def test_the_terminal_table_holds_the_numbers_and_the_words():
    report = build_report("demo", PANEL, GROUPS, Settings(resamples=199))
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(terminal_table(report))
    shown = console.export_text()
    assert "demo: exact match on 12 test tasks" in shown
    assert "9/12" in shown
    assert "react × student against react × base: +0.67" in shown


def test_no_number_is_cut_where_names_are_long():
    names = {"method": "random_valid_or_so", "model": "a-rather-long-name-of-a-model"}
    groups = [replace(group, **names) if group.kind == "prompted" else group for group in GROUPS[1:]]
    report = build_report("demo", PANEL, groups, Settings(resamples=199))
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(terminal_table(report))
    shown = console.export_text()
    assert "…" not in shown
    assert all(f"{row.ci_low:.2f}–{row.ci_high:.2f}" in shown for row in report.rows)


def test_labels_cost_versions_and_notes_are_shown_when_there_are_any(tmp_path):
    tasks = [make_task(i, gold) for i, gold in enumerate(["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"] * 2)]
    played = [
        episode(t, "SUPPORTS", metrics={}, versions={"torch": f"2.1{i % 2}"}) for i, t in enumerate(tasks)
    ]
    groups = [prompted("act", played), tuned("act", played)]
    report = build_report("claims", make_panel(tasks), groups, Settings("accuracy", resamples=199))
    write_report(tmp_path, report)
    text = markdown(report)
    assert "| act | base | 0.00 / 0.00 / 0.00 | 0.00 / 0.00 / 0.00 | 0.33 / 1.00 / 0.50 | 0.17 |" in text
    assert "> **Warning.** No effect: act × student" in text
    assert "Versions: torch 2.10, 2.11." in text
    assert "Everything together cost 6.0000" in text


def test_no_labels_cost_or_notes_leave_no_empty_sections():
    text = markdown(build_report("demo", PANEL, [prompted("act", [])], Settings(resamples=199)))
    assert "By label" not in text
    assert "Warning" not in text
    assert "cost" not in text
    assert "## Comparisons" not in text
    assert "which method with which model" in text


@pytest.mark.parametrize(
    ("low", "high", "p", "words"),
    [
        (0.1, 0.3, 0.01, "better"),
        (-0.3, -0.1, 0.01, "worse"),
        (-0.1, 0.3, 0.2, "no clear difference"),
        (0.01, 0.3, 0.06, "better by the interval, not by the test"),
    ],
)
def test_verdicts_say_what_interval_and_test_say(low, high, p, words):
    comparison = Comparison(
        a="a",
        b="b",
        difference=(low + high) / 2,
        ci_low=low,
        ci_high=high,
        ci_method="bca",
        p=p,
        a_only=1,
        b_only=1,
    )
    assert verdict(comparison, 0.95) == words


def test_nothing_is_written_when_the_episodes_are_refused(tmp_path):
    with pytest.raises(RecipeError):
        write(tmp_path / "report", [GROUPS[0], GROUPS[0]])
    assert not (tmp_path / "report").exists()


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot be written"):
        write(tmp_path / "file" / "report")


def test_a_missing_or_damaged_report_is_one_sentence(tmp_path):
    with pytest.raises(StoreError, match="there is no report"):
        load_report(tmp_path)
    write(tmp_path)
    path = tmp_path / "report.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"n": 12', '"n": "12"', 1), encoding="utf-8")
    with pytest.raises(StoreError, match=r"rows\.0\.n"):
        load_report(tmp_path)
    path.write_text("{")
    with pytest.raises(StoreError, match="is not a report: the file"):
        load_report(tmp_path)


def test_importing_the_report_loads_nothing_heavy():
    heavy = "('numpy', 'scipy', 'matplotlib', 'jinja2', 'rich', 'torch', 'transformers')"
    code = f"import sys, pipeline.evaluation.report; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
