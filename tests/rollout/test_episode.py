from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from pipeline.environments.base import Observation
from pipeline.errors import ContextLimitError, EnvironmentFault, ModelError, QuotaError
from pipeline.methods.base import Seat
from pipeline.models.base import Completion, Request, Sampling
from pipeline.models.scripted import ScriptedModel
from pipeline.recipe.models import MethodRecipe
from pipeline.rollout.episode import Limits, play
from pipeline.trajectories.schema import Grade, Outcome, Task, Trajectory, Usage
from tests.rollout.faults import fault
from tests.rollout.toy import Sums, Talk, task


class Forgetful(ScriptedModel):
    """Remembers which episodes it was told to forget."""

    def __init__(self, replies: Any, **fields: Any) -> None:
        super().__init__(replies, **fields)
        self.forgotten: list[str] = []

    def forget(self, session: str) -> None:
        self.forgotten.append(session)
        super().forget(session)


def run(replies: Any, environment: Sums | None = None, limits: Limits | None = None) -> Trajectory:
    world = environment or Sums()
    model = replies if isinstance(replies, ScriptedModel) else Forgetful(replies)
    seat = Seat(task(9), world, model, Sampling(), "episode-1", 5)
    return asyncio.run(play(seat, Talk(), limits or Limits(6), {"style": "talk"}, 2))


def raises(error: Exception) -> Any:
    def fail(*_: Any) -> Any:
        raise error

    return fail


def test_a_finished_episode() -> None:
    world, model = Sums(), Forgetful(["read", "read", "read", "say[15]"])
    found = run(model, world)
    assert found.outcome is Outcome.FINISHED
    assert (found.id, found.sample, found.seed, found.model, found.method) == (
        "episode-1",
        2,
        5,
        "scripted",
        "talk",
    )
    assert [step.observation for step in found.steps] == ["2", "4", "9", "over"]
    assert (found.opening, found.answer, found.error) == ("3 figures", "15", None)
    assert found.grade == Grade(correct=True, reward=1.0, metrics={"em": 1.0})
    assert found.steps[-1].reward == 1.0
    assert found.usage.calls == 4
    assert found.usage == sum((step.usage for step in found.steps), Usage())
    assert found.versions["environment"] == "1"
    assert {"staract", "python"} <= set(found.versions)
    assert model.forgotten == ["episode-1"]
    assert world.episodes[0].closed == 1


def test_invalid_actions_count_as_steps() -> None:
    case = fault("E08")
    found = run([case["input"]["model_always_says"]], limits=Limits(case["input"]["max_steps"]))
    assert len(found.steps) == case["expected"]["steps"]
    assert found.outcome is Outcome.STEP_LIMIT
    assert all(step.invalid for step in found.steps)
    assert found.answer is None
    assert not found.grade.correct


def test_finishing_wins_over_limits_reached_at_the_same_moment() -> None:
    over = fault("C06")["input"]["conversation_tokens_after"]
    last = Completion("say[15]", usage=Usage(completion_tokens=over))
    limits = Limits(1, episode_tokens=fault("C06")["input"]["limit"], episode_seconds=1e-9)
    found = run(lambda _: last, limits=limits)
    assert found.outcome is Outcome.FINISHED
    assert found.grade.correct


@pytest.mark.parametrize(
    ("limits", "steps"),
    [(Limits(3), 3), (Limits(9, episode_tokens=2), 2), (Limits(9, episode_seconds=1e-9), 1)],
)
def test_limits(limits: Limits, steps: int) -> None:
    found = run(["read"], limits=limits)
    assert (found.outcome, len(found.steps)) == (Outcome.STEP_LIMIT, steps)


def test_unreadable_steps_are_told_the_format_and_counted() -> None:
    found = run(["#", "read", "#", "#", "read"], limits=Limits(9, format_errors=2))
    assert found.outcome is Outcome.FORMAT_ERROR
    assert [step.action for step in found.steps] == ["", "read", "", ""]
    assert "read[], say[sum]" in found.steps[0].observation
    assert found.steps[0].invalid
    assert found.steps[0].flags == ["no_action"]


def test_a_cut_step_is_no_format_error_but_a_step() -> None:
    found = run(lambda _: Completion("#", "length"), limits=Limits(4, format_errors=0))
    assert (found.outcome, len(found.steps)) == (Outcome.STEP_LIMIT, 4)
    assert "was cut" in found.steps[0].observation


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ContextLimitError("full"), Outcome.CONTEXT_LIMIT),
        (ModelError("down"), Outcome.MODEL_ERROR),
        (EnvironmentFault("no expert"), Outcome.ENVIRONMENT_ERROR),
    ],
)
def test_errors_while_proposing(error: Exception, outcome: Outcome) -> None:
    world, model = Sums(), Forgetful(raises(error))
    found = run(model, world)
    assert (found.outcome, found.error, found.steps) == (outcome, str(error), [])
    assert not found.grade.correct
    assert model.forgotten == ["episode-1"]
    assert world.episodes[0].closed == 1


