"""Workers that live in this process and are lost at will: what the crew makes of them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ModelError, QuotaError, WorkerError
from pipeline.models.scripted import ScriptedModel
from pipeline.recipe.models import ModelRecipe, Recipe
from pipeline.rollout import crew as crews
from pipeline.rollout.crew import TRIES, Crew, LostWorkerError, gathered
from pipeline.rollout.engine import Plan, Summary, run_episodes
from pipeline.rollout.goal import Goal
from pipeline.rollout.worker import AbsentModel, Order
from pipeline.trajectories.schema import Task, Trajectory
from pipeline.trajectories.store import TrajectoryStore
from tests.rollout.test_engine import TASKS, timeless
from tests.rollout.toy import Sums, clever, plan


def local() -> Plan:
    """How a worker plays: by itself, with a model that goes by the recipe's address."""
    return plan(ScriptedModel(clever, address="expert"))


@dataclass
class Hand:
    """A worker that is lost in its ``life``-th episode, or says ``error``."""

    life: int | None = None
    lost_at_start: bool = False
    error: Exception | None = None
    waits: float = 0.0
    poison: str = ""
    seconds: float = 0.0
    begun: int = 0
    flying: int = 0
    most: int = 0
    closed: int = 0
    alive: bool = True

    async def open(self) -> None:
        await asyncio.sleep(self.waits)
        if self.lost_at_start:
            raise LostWorkerError("killed")
        if self.error:
            raise self.error

    async def play(self, order: Order, task: Task, sample: int, identity: str) -> Trajectory:
        self.begun += 1
        self.flying += 1
        self.most = max(self.most, self.flying)
        try:
            await asyncio.sleep(self.seconds)
            self.alive = self.alive and self.begun != self.life and task.id != self.poison
            if not self.alive:
                raise LostWorkerError("killed")
            own = local()
            found = await own.episode(task, sample, identity, own.settings())
            if not self.alive:
                raise LostWorkerError("killed")
            return found
        finally:
            self.flying -= 1

    async def close(self) -> None:
        self.closed += 1


@dataclass
class Agency:
    """Hires what the list holds, then workers that live."""

    planned: list[Hand] = field(default_factory=list)
    default: Callable[[], Hand] = Hand
    hired: list[Hand] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def hire(self) -> Hand:
        self.hired.append(self.planned.pop(0) if self.planned else self.default())
        return self.hired[-1]


def run(agency: Agency, path: Path, *, size: int = 3, world: Sums | None = None, **options: Any) -> Summary:
    async def whole() -> Summary:
        crew = Crew(agency.hire, size, agency.said.append)
        chosen = replace(local(), model=AbsentModel(ModelRecipe(address="expert")), players=crew)
        chosen = replace(chosen, environment=world) if world else chosen
        try:
            with TrajectoryStore(path) as store:
                return await run_episodes(chosen, TASKS, store, **options)
        finally:
            await crew.close()

    return asyncio.run(whole())


def alone(path: Path) -> Path:
    with TrajectoryStore(path) as store:
        asyncio.run(run_episodes(local(), TASKS, store))
    return path


@cache
def alone_timeless() -> dict[str, dict[str, Any]]:
    with TemporaryDirectory() as folder:
        return timeless(alone(Path(folder) / "alone"))


@settings(max_examples=40, deadline=None)
@given(lives=st.lists(st.integers(1, 6), max_size=9), size=st.integers(1, 4), concurrency=st.integers(1, 9))
def test_whoever_is_lost_the_same_episodes_come_out(lives: list[int], size: int, concurrency: int) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "crew"
        agency = Agency([Hand(life) for life in lives])
        for _ in range(len(lives) + 1):
            try:
                run(agency, path, size=size, concurrency=concurrency)
                break
            except WorkerError as error:
                assert f"{TRIES} workers in turn were lost" in str(error)
        assert timeless(path) == alone_timeless()
        # Nothing is stored twice.
        assert path.read_bytes().count(b"\n") == len(TASKS)
        # Everybody who was hired is let go, once.
        assert all(hand.closed == 1 for hand in agency.hired)


