"""Tables by kind of task: counted as the paper counts, with the panel as the denominator."""

import io
import json
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from pipeline.cli import compare
from pipeline.environments.kinds import KindGroup
from pipeline.environments.scienceworld.groups import KIND_GROUPS
from pipeline.environments.scienceworld.names import BY_ID, TYPES
from pipeline.evaluation.figures import plot_groups
from pipeline.evaluation.kind_sheets import PUBLISHED, kind_sheets, points
from pipeline.evaluation.kinds import EPISODES, OVERALL, kind_table
from pipeline.evaluation.presentation import markdown, terminal_table
from pipeline.evaluation.report import build_report, load_report, write_report
from pipeline.evaluation.rows import Settings
from pipeline.trajectories.schema import Outcome, Step, Usage
from tests.evaluation.builders import episode, make_panel, make_task, prompted

# The published table (Lin et al. 2023, table 1): SayCan, ReAct, Reflexion, SwiftSage.
PAPER = """
1-1 33.06 3.52 4.22 97.04          1-2 10.39 13.70 10.61 87.04        1-3 3.88 7.78 7.78 72.78
1-4 .37 9.88 .92 100               2-1 26.37 7.19 5.92 99.17          2-2 8.03 6.10 28.59 88.17
2-3 17.41 22.37 22.37 95.73        3-1 52.14 56 100 88.67             3-2 22.50 54.33 17.45 55.33
3-3 99.56 76.19 72.54 71.90        3-4 47.76 88.81 70.22 77.86        4-1 22.87 26.67 64.93 100
4-2 58.18 80 87.27 100             4-3 20.87 53.33 16.42 91.67        4-4 31.43 27.50 100 100
5-1 9.92 9.06 7.33 74.59           5-2 13.93 18.57 13 93.93           6-1 47.81 51.04 70.35 49.40
6-2 39.26 58.89 70.67 100          6-3 19.72 40.74 15.77 91.48        7-1 80 60 100 95
7-2 67.5 67.5 84.37 85             7-3 50 50 83 93.33                 8-1 20.91 27.67 2.58 89
8-2 16 8 8 68.5                    9-1 21.94 40.5 50.63 75            9-2 32.26 44 100 70
9-3 13.67 41 70.62 60              10-1 67.53 25.7 50.9 92.3          10-2 59.45 16.8 23.69 77.6
"""
ENTRIES = ["SayCan", "ReAct", "Reflexion", "SwiftSage"]
MEANS = {
    "short": [43.83, 48.79, 71.47, 92.22],
    "medium": [36.58, 44.01, 35.43, 77.79],
    "long": [23.65, 21.07, 30.17, 83.0],
    OVERALL: [33.82, 36.43, 45.34, 84.68],
}
"""The means that stand below the published table."""
SCORE = Settings("score", resamples=199)


def published_rows():
    words = PAPER.split()
    return {
        words[at]: [float(word) / 100 for word in words[at + 1 : at + 5]] for at in range(0, len(words), 5)
    }


def scored(task, score, published=None, **fields):
    """An episode with points; what the wrapper says is the same unless given."""
    other = score if published is None else published
    metrics = {"score": score, "score_published": other, "score_best": max(score, other)}
    return episode(task, None, correct=score == 1.0, metrics=metrics, **fields)


def of_kinds(*kinds):
    return [make_task(number, kind=kind) for number, kind in enumerate(kinds)]


def entry_of(tasks, scores, known=KIND_GROUPS, config=SCORE):
    played = [scored(task, score) for task, score in zip(tasks, scores, strict=True) if score is not None]
    table = kind_table(make_panel(tasks), [prompted("react", played)], known, config)
    return table.entries[0]


def mean_of(entry, group):
    return next(mean for mean in entry.groups if mean.group == group)


def test_the_groups_are_the_papers():
    assert set(KIND_GROUPS) == set(BY_ID) == {kind.id for kind in TYPES}
    groups = [about.group for about in KIND_GROUPS.values()]
    assert [groups.count(name) for name in ("short", "medium", "long")] == [10, 8, 12]
    lengths = {name: [a.length for a in KIND_GROUPS.values() if a.group == name] for name in set(groups)}
    # The column's own means stand below the published table.
    wanted = {"short": 11.76, "medium": 28.58, "long": 94.30}
    for name, length in wanted.items():
        assert sum(lengths[name]) / len(lengths[name]) == pytest.approx(length, abs=0.01)
    first, *_, last = KIND_GROUPS
    assert (first, last) == ("1-1", "10-2")


