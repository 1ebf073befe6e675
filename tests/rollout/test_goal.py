"""Runs to a target and under budgets, with scripted correctness."""

from __future__ import annotations

import asyncio
import gc
import random
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ModelError, QuotaError, RecipeError
from pipeline.recipe.models import GenerateRecipe, ModelRecipe
from pipeline.rollout.engine import Summary, run_episodes
from pipeline.rollout.goal import Goal, check_prices
from pipeline.rollout.projection import Projection
from pipeline.rollout.tally import Tally
from pipeline.trajectories.schema import Outcome, Trajectory
from pipeline.trajectories.store import TrajectoryStore, read_trajectories
from tests.rollout.script import Script

SOME = settings(max_examples=40, deadline=None)


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    tasks, samples = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    row = st.lists(st.booleans(), min_size=samples, max_size=samples)
    right = draw(st.lists(row, min_size=tasks, max_size=tasks))
    chance = random.Random(draw(st.integers(0, 99)))
    return Script(right, turns=lambda *_: chance.randrange(6))


def run(script: Script, path: Path, concurrency: int, stop_at: int | None = None, **goal: Any) -> Summary:
    """Play; cancelled as soon as ``stop_at`` episodes are stored."""

    class Watch:
        done = 0

        def begin(self, owed: int) -> None: ...

        def advance(self, trajectory: Trajectory) -> None:
            self.done += 1
            if self.done == stop_at:
                running.cancel()

        def end(self) -> None: ...

    async def main() -> Summary:
        nonlocal running
        with TrajectoryStore(path) as store:
            work = run_episodes(
                script.plan,
                script.tasks,
                store,
                samples=script.samples,
                concurrency=concurrency,
                goal=Goal(**goal),
                progress=Watch(),
            )
            running = asyncio.create_task(work)
            return await running

    running: asyncio.Task[Summary]
    return asyncio.run(main())


def played(script: Script, path: Path) -> list[tuple[int, int]]:
    """Every line of the store, as task and sample."""
    return [script.places[found.id] for found in read_trajectories(path)] if path.stat().st_size else []