def test_a_lost_worker_is_said_and_replaced(tmp_path: Path) -> None:
    agency = Agency([Hand(life=3), Hand(), Hand()])
    summary = run(agency, tmp_path / "t", concurrency=6)
    assert (summary.owed, summary.done) == (12, 12)
    assert len(agency.hired) == 4
    assert agency.said[0] == "3 workers are starting"
    [lost] = agency.said[1:]
    assert lost.startswith("worker 1 was lost (killed); the episodes that it had in hand (")


def test_an_episode_that_takes_workers_down_stops_the_run(tmp_path: Path) -> None:
    agency = Agency(default=lambda: Hand(poison="sum-7"))
    with pytest.raises(WorkerError, match=r"3 workers in turn were lost .* task 'sum-7', sample 0;") as error:
        run(agency, tmp_path / "t", concurrency=1)
    assert "run again" in str(error.value)
    # What came before it is kept; a run costs no more workers than it may.
    assert len(TrajectoryStore(tmp_path / "t").ids()) == 7
    assert len(agency.hired) <= 3 + TRIES


def test_a_worker_that_cannot_start_is_tried_again_but_not_for_ever(tmp_path: Path) -> None:
    assert run(Agency([Hand(lost_at_start=True) for _ in range(2)]), tmp_path / "t", size=1).done == 12
    agency = Agency(default=lambda: Hand(lost_at_start=True))
    with pytest.raises(
        WorkerError, match=r"worker 1 could not be started 3 times in a row; the last: killed"
    ):
        run(agency, tmp_path / "u", size=1)
    assert len(agency.hired) == TRIES
    assert all(hand.closed == 1 for hand in agency.hired)


@pytest.mark.parametrize("error", [ModelError("there is no model"), QuotaError("pay first")])
def test_what_a_worker_says_stops_the_run(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        run(Agency(default=lambda: Hand(error=error)), tmp_path / "t")
    assert not TrajectoryStore(tmp_path / "t").ids()


def test_no_worker_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crews, "START_SECONDS", 0.05)
    with pytest.raises(WorkerError, match=r"no worker has become ready .* room for executor\.cpus"):
        run(Agency(default=lambda: Hand(waits=60)), tmp_path / "t")


def test_one_worker_is_enough_where_the_others_do_not_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crews, "START_SECONDS", 0.05)
    late = [Hand(waits=60), Hand(waits=60), Hand(seconds=0.01)]
    assert run(Agency(list(late)), tmp_path / "t", concurrency=3).done == 12
    assert [hand.begun for hand in late] == [0, 0, 12]


def test_the_first_to_be_ready_does_not_take_what_the_others_are_to_play(tmp_path: Path) -> None:
    hands = [Hand(seconds=0.01, waits=0.01 * number) for number in range(3)]
    run(Agency(list(hands)), tmp_path / "t", samples=4, concurrency=8)
    assert all(1 <= hand.most <= math.ceil(8 / 3) for hand in hands)
    assert all(hand.begun >= 5 for hand in hands)


def test_each_worker_has_the_room_of_its_own_world(tmp_path: Path) -> None:
    world = Sums()
    world.concurrency = 2  # type: ignore[attr-defined]
    hands = [Hand(seconds=0.002) for _ in range(3)]
    run(Agency(list(hands)), tmp_path / "t", samples=4, concurrency=50, world=world)
    assert [hand.most for hand in hands] == [2, 2, 2]


def test_a_goal_ends_the_run(tmp_path: Path) -> None:
    summary = run(Agency([Hand(life=2)]), tmp_path / "t", samples=2, concurrency=4, goal=Goal(until=5))
    assert summary.ended == "target"
    assert 5 <= summary.correct <= 5 + 4


def test_nobody_is_hired_where_nothing_is_owed(tmp_path: Path) -> None:
    agency = Agency()
    assert run(agency, alone(tmp_path / "t")).kept == 12
    assert not agency.hired


def test_a_model_of_this_process_cannot_be_sent() -> None:
    with pytest.raises(WorkerError, match="'expert' was made in this process"):
        Order.of(local())


def test_a_local_recipe_has_no_crew() -> None:
    async def crew() -> Crew | None:
        async with gathered(Recipe(name="x", environment={"name": "atlas"})) as found:  # type: ignore[arg-type]
            return found

    assert asyncio.run(crew()) is None
