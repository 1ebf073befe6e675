from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import EnvironmentFault, ModelError, QuotaError, StoreError
from pipeline.models.base import Request
from pipeline.models.scripted import ScriptedModel
from pipeline.rollout.engine import MODEL_ERRORS, Plan, Summary, run_episodes
from pipeline.trajectories.schema import Outcome, Task, Trajectory, episode_seed
from pipeline.trajectories.store import TrajectoryStore
from tests.rollout.faults import fault
from tests.rollout.toy import Sums, clever, plan, task

TASKS = [task(number) for number in range(12)]


def run(chosen: Plan, path: Path, **options: Any) -> Summary:
    with TrajectoryStore(path) as store:
        return asyncio.run(run_episodes(chosen, options.pop("tasks", TASKS), store, **options))


def stored(path: Path) -> dict[str, Trajectory]:
    return {found.id: found for found in TrajectoryStore(path).read()}


def timeless(path: Path) -> dict[str, dict[str, Any]]:
    """Trajectories without what time alone decides."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items() if key != "seconds"}
        return [strip(item) for item in value] if isinstance(value, list) else value

    return {name: strip(found.model_dump(mode="json")) for name, found in stored(path).items()}


def quick(**recipe: Any) -> Plan:
    return plan(ScriptedModel(clever), **recipe)


def test_every_task_and_sample_is_played_once(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    summary = run(quick(), path, samples=3, concurrency=5)
    found = stored(path)
    assert (summary.owed, summary.kept, summary.done) == (36, 0, 36)
    assert len(path.read_text().split("\n")) == 37
    assert sorted((one.task.id, one.sample) for one in found.values()) == sorted(
        (one.id, sample) for one in TASKS for sample in range(3)
    )
    assert set(found) == set(quick().identities(TASKS, 3))
    assert all(one.seed == episode_seed(name, 3) for name, one in found.items())
    assert summary.correct == sum(one.grade.correct for one in found.values()) > 0
    assert sum(summary.outcomes.values()) == 36
    assert summary.usage.calls == sum(len(one.steps) for one in found.values())


def test_the_same_at_any_concurrency(tmp_path: Path) -> None:
    run(quick(), tmp_path / "one", samples=2, concurrency=1)
    for index, concurrency in enumerate((3, 24)):
        chance = random.Random(index)
        slow = plan(ScriptedModel(clever, delay=lambda _, chance=chance: chance.uniform(0, 0.003)))
        run(slow, tmp_path / str(concurrency), samples=2, concurrency=concurrency)
        assert timeless(tmp_path / str(concurrency)) == timeless(tmp_path / "one")


def test_a_second_run_owes_nothing_and_more_samples_owe_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    run(quick(), path)
    before = path.read_bytes()
    again = run(quick(), path)
    assert (again.owed, again.kept, again.done) == (0, 12, 0)
    assert path.read_bytes() == before
    more = run(quick(), path, samples=2)
    assert (more.owed, more.kept) == (12, 12)


def test_whatever_changes_the_episode_changes_the_id(tmp_path: Path) -> None:
    base = quick()
    world = Sums()
    world.version = "2"
    others = [
        quick(max_steps=3),
        quick(episode_tokens=9),
        quick(temperature=0.5),
        quick(max_tokens=7),
        plan(ScriptedModel(clever, address="other")),
        plan(ScriptedModel(clever), world),
        Plan(base.environment, base.method, base.recipe, base.model, extra={"checkpoint": "abc"}),
    ]
    ids = {chosen.identity(TASKS[0], 0) for chosen in [base, *others]} | {base.identity(TASKS[0], 1)}
    assert len(ids) == len(others) + 2


def test_results_stay_with_their_question(tmp_path: Path) -> None:
    case = fault("P20")
    replies = dict(zip(case["input"]["questions"], case["input"]["batch"], strict=True))
    tasks = [task(i).model_copy(update={"id": q, "instruction": q}) for i, q in enumerate(replies)]

    def reply(request: Request) -> str:
        question = request.prompt.segments[0].text.split("\n")[0]  # type: ignore[union-attr]
        written = replies[question]
        if written is None:
            raise ModelError("nothing came back")
        return written.rpartition("Action: ")[2]

    path = tmp_path / "t.jsonl"
    run(plan(ScriptedModel(reply), max_steps=1), path, tasks=tasks)
    found = {one.task.id: one for one in stored(path).values()}
    for question, expected in case["expected"].items():
        if expected == "failed/retried":
            assert found[question].outcome is Outcome.MODEL_ERROR
        else:
            assert found[question].steps[0].action == expected


def test_errors_that_are_no_fault_of_the_agent_are_played_again(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"

    def shaky(request: Request) -> str:
        if "Add 1 " in request.prompt.segments[0].text:  # type: ignore[union-attr]
            raise ModelError("down")
        return clever(request)

    def broken(action: str) -> None:
        raise EnvironmentFault("broken")

    run(plan(ScriptedModel(shaky)), path)
    down = {name for name, one in stored(path).items() if one.outcome is Outcome.MODEL_ERROR}
    assert len(down) == 2
    assert run(plan(ScriptedModel(shaky), Sums(step=broken)), path).owed == 2
    assert run(quick(), path).owed == 2
    found = stored(path)
    assert len(found) == 12
    assert not {one.outcome for one in found.values()} & {Outcome.MODEL_ERROR, Outcome.ENVIRONMENT_ERROR}
    run(quick(), tmp_path / "whole")
    assert timeless(path) == timeless(tmp_path / "whole")


def test_what_the_environment_failed_is_played_once_more(tmp_path: Path) -> None:
    failing: set[str] = set()

    def shaky(problem: Task) -> None:
        if problem.id not in failing:
            failing.add(problem.id)
            raise EnvironmentFault("restarting")

    path = tmp_path / "t.jsonl"
    summary = run(plan(ScriptedModel(clever), Sums(episode=shaky)), path)
    assert summary.done == 12 and summary.outcomes[Outcome.ENVIRONMENT_ERROR] == 0
    assert len(path.read_text().split("\n")) == 2 * 12 + 1
    run(quick(), tmp_path / "whole")
    assert timeless(path) == timeless(tmp_path / "whole")


def test_no_more_episodes_are_open_than_the_environment_can_hold(tmp_path: Path) -> None:
    world, most = Sums(), 0
    world.concurrency = 3  # type: ignore[attr-defined]

    def watching(request: Request) -> str:
        nonlocal most
        most = max(most, sum(not episode.closed for episode in world.episodes))
        return clever(request)

    run(plan(ScriptedModel(watching, delay=0.001), world), tmp_path / "t.jsonl", concurrency=50)
    assert most == 3


def test_no_quota_stops_the_run_and_keeps_what_is_done(tmp_path: Path) -> None:
    path, calls = tmp_path / "t.jsonl", iter(range(1000))

    def poor(request: Request) -> str:
        if next(calls) >= 20:
            raise QuotaError("no quota left")
        return clever(request)

    with pytest.raises(QuotaError, match=r"no quota left\. Stopped after \d+ of 12 episodes"):
        run(plan(ScriptedModel(poor)), path, concurrency=2)
    kept = len(stored(path))
    assert 0 < kept < 12
    assert run(quick(), path).owed == 12 - kept
    run(quick(), tmp_path / "whole")
    assert timeless(path) == timeless(tmp_path / "whole")


def test_a_model_that_is_down_stops_the_run(tmp_path: Path) -> None:
    def down(_: Request) -> str:
        raise ModelError("cannot be reached")

    path = tmp_path / "t.jsonl"
    with pytest.raises(ModelError, match="10 model errors in a row, the last: cannot be reached"):
        run(plan(ScriptedModel(down)), path, concurrency=1)
    assert len(stored(path)) == MODEL_ERRORS


def test_other_outcomes_between_model_errors_do_not_stop_it(tmp_path: Path) -> None:
    calls = iter(range(1000))

    def flaky(_: Request) -> str:
        if next(calls) % 10 != 9:
            raise ModelError("hiccup")
        return "say[0]"

    tasks = [task(number) for number in range(40)]
    summary = run(plan(ScriptedModel(flaky)), tmp_path / "t.jsonl", concurrency=1, tasks=tasks)
    assert summary.outcomes == {Outcome.MODEL_ERROR: 36, Outcome.FINISHED: 4}


def test_cancelling_keeps_what_is_done(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    ended: list[str] = []

    class Watch:
        def begin(self, owed: int) -> None:
            ended.append(f"begin {owed}")

        def advance(self, trajectory: Trajectory) -> None:
            ended.append(trajectory.id)
            if len(ended) == 5:
                running.cancel()

        def end(self) -> None:
            ended.append("end")

    async def cancelled() -> None:
        nonlocal running
        with TrajectoryStore(path) as store:
            work = run_episodes(quick(), TASKS, store, concurrency=2, progress=Watch())
            running = asyncio.create_task(work)
            with pytest.raises(asyncio.CancelledError):
                await running

    running: asyncio.Task[Summary]
    asyncio.run(cancelled())
    assert (ended[0], ended[-1]) == ("begin 12", "end")
    kept = stored(path)
    assert 4 <= len(kept) < 12
    assert set(ended[1:-1]) == set(kept)
    assert run(quick(), path).owed == 12 - len(kept)


def test_an_expert_that_never_waits_still_lets_others_run(tmp_path: Path) -> None:
    seen: list[int] = []

    async def both() -> None:
        with TrajectoryStore(tmp_path / "t.jsonl") as store:

            async def watch() -> None:
                while len(store) < 12:
                    seen.append(len(store))
                    await asyncio.sleep(0)

            await asyncio.gather(run_episodes(quick(), TASKS, store, concurrency=1), watch())

    asyncio.run(both())
    assert len(set(seen)) > 6


def test_bounded_concurrency(tmp_path: Path) -> None:
    playing, most = 0, 0

    def begin(_: Any) -> None:
        nonlocal playing, most
        playing += 1
        most = max(most, playing)

    def end() -> None:
        nonlocal playing
        playing -= 1

    world = Sums(episode=begin, close=end)
    run(plan(ScriptedModel(clever, delay=0.001), world), tmp_path / "t.jsonl", concurrency=3)
    assert (playing, most) == (0, 3)


def test_a_locked_store_is_refused_before_anything_is_played(tmp_path: Path) -> None:
    path, asked = tmp_path / "t.jsonl", []
    with TrajectoryStore(path) as other:
        other.lock()
        with pytest.raises(StoreError, match="another process"):
            run(plan(ScriptedModel(lambda request: asked.append(request) or "say[1]")), path)
    assert asked == []


def test_a_torn_file_is_mended_and_its_episode_played_again(tmp_path: Path) -> None:
    fault("G01")
    path = tmp_path / "t.jsonl"
    run(quick(), path, concurrency=1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    assert run(quick(), path).owed == 1
    rows = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    assert len({row["id"] for row in rows}) == len(rows) == 12