@SOME
@given(scripts(), st.integers(1, 12), st.integers(1, 5), st.integers(1, 3))
def test_a_run_ends_at_its_target_or_when_the_panel_is_played(
    script: Script, until: int, concurrency: int, per_task: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.jsonl"
        summary = run(script, path, concurrency, until=until, per_task=per_task)
        found = played(script, path)
        assert len(found) == len(set(found)) == summary.done == len(script.begun)
        worth = script.worth(set(found), per_task)
        assert summary.counted == worth == sum(script.right[task][sample] for task, sample in found)
        assert worth < until + concurrency
        if worth >= until:
            assert summary.ended == "target"
            assert set(found) <= script.wanted(per_task)
        else:
            assert summary.ended == "panel"
            assert set(found) == script.wanted(per_task)
        before = path.read_bytes()
        assert run(script, path, concurrency, until=until, per_task=per_task).done == 0
        assert path.read_bytes() == before


@SOME
@given(scripts(), st.integers(1, 12), st.integers(1, 5), st.integers(1, 3), st.data())
def test_killed_and_resumed_is_as_if_it_had_never_been_killed(
    script: Script, until: int, concurrency: int, per_task: int, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, goal = Path(folder) / "t.jsonl", {"until": until, "per_task": per_task}
        for _ in range(data.draw(st.integers(1, 3))):
            stop_at = data.draw(st.integers(1, 6))
            with suppress(asyncio.CancelledError):
                run(script, path, concurrency, stop_at, **goal)
        summary = run(script, path, concurrency, **goal)
        found = played(script, path)
        assert len(found) == len(set(found)) == summary.kept + summary.done
        worth = script.worth(set(found), per_task)
        assert summary.counted == worth < until + concurrency
        wanted = script.wanted(per_task)
        assert set(found) <= wanted if worth >= until else set(found) == wanted


@SOME
@given(scripts(), st.integers(1, 3))
def test_one_at_a_time_goes_round_by_round_in_the_order_of_the_panel(script: Script, per_task: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(script, Path(folder) / "t.jsonl", 1, until=999, per_task=per_task)
    assert script.begun == sorted(script.wanted(per_task), key=lambda place: (place[1], place[0]))


@SOME
@given(scripts(), st.integers(1, 9), st.integers(1, 3))
def test_no_task_is_played_again_before_every_task_has_been(
    script: Script, concurrency: int, per_task: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(script, Path(folder) / "t.jsonl", concurrency, until=999, per_task=per_task)
    first = [sample for _, sample in script.begun]
    assert first[: len(script.tasks)] == [0] * len(script.tasks)
    assert script.most <= concurrency


def test_a_slow_episode_holds_up_its_own_task_only(tmp_path: Path) -> None:
    slow = Script([[False] * 3] * 8, turns=lambda task, sample: 400 if (task, sample) == (0, 0) else 1)
    run(slow, tmp_path / "t.jsonl", 4, until=99)
    assert slow.begun.index((7, 2)) < slow.begun.index((0, 1)) < slow.begun.index((0, 2))


def test_without_a_goal_samples_of_a_task_stay_together(tmp_path: Path) -> None:
    script = Script([[True] * 2] * 3)
    assert run(script, tmp_path / "t.jsonl", 1).ended == "panel"
    assert script.begun == [(task, sample) for task in range(3) for sample in range(2)]


@SOME
@given(st.integers(1, 30), st.integers(1, 9), st.integers(1, 25), st.integers(0, 8))
def test_a_budget_is_used_up_and_never_exceeded(
    tasks: int, concurrency: int, pays_for: int, stop_at: int
) -> None:
    # A tenth has no exact binary form, so this also sees sums that are a hair too large.
    script = Script(
        [[False]] * tasks, cost=lambda *_: 0.1, turns=lambda *_: random.Random(tasks).randrange(4)
    )
    with tempfile.TemporaryDirectory() as folder:
        path, budget = Path(folder) / "t.jsonl", pays_for / 10
        if stop_at:
            with suppress(asyncio.CancelledError):
                run(script, path, concurrency, stop_at, max_cost=budget)
        summary = run(script, path, concurrency, max_cost=budget)
        assert summary.kept + summary.done == len(played(script, path)) == min(tasks, pays_for)
        assert summary.ended == ("budget" if pays_for < tasks else "panel")


@SOME
@given(st.integers(2, 9), st.integers(3, 40), st.integers(0, 99))
def test_episodes_in_flight_can_only_exceed_it_by_what_they_cost_more_than_the_mean(
    concurrency: int, budget: int, seed: int
) -> None:
    chance = random.Random(seed)
    prices = [chance.uniform(1, 3) for _ in range(60)]
    script = Script([[False]] * 60, cost=lambda task, _: prices[task], turns=lambda *_: chance.randrange(5))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.jsonl"
        summary = run(script, path, concurrency, max_cost=budget)
    assert summary.ended == "budget"
    assert budget - 3 < summary.usage.cost <= budget + concurrency * (3 - 1)


def test_tokens_are_prompt_and_completion_of_the_whole_run(tmp_path: Path) -> None:
    script, path = Script([[False]] * 30), tmp_path / "t.jsonl"
    assert run(script, path, 4, max_tokens=105).done == 10
    again = run(script, path, 4, max_tokens=125)
    assert (again.kept, again.done, again.ended) == (10, 2, "budget")
    assert again.projection is not None
    assert again.projection.episodes == 12


def test_an_error_that_was_paid_for_is_spent_although_it_is_played_again(tmp_path: Path) -> None:
    path, script = tmp_path / "t.jsonl", Script([[False]] * 9, cost=lambda *_: 1.0)
    run(script, path, 1, max_cost=3.5)
    lines = list(read_trajectories(path))
    path.unlink()
    with TrajectoryStore(path) as store:
        for one in lines:
            store.append(one.model_copy(update={"outcome": Outcome.MODEL_ERROR, "error": "cut"}))
    summary = run(script, path, 1, max_cost=5.0)
    # Three were paid for before and are played again: two more fit.
    assert (summary.kept, summary.done, summary.ended) == (0, 2, "budget")
    assert run(script, path, 1, max_cost=5.0).done == 0


def test_the_first_episodes_feel_their_way(tmp_path: Path) -> None:
    script = Script([[False]] * 99, cost=lambda *_: 10.0, turns=lambda *_: 3)
    summary = run(script, tmp_path / "t.jsonl", 64, max_cost=5.0)
    assert (summary.done, summary.ended) == (1, "budget")


def test_a_free_model_under_a_budget_of_tokens_plays_the_panel(tmp_path: Path) -> None:
    script = Script([[True] * 2] * 5)
    assert run(script, tmp_path / "t.jsonl", 3, max_cost=1.0).ended == "panel"
    assert len(script.begun) == 10


def test_a_budget_of_cost_for_a_model_without_a_price_is_refused() -> None:
    recipe = GenerateRecipe(model="teacher", max_cost=2.5)
    with pytest.raises(RecipeError, match=r"max_cost is 2.5, but model 'teacher' has no price"):
        check_prices(recipe, ModelRecipe(address="expert"))
    check_prices(recipe, ModelRecipe(address="expert", price_per_million=(0.0, 1.0)))
    check_prices(GenerateRecipe(max_tokens=5), ModelRecipe(address="expert"))


def test_trajectories_of_other_plans_do_not_count(tmp_path: Path) -> None:
    path, other = tmp_path / "t.jsonl", Script([[True]] * 6, cost=lambda *_: 1.0, address="another")
    run(other, path, 2)
    script = Script([[True]] * 6, cost=lambda *_: 1.0)
    summary = run(script, path, 1, until=4, max_cost=4.0)
    assert (summary.kept, summary.done, summary.ended) == (0, 4, "target")


def test_no_quota_lets_the_others_finish_and_says_what_is_kept(tmp_path: Path) -> None:
    def poor(task: int, sample: int) -> None:
        if (task, sample) == (5, 0):
            raise QuotaError("no quota left")

    path = tmp_path / "t.jsonl"
    script = Script([[True]] * 20, before=poor, turns=lambda *_: 4)
    with pytest.raises(QuotaError) as caught:
        run(script, path, 4, until=15)
    kept = len(played(script, path))
    # The three beside it were in flight and are kept; nothing new began.
    assert set(script.begun) - set(played(script, path)) == {(5, 0)}
    assert str(caught.value) == (
        f"no quota left. Stopped with {kept} of 15 correct after {kept} episodes; {kept} are kept:"
        " run again to go on"
    )
    script.before = lambda *_: None
    summary = run(script, path, 4, until=15)
    assert (summary.kept, summary.ended) == (kept, "target")
    assert sorted(played(script, path)) == sorted(set(played(script, path)))


def test_no_quota_after_the_target_is_no_error(tmp_path: Path) -> None:
    def poor(task: int, sample: int) -> None:
        if task == 1:
            raise QuotaError("no quota left")

    class Late(Script):
        async def generate(self, request: Any) -> Any:
            if self.places[request.session][0] == 1:
                await asyncio.sleep(0.01)
            return await super().generate(request)

    script = Late([[True]] * 2, before=poor, turns=lambda *_: 3)
    summary = run(script, tmp_path / "t.jsonl", 2, until=1)
    assert len(script.begun) == 2
    assert (summary.ended, summary.done) == ("target", 1)


def test_more_correct_ones_than_wanted_of_a_task_do_not_count(tmp_path: Path) -> None:
    path, script = tmp_path / "t.jsonl", Script([[True] * 3] * 4)
    assert run(script, path, 2).correct == 12
    summary = run(script, path, 2, until=6, per_task=2)
    assert (summary.counted, summary.ended, summary.done) == (8, "target", 0)
    summary = run(script, path, 2, until=6)
    assert (summary.counted, summary.ended, summary.done) == (4, "panel", 0)


def test_a_model_that_is_down_says_how_far_it_came(tmp_path: Path) -> None:
    def down(task: int, sample: int) -> None:
        if task >= 3:
            raise ModelError("cannot be reached")

    script = Script([[True]] * 30, before=down)
    with pytest.raises(ModelError, match=r"Stopped with 3 of 9 correct after 13 episodes; 13 are kept"):
        run(script, tmp_path / "t.jsonl", 1, until=9)


def test_model_errors_are_owed_again_where_the_task_still_lacks(tmp_path: Path) -> None:
    def shaky(task: int, sample: int) -> None:
        if (task, sample) in {(0, 0), (1, 0)}:
            raise ModelError("cut")

    right = [[True, True], [True, False], [True, False]]
    path, script = tmp_path / "t.jsonl", Script(right, before=shaky)
    first = run(script, path, 2, until=99)
    # Task 0 was solved by its second sample, task 1 was not.
    assert (first.done, first.counted) == (5, 2)
    script.before = lambda *_: None
    again = run(script, path, 2, until=99)
    assert (again.owed, again.done, again.counted) == (1, 1, 3)


def test_projections_come_after_fifty_and_whenever_the_number_has_doubled(tmp_path: Path) -> None:
    script, said = Script([[number % 4 == 0] for number in range(260)]), []

    class Watch:
        aimed: Tally | None = None

        def aim(self, tally: Tally) -> None:
            self.aimed = tally

        def begin(self, owed: int) -> None:
            assert owed == 260

        def advance(self, trajectory: Trajectory) -> None: ...

        def project(self, projection: Projection) -> None:
            said.append(projection)

        def end(self) -> None: ...

    async def main(watch: Watch) -> Summary:
        with TrajectoryStore(tmp_path / "t.jsonl") as store:
            goal = Goal(until=100)
            return await run_episodes(script.plan, script.tasks, store, progress=watch, goal=goal)

    watch = Watch()
    summary = asyncio.run(main(watch))
    assert watch.aimed is not None
    assert [one.episodes for one in said] == [50, 100, 200]
    assert (summary.ended, summary.counted, watch.aimed.counted) == ("panel", 65, 65)
    assert summary.projection is not None
    assert summary.projection.enough == "no"


def held() -> int:
    gc.collect()
    return sum(isinstance(thing, Trajectory) for thing in gc.get_objects())


def test_trajectories_are_not_held(tmp_path: Path) -> None:
    alive: list[int] = []
    # Other tests of the same process may hold some of their own.
    before = held()

    class Watch:
        done = 0

        def begin(self, owed: int) -> None: ...

        def advance(self, trajectory: Trajectory) -> None:
            self.done += 1
            if self.done % 100 == 0:
                alive.append(held() - before)

        def end(self) -> None: ...

    async def main() -> None:
        with TrajectoryStore(tmp_path / "t.jsonl") as store:
            goal = Goal(until=10**6, max_tokens=10**9)
            await run_episodes(
                script.plan, script.tasks, store, concurrency=4, samples=2, goal=goal, progress=Watch()
            )

    script = Script([[False] * 2] * 200)
    asyncio.run(main())
    assert len(alive) == 4
    assert max(alive) <= 4