def test_the_published_rows_give_the_published_means():
    """Episodes as many as the paper's, ten a kind or fewer, each worth its kind's mean."""
    rows = published_rows()
    assert set(rows) == set(KIND_GROUPS)
    kinds = [kind for kind in rows for _ in range(min(10, len(BY_ID[kind].fold("test"))))]
    assert len(kinds) == 271
    tasks = of_kinds(*kinds)
    groups = [
        prompted(name, [scored(task, rows[task.kind][place]) for task in tasks])
        for place, name in enumerate(ENTRIES)
    ]
    table = kind_table(make_panel(tasks), groups, KIND_GROUPS, SCORE)
    for place, entry in enumerate(table.entries):
        for group, wanted in MEANS.items():
            assert 100 * mean_of(entry, group).mean == pytest.approx(wanted[place], abs=0.0051)
        assert mean_of(entry, OVERALL).kinds == 30
        # The plain mean over episodes is another number.
        assert abs(mean_of(entry, EPISODES).mean - mean_of(entry, OVERALL).mean) > 1e-4


def test_kinds_weigh_the_same_whatever_their_sizes():
    entry = entry_of(of_kinds("4-2", "4-2", "4-2", "7-1", "1-1"), [1.0, 1.0, 0.4, 0.0, 0.5])
    assert entry.kinds == {"1-1": 0.5, "4-2": pytest.approx(0.8), "7-1": 0.0}
    assert entry.correct == {"1-1": 0, "4-2": 2, "7-1": 0}
    means = {mean.group: (mean.kinds, mean.n, mean.mean) for mean in entry.groups}
    assert means == {
        "short": (2, 4, pytest.approx(0.4)),
        "long": (1, 1, 0.5),
        OVERALL: (3, 5, pytest.approx(1.3 / 3)),
        EPISODES: (3, 5, pytest.approx(0.58)),
    }


def test_missing_and_errored_episodes_are_worth_nothing_and_limits_keep_their_points():
    tasks = of_kinds("4-2", "4-2", "4-2", "4-2")
    played = [
        scored(tasks[0], 0.5, outcome=Outcome.STEP_LIMIT),
        scored(tasks[1], 0.5, outcome=Outcome.MODEL_ERROR),
        scored(tasks[2], 1.0),
    ]
    table = kind_table(make_panel(tasks), [prompted("react", played)], KIND_GROUPS, SCORE)
    assert table.lines[0].n == 4
    assert table.entries[0].kinds == {"4-2": 1.5 / 4}
    assert table.entries[0].correct == {"4-2": 1}


def test_the_strict_and_the_published_mean_stand_side_by_side():
    tasks = of_kinds("4-2", "4-2", "7-1")
    played = [scored(tasks[0], 0.0, -1.0), scored(tasks[1], 1.0), scored(tasks[2], 0.5)]
    table = kind_table(make_panel(tasks), [prompted("react", played)], KIND_GROUPS, SCORE)
    overall = mean_of(table.entries[0], OVERALL)
    assert (overall.mean, overall.published) == (0.5, 0.25)
    assert mean_of(table.entries[0], EPISODES).published == pytest.approx(0.5 / 3)
    rows = {row[0]: row for row in kind_sheets(table)[1].rows}
    assert rows[PUBLISHED][-1] == "25.00"
    assert rows[OVERALL][-1].startswith("50.00 (")


def test_what_acting_cost():
    tasks = of_kinds("4-2", "4-2")
    played = [
        scored(
            task,
            score,
            steps=[Step(action="wait")] * count,
            seconds=seconds,
            usage=Usage(prompt_tokens=90, completion_tokens=10, cost=cost),
        )
        for task, score, count, seconds, cost in zip(
            tasks, [0.5, 1.0], [3, 1], [6.0, 2.0], [1.0, 2.0], strict=True
        )
    ]
    entry = kind_table(make_panel(tasks), [prompted("react", played)], KIND_GROUPS, SCORE).entries[0]
    assert (entry.actions, entry.tokens, entry.seconds) == (4, 50.0, 2.0)
    assert entry.cost == pytest.approx(3.0 / 150)


def test_nobody_played_costs_nothing():
    entry = entry_of(of_kinds("4-2", "7-1"), [None, None])
    assert (entry.actions, entry.tokens, entry.seconds, entry.cost) == (0, 0.0, 0.0, None)
    assert mean_of(entry, OVERALL).mean == 0.0


def test_a_panel_of_unknown_kinds_has_no_table():
    tasks = of_kinds("4-2", "mystery")
    groups = [prompted("react", [scored(task, 0.5) for task in tasks])]
    assert kind_table(make_panel(tasks), groups, KIND_GROUPS, SCORE) is None


