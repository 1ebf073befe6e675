"""Whole runs against a server on loopback that fails in every way that real ones do."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import QuotaError
from pipeline.models.openai import OpenAIModel
from pipeline.recipe.models import MethodRecipe, ModelRecipe
from pipeline.rollout.engine import Plan, Summary, run_episodes
from pipeline.rollout.goal import Goal
from pipeline.trajectories.schema import Outcome, Trajectory
from pipeline.trajectories.store import TrajectoryStore, read_trajectories
from tests.models.server import Answer, Server, chat, failure, serving
from tests.rollout.toy import Sums, Talk, task

TASKS = [task(number) for number in range(16)]
TIMEOUT = 1.0
SOON = {"Retry-After": "0.05"}
BAD: dict[str, Callable[[], Answer]] = {
    "rate limit": lambda: Answer(failure(429, "slow down").body, 429, headers=SOON),
    "server error": lambda: Answer(failure(500, "oops").body, 500, headers=SOON),
    "time-out": lambda: (time.sleep(1.5 * TIMEOUT), chat("read"))[1],
    "cut": lambda: Answer(chat("read").body, cut=True),
    "not JSON": lambda: Answer(b'{"choices": [', content_type="application/json"),
    "no choices": lambda: Answer({"choices": [], "usage": {}}),
    "truncated": lambda: chat("read", "length"),
    "quota": lambda: failure(429, "pay first", code="insufficient_quota", type="insufficient_quota"),
}
RETRIED = ("rate limit", "server error", "time-out", "cut")


@dataclass
class Teacher:
    """Adds up in four steps; the requests numbered in ``bad`` are answered badly.

    ``sent`` counts the tokens of answers that a client can have read.
    """

    bad: dict[int, str] = field(default_factory=dict)
    asked: int = 0
    sent: Counter[str] = field(default_factory=Counter[str])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: dict[str, Any]) -> Answer:
        with self.lock:
            self.asked += 1
            kind = self.bad.get(self.asked - 1)
        if kind is None or kind == "truncated":
            answer = self.good(request) if kind is None else BAD[kind]()
            with self.lock:
                self.sent["prompt"] += answer.body["usage"]["prompt_tokens"]
                self.sent["completion"] += answer.body["usage"]["completion_tokens"]
            return answer
        return BAD[kind]()

    def good(self, request: dict[str, Any]) -> Answer:
        lines = request["messages"][0]["content"].split("\n")
        seen = [line.rpartition(" -> ")[2] for line in lines[1:]]
        # A truncated step shows no figure, wherever in its episode it comes.
        figures = [int(one) for one in seen if one.isdigit()]
        text = "read" if len(figures) < 3 else f"say[{sum(figures)}]"
        return chat(text, prompt_tokens=len(lines[0]) + 7 * len(seen), completion_tokens=3)


def run(
    server: Server, path: Path, concurrency: int = 4, retries: int = 2, slow: bool = False, **goal: Any
) -> Summary:
    async def main() -> Summary:
        recipe = ModelRecipe(
            address=f"openai:teacher@{server.url}",
            max_retries=retries,
            # On a busy machine a good answer may take its time.
            timeout=TIMEOUT if slow else 60.0,
            price_per_million=(1000.0, 2000.0),
        )
        model = OpenAIModel(recipe)
        plan = Plan(Sums(), Talk(), MethodRecipe(name="talk"), model)
        try:
            with TrajectoryStore(path) as store:
                return await run_episodes(
                    plan, TASKS, store, concurrency=concurrency, goal=Goal(**goal) if goal else None
                )
        finally:
            await model.close()

    return asyncio.run(main())


def lines(path: Path) -> list[Trajectory]:
    return list(read_trajectories(path))


def check_counts(teacher: Teacher, found: list[Trajectory]) -> None:
    """Every answer that the server gave is in the store once, and nothing else is."""
    prompt = sum(one.usage.prompt_tokens for one in found)
    completion = sum(one.usage.completion_tokens for one in found)
    assert {"prompt": prompt, "completion": completion} == teacher.sent
    assert sum(one.usage.cost for one in found) == pytest.approx((prompt + 2 * completion) / 1000)


@pytest.mark.parametrize("concurrency", [1, 5])
def test_what_the_client_retries_leaves_no_trace(tmp_path: Path, concurrency: int) -> None:
    teacher = Teacher({2 + 9 * place: kind for place, kind in enumerate(RETRIED)})
    with serving(teacher) as server:
        summary = run(server, tmp_path / "t.jsonl", concurrency, slow=True)
    found = lines(tmp_path / "t.jsonl")
    assert summary.outcomes == {Outcome.FINISHED: 16}
    assert summary.correct == len({one.id for one in found}) == len(found) == 16
    assert teacher.asked == 16 * 4 + len(RETRIED)
    check_counts(teacher, found)


@pytest.mark.parametrize("kind", ["rate limit", "server error", "cut", "time-out", "not JSON", "no choices"])
def test_what_it_cannot_mend_is_a_model_error_that_is_played_again(tmp_path: Path, kind: str) -> None:
    path, teacher = tmp_path / "t.jsonl", Teacher({6: kind})
    with serving(teacher) as server:
        first = run(server, path, 1, retries=0, slow=kind == "time-out")
        assert first.outcomes == {Outcome.FINISHED: 15, Outcome.MODEL_ERROR: 1}
        # The second episode had two steps when it broke; they were paid for.
        broken = next(one for one in lines(path) if one.outcome is Outcome.MODEL_ERROR)
        assert (len(broken.steps), broken.usage.calls, broken.grade.correct) == (2, 2, False)
        assert broken.error
        check_counts(teacher, lines(path))
        again = run(server, path, 1, retries=0)
        assert (again.owed, again.kept, again.correct) == (1, 15, 1)
        assert run(server, path, 1, retries=0).owed == 0
    assert len(lines(path)) == 17
    check_counts(teacher, lines(path))
    with TrajectoryStore(path) as store:
        assert all(one.grade.correct for one in store.read())
        assert len(store) == 16


def test_everything_at_once(tmp_path: Path) -> None:
    kinds = [*RETRIED, "not JSON", "no choices", "truncated"]
    path, teacher = tmp_path / "t.jsonl", Teacher({3 + 6 * place: kind for place, kind in enumerate(kinds)})
    with serving(teacher) as server:
        first = run(server, path, 5, slow=True)
        assert first.outcomes[Outcome.MODEL_ERROR] == 2
        assert first.done == len({one.id for one in lines(path)}) == len(lines(path)) == 16
        again = run(server, path, 5)
    assert (again.owed, again.kept) == (2, 14)
    check_counts(teacher, lines(path))
    with TrajectoryStore(path) as store:
        held = list(store.read())
    assert {one.outcome for one in held} == {Outcome.FINISHED}
    assert sorted(one.task.id for one in held) == sorted(one.id for one in TASKS)
    assert sum("length" in {step.stop_reason for step in one.steps} for one in held) == 1


def test_no_quota_stops_the_run_and_running_again_goes_on(tmp_path: Path) -> None:
    path, teacher = tmp_path / "t.jsonl", Teacher(dict.fromkeys(range(21, 999), "quota"))
    with serving(teacher) as server:
        with pytest.raises(
            QuotaError, match=r"no quota left.*Stopped after (\d+) of 16 episodes; \1 are kept"
        ):
            run(server, path, 3)
        kept = lines(path)
        assert 0 < len(kept) < 16
        # Each episode that was in flight asked once more at most.
        assert teacher.asked <= 21 + 3
        assert {one.outcome for one in kept} == {Outcome.FINISHED}
        teacher.bad.clear()
        again = run(server, path, 3)
    assert (again.kept, again.done) == (len(kept), 16 - len(kept))
    assert len({one.id for one in lines(path)}) == len(lines(path)) == 16


def test_a_target_is_reached_through_all_of_it_and_stays_within_its_budget(tmp_path: Path) -> None:
    kinds = [*RETRIED, "not JSON", "no choices", "truncated"]
    path, teacher = tmp_path / "t.jsonl", Teacher({1 + 5 * place: kind for place, kind in enumerate(kinds)})
    with serving(teacher) as server:
        summary = run(server, path, 4, slow=True, until=9, max_tokens=5000)
        assert summary.ended == "target"
        assert 9 <= summary.counted == sum(one.grade.correct for one in lines(path)) < 9 + 4
        check_counts(teacher, lines(path))
        asked = teacher.asked
        assert run(server, path, 4, until=9, max_tokens=5000).done == 0
    assert teacher.asked == asked


def test_a_server_that_counts_nothing_is_estimated_and_still_stopped(tmp_path: Path) -> None:
    def silent(request: dict[str, Any]) -> Answer:
        answer = teacher.good(request)
        del answer.body["usage"]
        return answer

    teacher, path = Teacher(), tmp_path / "t.jsonl"
    with serving(silent) as server:
        summary = run(server, path, 2, max_tokens=300)
    found = lines(path)
    assert summary.ended == "budget"
    assert 0 < len(found) < 16
    assert all("usage_estimated" in step.flags for one in found for step in one.steps)
    assert sum(one.usage.prompt_tokens + one.usage.completion_tokens for one in found) <= 300 * 1.2
