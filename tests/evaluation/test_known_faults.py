"""Public faults of evaluation reports that must not happen here."""

import json
from pathlib import Path

import pytest

from pipeline.errors import StoreError
from pipeline.evaluation.report import build_report
from pipeline.evaluation.rows import Settings
from tests.evaluation.builders import episode, make_panel, make_task, prompted, tuned

CASES = Path(__file__).resolve().parents[2] / "../shared/cases/known_faults.jsonl"


def case(name):
    if not CASES.exists():
        pytest.skip("the shared cases are not here")
    lines = CASES.read_text(encoding="utf-8").split("\n")
    return next(c for line in lines if line and (c := json.loads(line))["id"] == name)


def test_r07_padded_duplicates_are_refused_and_every_task_counts_once():
    fault = case("R07")
    n, padded_to = fault["input"]["n"], fault["input"]["world_size"] * fault["input"]["per_device_batch"]
    tasks = [make_task(i) for i in range(n)]
    gathered = [episode(tasks[i % n], "Paris", tag=str(i)) for i in range(padded_to)]
    with pytest.raises(StoreError, match="two episodes of task 'q0'"):
        build_report("r", make_panel(tasks), [prompted("react", gathered)], Settings(resamples=199))
    report = build_report("r", make_panel(tasks), [prompted("react", gathered[:n])], Settings(resamples=199))
    assert report.rows[0].n == fault["expected"]["predictions"]
    assert sum(report.rows[0].outcomes.values()) == fault["expected"]["unique_ids"]


def test_r07_a_dropped_last_batch_does_not_shrink_the_denominator():
    tasks = [make_task(i) for i in range(22)]
    kept = [episode(t, "Paris") for t in tasks[:16]]
    row = build_report("r", make_panel(tasks), [prompted("react", kept)], Settings(resamples=199)).rows[0]
    assert (row.n, row.correct, row.errored, row.em) == (22, 16, 6, 16 / 22)


def test_r10_an_adapter_without_effect_is_warned_about():
    assert case("R10")["input"]["greedy_outputs_equal_base"]
    tasks = [make_task(i) for i in range(5)]
    same = [episode(t, "Paris" if i else "Rome") for i, t in enumerate(tasks)]
    report = build_report(
        "r", make_panel(tasks), [tuned("react", same), prompted("react", same)], Settings(resamples=199)
    )
    assert "No effect" in report.notes[0]
    assert "adapter" in report.notes[0]
