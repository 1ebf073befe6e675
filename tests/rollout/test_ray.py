"""A real Ray on this machine, with three workers: killed, failing, interrupted."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pipeline.environments.registry import load_environment
from pipeline.errors import WorkerError
from pipeline.recipe.models import EnvironmentRecipe, ExecutorRecipe, MethodRecipe, ModelRecipe
from pipeline.rollout.crew import Crew, LostWorkerError
from pipeline.rollout.engine import Summary, run_episodes
from pipeline.rollout.hybrid import Host
from pipeline.trajectories.schema import Task, Trajectory
from pipeline.trajectories.store import TrajectoryStore
from tests.rollout.test_engine import timeless

# Ray itself is imported late: how it binds its servers is decided by then (see rollout/ray.py).
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="pip install 'staract[ray]'"),
]

ATLAS = EnvironmentRecipe(name="atlas", family="questions", kinds=["bridge2", "comparison"])
REACT = MethodRecipe(name="react", shots=0)
THREE = ExecutorRecipe(name="ray", workers=3)
RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "ray" / "atlas_three_workers.yaml"


@pytest.fixture(scope="module")
def hands() -> Iterator[Any]:
    """Ray as the command starts it; workers of several tests."""
    from pipeline.rollout.ray import RayHands

    made = RayHands(THREE, ATLAS)
    yield made
    made.close()


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    found = load_environment(ATLAS).tasks("train")
    return [task for task, _ in zip(found, range(60), strict=False)]


class Killer:
    """Kills a worker of the crew after some episodes; counts what the engine tells."""

    def __init__(self, hands: list[Any], after: int) -> None:
        self.hands, self.after, self.done = hands, after, 0

    def begin(self, owed: int) -> None:
        self.owed = owed

    def advance(self, trajectory: Trajectory) -> None:
        self.done += 1
        if self.done == self.after:
            os.kill(self.hands[0].pid, signal.SIGKILL)

    def end(self) -> None:
        pass


def with_ray(
    hands: Any, tasks: list[Task], path: Path, *, kill_after: int = -1, address: str = "expert"
) -> tuple[Summary, list[str], int]:
    """Play on three workers; the summary, what was said, and how many were hired."""
    from pipeline.rollout.worker import AbsentModel

    hired: list[Any] = []
    said: list[str] = []

    def hire() -> Any:
        hired.append(hands.hire())
        return hired[-1]

    async def whole() -> Summary:
        crew = Crew(hire, 3, said.append)
        absent = AbsentModel(ModelRecipe(address=address))
        host = Host(load_environment(ATLAS), absent, 7, players=crew)
        try:
            with TrajectoryStore(path) as store:
                plan, killer = host.plan(REACT), Killer(hired, kill_after)
                return await run_episodes(plan, tasks, store, concurrency=12, progress=killer)
        finally:
            await crew.close()

    return asyncio.run(whole()), said, len(hired)


def by_itself(tasks: list[Task], path: Path) -> Path:
    from pipeline.models.expert import ExpertModel

    with TrajectoryStore(path) as store:
        host = Host(load_environment(ATLAS), ExpertModel(), 7)
        asyncio.run(run_episodes(host.plan(REACT), tasks, store, concurrency=12))
    return path


def test_a_killed_worker_changes_nothing(
    hands: Any, tasks: list[Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A trajectory notes the version of transformers where it was loaded: here by other tests, if at all.
    monkeypatch.delitem(sys.modules, "transformers", raising=False)
    path = tmp_path / "ray"
    # A run that was begun without Ray goes on with it.
    by_itself(tasks[:10], path)
    summary, said, hired = with_ray(hands, tasks, path, kill_after=8)
    # Nobody outside this machine can reach it, and it has no dashboard.
    import ray

    [node] = ray.nodes()
    assert node["NodeManagerAddress"] == "127.0.0.1"
    assert (summary.owed, summary.kept, summary.done) == (50, 10, 50)
    assert any("was lost" in line for line in said)
    assert hired == 4
    assert timeless(path) == timeless(by_itself(tasks, tmp_path / "local"))
    assert path.read_bytes().count(b"\n") == 60


def test_a_model_that_is_not_there_stops_the_run(hands: Any, tasks: list[Task], tmp_path: Path) -> None:
    with pytest.raises(Exception, match="nowhere/at-all") as error:
        with_ray(hands, tasks, tmp_path / "t", address="./nowhere/at-all")
    assert type(error.value).__name__ == "ModelError"
    assert "\n" not in str(error.value)


class Broken:
    """Stands in for a worker whose code fails, or is another."""

    async def open(self) -> Any:
        raise ValueError("bad\nworse")

    async def play(self, *order: Any) -> Any:
        from pipeline.rollout.worker import Ready

        return Ready("0.0.7", 1)


def test_what_fails_without_a_sentence_is_lost(hands: Any) -> None:
    import ray

    from pipeline.rollout.ray import RayHand

    async def ask() -> None:
        hand = RayHand(ray.remote(Broken).remote())
        with pytest.raises(LostWorkerError, match=r"^ValueError: bad$"):
            await hand.open()
        await hand.close()
        with pytest.raises(LostWorkerError):
            await hand.open()

    asyncio.run(ask())


def test_another_version_is_refused(hands: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.rollout import ray as carrier

    monkeypatch.setattr(carrier, "__version__", "9.9")

    async def ask() -> None:
        hand = hands.hire()
        try:
            with pytest.raises(WorkerError, match=r"and this is 9\.9: install the same"):
                await hand.open()
        finally:
            await hand.close()

    asyncio.run(ask())


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def staract(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pipeline.cli.main", *arguments]
    # As a terminal does it: Ctrl-C reaches everything that the command started and did not shield.
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True)


def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(tmp_path: Path) -> None:
    store = tmp_path / "trajectories" / "many" / "trajectories.jsonl"
    command = ("generate", str(RECIPE), "generate.panel.size=900", "generate.concurrency=3")
    with staract(tmp_path, *command, "name=many") as process:
        until = time.monotonic() + 200
        while lines(store) < 5 and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "the same command goes on" in said
    kept = lines(store)
    assert 5 <= kept < 900
    with staract(tmp_path, *command, "name=many") as process:
        _, said = process.communicate(timeout=200)
    assert process.returncode == 0, said
    assert lines(store) == 900
    assert "Traceback" not in said
    with staract(tmp_path, *command, "name=alone", "executor=local") as process:
        assert process.wait(timeout=100) == 0
    assert timeless(store) == timeless(tmp_path / "trajectories" / "alone" / "trajectories.jsonl")
