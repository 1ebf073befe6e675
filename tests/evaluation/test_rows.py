"""Rows: the panel is the denominator, errors stand apart, duplicates are refused."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import RecipeError, StoreError
from pipeline.evaluation.rows import Group, Settings, align, build_rows
from pipeline.trajectories.schema import Outcome, Step, Usage
from tests.evaluation.builders import episode, make_panel, make_task, prompted, tuned, verdicts

TASKS = [make_task(i, kind="bridge2" if i % 2 else "comparison") for i in range(8)]
PANEL = make_panel(TASKS)
FAST = Settings(resamples=199)


def one_row(pattern, panel=PANEL, settings=FAST):
    return build_rows(panel, [prompted("react", verdicts(TASKS, pattern))], settings)[0]


def test_the_panel_is_the_denominator():
    row = one_row("yyyne-s-")
    assert (row.n, row.correct, row.errored) == (8, 3, 3)
    assert row.em == row.accuracy == row.f1 == 3 / 8
    assert row.outcomes == {"finished": 4, "model_error": 1, "missing": 2, "step_limit": 1}
    assert row.by_kind["comparison"].model_dump() == {"n": 4, "correct": 2}
    assert row.by_kind["bridge2"].model_dump() == {"n": 4, "correct": 1}
    assert 0.0 < row.ci_low < 3 / 8 < row.ci_high < 1.0


def test_a_group_without_any_episode_is_a_row_of_errors():
    row = one_row("--------")
    assert (row.n, row.correct, row.errored, row.em, row.f1) == (8, 0, 8, 0.0, None)
    assert row.outcomes == {"missing": 8}
    assert (row.steps, row.seconds, row.cost) == (0.0, 0.0, 0.0)
    assert row.ci_method == "clopper-pearson"


def test_means_are_over_played_episodes_and_cost_is_a_sum():
    steps = [Step(action="Search[x]", invalid=True), Step(action="Finish[Paris]")]
    played = [
        episode(
            TASKS[0],
            "Paris",
            steps=steps,
            seconds=3.0,
            usage=Usage(prompt_tokens=100, completion_tokens=30, cost=2.0),
        ),
        episode(TASKS[1], "Rome", seconds=1.0, usage=Usage(prompt_tokens=50, completion_tokens=10, cost=1.0)),
    ]
    row = build_rows(PANEL, [prompted("react", played)], FAST)[0]
    assert (row.steps, row.invalid_actions, row.seconds) == (1.5, 0.5, 2.0)
    assert (row.prompt_tokens, row.completion_tokens, row.cost) == (75.0, 20.0, 3.0)


def test_kinds_of_tasks_without_episodes_come_from_the_panel_or_another_group():
    assert "(unknown)" not in one_row("--------").by_kind
    detached = make_panel(TASKS, attached=False)
    assert one_row("yyyyyy--", detached).by_kind["(unknown)"].n == 2
    groups = [prompted("react", verdicts(TASKS, "--------")), prompted("cot", verdicts(TASKS, "nnnnnnnn"))]
    assert all("(unknown)" not in row.by_kind for row in build_rows(detached, groups, FAST))


def test_official_columns_are_carried_beside_the_strict_ones():
    metrics = {"em": 0.0, "f1": 0.5, "em_official": 1.0, "f1_official": 1.0}
    row = build_rows(PANEL, [prompted("cot", [episode(TASKS[0], "x", metrics=metrics)])], FAST)[0]
    assert row.metrics == {"em": 0.0, "f1": 0.5 / 8, "em_official": 1 / 8, "f1_official": 1 / 8}


def test_claims_have_accuracy_and_labels_and_no_em():
    tasks = [make_task(i, gold) for i, gold in enumerate(["SUPPORTS", "REFUTES"] * 4)]
    played = [episode(t, "SUPPORTS", metrics={"accuracy": float(t.gold[0] == "SUPPORTS")}) for t in tasks[:6]]
    settings = Settings("accuracy", resamples=199)
    row = build_rows(make_panel(tasks), [prompted("act", played)], settings)[0]
    assert (row.em, row.f1, row.accuracy) == (None, None, 3 / 8)
    assert row.labels is not None
    assert row.labels.labels["SUPPORTS"].support == 4
    assert row.labels.labels["SUPPORTS"].precision == 0.5
    assert row.labels.labels["REFUTES"].recall == 0.0


def test_rows_come_best_first():
    groups = [
        prompted("act", verdicts(TASKS, "ynnnnnnn")),
        tuned("react", verdicts(TASKS, "yyyyynnn")),
        prompted("cot", verdicts(TASKS, "yynnnnnn")),
    ]
    assert [row.name for row in build_rows(PANEL, groups, FAST)] == [
        "react × student",
        "cot × base",
        "act × base",
    ]


def test_two_episodes_of_a_task_are_refused():
    twice = [episode(TASKS[0], "Paris", tag="a"), episode(TASKS[0], "Paris", tag="b")]
    with pytest.raises(StoreError, match=r"two episodes of task 'q0' \('q0-a' and 'q0-b'\)"):
        align(PANEL, [prompted("react", twice)])


def test_an_episode_outside_the_panel_or_of_a_changed_task_is_refused():
    with pytest.raises(StoreError, match="'q99', which is not in the panel"):
        align(PANEL, [prompted("react", [episode(make_task(99), "Paris")])])
    changed = make_task(0, gold="Lyon", kind="comparison")
    with pytest.raises(StoreError, match="another version of task 'q0'"):
        align(PANEL, [prompted("react", [episode(changed, "Lyon")])])


def test_an_evaluation_without_tasks_entries_or_distinct_names_is_refused():
    group = prompted("react", [])
    with pytest.raises(RecipeError, match="0 tasks and there are 1 entries"):
        align(make_panel([]), [group])
    with pytest.raises(RecipeError, match="8 tasks and there are 0 entries"):
        align(PANEL, [])
    with pytest.raises(RecipeError, match="two entries of the evaluation are called 'react × base'"):
        align(PANEL, [group, Group("react", "base", "fine-tuned", [])])
    with pytest.raises(StoreError, match="lists task 'q0' more than once"):
        align(make_panel([TASKS[0], TASKS[0]]), [group])


def test_a_metric_that_the_environment_does_not_measure_is_refused():
    with pytest.raises(StoreError, match="it carries: accuracy"):
        build_rows(PANEL, [prompted("react", [episode(TASKS[0], "x", metrics={"accuracy": 0.0})])], FAST)


@settings(max_examples=40, deadline=None)
@given(st.text("ynes-", min_size=8, max_size=8), st.randoms(use_true_random=False))
def test_counts_add_up_and_order_does_not_matter(pattern: str, shuffler: random.Random):
    trajectories = verdicts(TASKS, pattern)
    row = build_rows(PANEL, [prompted("react", trajectories)], FAST)[0]
    assert sum(row.outcomes.values()) == sum(k.n for k in row.by_kind.values()) == row.n == 8
    assert row.correct == sum(k.correct for k in row.by_kind.values()) == pattern.count("y")
    assert row.errored == pattern.count("e") + pattern.count("-")
    assert row.correct + row.errored <= row.n
    assert row.outcomes.get(Outcome.STEP_LIMIT.value, 0) == pattern.count("s")
    shuffler.shuffle(trajectories)
    assert build_rows(PANEL, [prompted("react", trajectories)], FAST)[0].model_dump() == row.model_dump()