def test_any_environment_may_group_its_kinds_and_any_metric_be_tabled():
    known = {"compare": KindGroup("Compare", "hard", 9), "bridge": KindGroup("Bridge", "easy", 2)}
    tasks = of_kinds("bridge", "compare", "bridge")
    played = [episode(task, "Paris" if number else "x") for number, task in enumerate(tasks)]
    table = kind_table(make_panel(tasks), [prompted("cot", played)], known, Settings("em", resamples=199))
    assert [line.kind for line in table.lines] == ["compare", "bridge"]
    assert [mean.group for mean in table.entries[0].groups] == ["easy", "hard", OVERALL, EPISODES]
    assert mean_of(table.entries[0], "easy").mean == 0.5
    assert mean_of(table.entries[0], OVERALL).published is None
    assert all(row[0] != PUBLISHED for row in kind_sheets(table)[1].rows)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["4-2", "7-1", "2-1", "1-1"]), st.integers(0, 100)), min_size=1, max_size=25
    ),
    st.randoms(use_true_random=False),
)
def test_order_does_not_matter_and_means_lie_in_their_intervals(cases, shuffler: random.Random):
    tasks = of_kinds(*(kind for kind, _ in cases))
    played = [scored(task, score / 100) for task, (_, score) in zip(tasks, cases, strict=True)]
    panel = make_panel(tasks)
    table = kind_table(panel, [prompted("react", played)], KIND_GROUPS, SCORE)
    shuffler.shuffle(played)
    assert kind_table(panel, [prompted("react", played)], KIND_GROUPS, SCORE) == table
    for mean in table.entries[0].groups:
        assert mean.ci_low - 1e-9 <= mean.mean <= mean.ci_high + 1e-9
    assert sum(line.n for line in table.lines) == len(cases)


def report_of(count=2, name="react"):
    tasks = of_kinds(*(kind for kind in KIND_GROUPS for _ in range(3)))
    draw = random.Random(7)
    groups = [
        prompted(name, [scored(task, draw.randint(0, 100) / 100) for task in tasks], model=f"m{n}")
        for n in range(count)
    ]
    return build_report("science", make_panel(tasks), groups, SCORE, kinds=KIND_GROUPS)


def test_the_report_holds_the_table_everywhere(tmp_path):
    report = report_of()
    write_report(tmp_path, report)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "groups.png",
        "report.json",
        "report.md",
        "report.png",
    ]
    assert load_report(tmp_path) == report
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "# science: score on 90 test tasks" in text
    assert "## Score by kind of task\n\n| kind | group | steps | n | react × m" in text
    assert re.search(r"\| 10-2 \| long \| 132\.1 \| 3 \| \d+\.\d\d \| \d+\.\d\d \|", text)
    assert "## What acting cost" in text
    assert "keeps its points" in text
    assert "Correct by kind" not in text
    assert "(groups.png)" in text
    best = report.kinds.entries[0]
    assert best.entry == report.rows[0].name
    assert mean_of(best, EPISODES).mean == pytest.approx(report.rows[0].value("score"))
    assert "No effect" not in text


def test_the_terminal_table_fits_80_columns():
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(terminal_table(report_of()))
    shown = console.export_text()
    assert max(map(len, shown.splitlines())) <= 80
    assert f"{OVERALL} " in shown
    assert "10-2" in shown


def test_foreign_names_cannot_break_the_table():
    report = report_of(1, "a|b\n# x <b>$y$")
    assert not re.search(r"^# x|(?<!\\)<b>", markdown(report), flags=re.M)
    assert plot_groups(report.kinds, metric="score").startswith(b"\x89PNG")


def test_reports_without_groups_say_nothing_of_them(tmp_path):
    tasks = of_kinds("4-2", "7-1")
    played = [episode(task, "Paris") for task in tasks]
    report = build_report("plain", make_panel(tasks), [prompted("react", played)], Settings(resamples=199))
    write_report(tmp_path, report)
    assert "kinds" not in json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert load_report(tmp_path).kinds is None
    assert "keeps its points" not in markdown(report)
    assert "## Correct by kind of task" in markdown(report)


@pytest.mark.parametrize(
    ("measured", "metric"),
    [
        ({"em": 1.0, "f1": 1.0}, "em"),
        ({"score": 0.5, "score_published": 0.5}, "score"),
        ({"accuracy": 1.0}, "accuracy"),
        ({}, "accuracy"),
    ],
)
def test_what_an_environment_measures_is_the_reports_metric(measured, metric):
    played = [episode(make_task(1), "x", metrics=measured), episode(make_task(2), "x", metrics={})]
    assert compare._metric([prompted("react", played)]) == metric


def test_points_are_shown_as_the_papers_show_them():
    assert [points(value) for value in (0.0, 0.8468, 1.0)] == ["0.00", "84.68", "100.00"]
