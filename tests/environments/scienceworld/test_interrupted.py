"""A whole run that is interrupted: no Java is left behind, and the same command goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.environments.scienceworld.test_simulator import is_gone

RECIPE = """
name: wandering
environment: {name: scienceworld, kinds: [7-1], options: {simulators: 2}}
generate:
  model: expert
  method: {name: random_valid, max_steps: 6}
  panel: {split: train, size: 8}
  concurrency: 2
"""


def children(pid):
    """The processes that a process has started, and that still run."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(number) for number in path.read_text().split()]
    return found


def started(tmp_path):
    command = [sys.executable, "-m", "pipeline.cli.main", "generate", "recipe.yaml"]
    return subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # A shell that starts it in the background would let it ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )


def stored(tmp_path):
    path = tmp_path / "trajectories/wandering/trajectories.jsonl"
    return [json.loads(line)["id"] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.slow
def test_ctrl_c_leaves_no_java_and_loses_nothing(installed, tmp_path):
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    run = started(tmp_path)
    deadline = time.monotonic() + 240
    while not stored(tmp_path) and run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.2)
    simulators = children(run.pid)
    assert len(simulators) == 2
    os.killpg(run.pid, signal.SIGINT)
    said, _ = run.communicate(timeout=60)
    assert run.returncode == 130, said
    assert all(map(is_gone, simulators))
    before = stored(tmp_path)
    assert 1 <= len(before) < 8
    again = started(tmp_path)
    said, _ = again.communicate(timeout=240)
    assert again.returncode == 0, said
    after = stored(tmp_path)
    assert after[: len(before)] == before and len(after) == len(set(after)) == 8