@pytest.mark.parametrize("error", [QuotaError("pay"), KeyError("our own mistake")])
def test_quota_and_our_own_mistakes_come_out(error: Exception) -> None:
    world, model = Sums(), Forgetful(raises(error))
    with pytest.raises(type(error)) as caught:
        run(model, world)
    assert "sum-9" in caught.value.__notes__[0]
    assert model.forgotten == ["episode-1"]
    assert world.episodes[0].closed == 1


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("where", ["episode", "reset", "step", "grade"])
def test_whatever_the_environment_raises_is_an_environment_error(where: str, blocking: bool) -> None:
    world = Sums(blocking, **{where: raises(ZeroDivisionError("by \ud800" + "x" * 5000))})
    found = run(["say[15]"], world)
    assert found.outcome is Outcome.ENVIRONMENT_ERROR
    assert found.error is not None
    assert found.error.startswith("ZeroDivisionError: by \ufffd")
    assert len(found.error) <= 2000
    assert not found.grade.correct
    assert [episode.closed for episode in world.episodes] == ([] if where == "episode" else [1])


def test_a_fault_keeps_its_own_words_and_a_failing_grader_does_not_hide_it() -> None:
    world = Sums(
        step=raises(EnvironmentFault("the server is gone")), grade=raises(ValueError("graded nothing"))
    )
    assert run(["read"], world).error == "the server is gone"


def test_a_failing_close_changes_nothing_but_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(["say[15]"], Sums(close=raises(OSError("gone"))))
    assert found.outcome is Outcome.FINISHED
    assert found.grade.correct
    assert "'sum-9' failed: OSError: gone" in capsys.readouterr().err


@pytest.mark.parametrize(
    "hooks",
    [
        {"step": lambda _: Observation("x", reward=float("nan"))},
        {"step": lambda _: Observation("x", score=float("inf"))},
        {"step": lambda _: "no observation"},
        {"grade": lambda: Grade(metrics={"f1": float("nan")})},
    ],
)
def test_what_could_not_be_stored_is_the_environments_fault(hooks: dict[str, Any]) -> None:
    assert run(["say[15]"], Sums(**hooks)).outcome is Outcome.ENVIRONMENT_ERROR


def test_the_graders_correct_counts_only_when_finished() -> None:
    world = Sums(grade=lambda: Grade(correct=True, reward=0.5, metrics={"f1": 0.5}))
    found = run(["read"], world, Limits(2))
    assert found.outcome is Outcome.STEP_LIMIT
    assert found.grade == Grade(correct=False, reward=0.5, metrics={"f1": 0.5})


def test_foreign_text_is_made_writable() -> None:
    world = Sums(step=lambda _: Observation("a\ud800\u2028b", done=True, score=0.25))
    found = run(["say\udfff"], world)
    assert (found.steps[0].action, found.steps[0].completion) == ("say\ufffd", "say\ufffd")
    assert found.steps[0].observation == "a\ufffd\u2028b"
    assert found.steps[0].score == 0.25
    found.model_dump_json()


def test_blocking_environments_run_beside_the_loop() -> None:
    threads: set[int] = set()

    def note(_: str) -> None:
        threads.add(threading.get_ident())

    assert run(["say[15]"], Sums(True, step=note)).outcome is Outcome.FINISHED
    assert run(["say[15]"], Sums(False, step=note)).outcome is Outcome.FINISHED
    assert len(threads) == 2
    assert threading.get_ident() in threads


def test_cancelling_waits_for_the_thread_before_closing() -> None:
    began, events = threading.Event(), []

    def slow(_: str) -> None:
        began.set()
        time.sleep(0.1)
        events.append("stepped")

    world = Sums(True, step=slow, close=lambda: events.append("closed"))

    async def cancel() -> None:
        seat = Seat(task(9), world, ScriptedModel(["read"]), Sampling(), "s", 0)
        playing = asyncio.create_task(play(seat, Talk(), Limits(3), {}))
        await asyncio.to_thread(began.wait)
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing

    asyncio.run(cancel())
    assert events == ["stepped", "closed"]


def test_limits_of_a_recipe() -> None:
    recipe = MethodRecipe(name="talk", episode_tokens=5, episode_seconds=2.0, format_errors=1)
    assert Limits.of(recipe, Talk(), Sums()) == Limits(6, 5, 2.0, 1)
    assert Limits.of(recipe.model_copy(update={"max_steps": 3}), Talk(), Sums()).max_steps == 3
    assert Limits.of(recipe, Talk(single_step=True), Sums()) == Limits(1, 5, 2.0, 0)


def test_a_single_unreadable_answer_is_a_format_error() -> None:
    limits = Limits.of(MethodRecipe(name="talk"), Talk(single_step=True), Sums())
    assert run(["#"], limits=limits).outcome is Outcome.FORMAT_ERROR


def test_requests_carry_session_seed_and_sampling() -> None:
    asked: list[Request] = []

    def reply(request: Request) -> str:
        asked.append(request)
        return "say[1]"

    run(reply)
    assert [(one.session, one.seed, one.sampling) for one in asked] == [("episode-1", 5, Sampling())]


def test_a_trajectory_says_where_it_comes_from() -> None:
    fault("E09")
    found = run(["say[1]"])
    for field in ("id", "split", "environment"):
        with pytest.raises(ValueError, match=field):
            Task.model_validate(found.task.model_dump(exclude={field}))
    for field in ("id", "task", "method", "model", "outcome"):
        with pytest.raises(ValueError, match=field):
            Trajectory.model_validate(found.model_dump(exclude={field}))
