from __future__ import annotations

import importlib.util
import resource
from pathlib import Path
from typing import Any

import pytest

from pipeline.trajectories.store import write_trajectories

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "select_export.py"


@pytest.fixture(scope="module")
def benchmark() -> Any:
    spec = importlib.util.spec_from_file_location("select_export", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_stage_takes_all_that_is_correct(tmp_path: Path, benchmark: Any) -> None:
    correct = sum(trajectory.grade.correct for trajectory in benchmark.synthetic(1000))
    write_trajectories(tmp_path / "trajectories.jsonl", benchmark.synthetic(1000))
    out = {stage: benchmark.run_stage(stage, tmp_path)["out"] for stage in benchmark.STAGES}
    assert out == {"select": correct, "text": 5 * correct, "messages": correct, "sharegpt": correct}
    assert 850 < correct < 950


def test_the_peak_is_counted_in_mebibytes(tmp_path: Path, benchmark: Any) -> None:
    write_trajectories(tmp_path / "trajectories.jsonl", benchmark.synthetic(10))
    peak = benchmark.run_stage("select", tmp_path)["peak_mib"]
    assert peak == pytest.approx(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, abs=1)
