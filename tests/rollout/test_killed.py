"""kill -9 at random moments, resume each time: nothing lost, repeated or torn."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from pipeline.trajectories.store import TrajectoryStore
from tests.rollout.test_engine import timeless

COUNT = 60
ROOT = Path(__file__).resolve().parents[2]


def child(path: Path, delay: float) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-m", "tests.rollout.toy", str(path), str(COUNT), str(delay)]
    return subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_killed_ten_times_equals_uninterrupted(tmp_path: Path) -> None:
    path, chance = tmp_path / "killed.jsonl", random.Random(20240607)
    kills, kept = 0, set()
    while kills < 10:
        with child(path, 0.05) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(chance.uniform(0.0, 0.25))
            process.kill()
        assert process.returncode == -signal.SIGKILL, "the run ended before it could be killed"
        kills += 1
        now = TrajectoryStore(path).ids()
        assert kept <= now, "something that was stored is gone"
        kept = now
    assert 0 < len(kept) < 2 * COUNT
    for target in (path, tmp_path / "whole.jsonl"):
        with child(target, 0.0) as process:
            assert process.wait() == 0
    assert timeless(path) == timeless(tmp_path / "whole.jsonl")
    # Not only the latest row of each id agrees: no episode was played twice.
    assert path.read_bytes().count(b"\n") == 2 * COUNT
