"""A worker, asked in this process."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path

import pytest

from pipeline import __version__
from pipeline.environments.registry import load_environment
from pipeline.errors import EnvironmentFault, ModelError, QuotaError, StaractError, WorkerError
from pipeline.recipe.models import EnvironmentRecipe, MethodRecipe, ModelRecipe
from pipeline.rollout.hybrid import Host
from pipeline.rollout.worker import AbsentModel, Fault, Order, Ready, Worker
from pipeline.trajectories.schema import Outcome, Trajectory

ATLAS = EnvironmentRecipe(name="atlas", family="questions")
REACT, ACT = MethodRecipe(name="react", shots=0), MethodRecipe(name="act", shots=0)
EXPERT = ModelRecipe(address="expert")


def test_it_plays_what_is_owed_under_its_id() -> None:
    world = load_environment(ATLAS)
    task = next(iter(world.tasks("train")))

    async def ask() -> list[object]:
        worker = Worker(ATLAS)
        replies: list[object] = [await worker.open()]
        for method in (REACT, ACT):
            plan = Host(world, AbsentModel(EXPERT), 5, {"checkpoint": "c"}).plan(method)
            # As it travels.
            order, sent = pickle.loads(pickle.dumps((Order.of(plan), task)))
            replies.append(await worker.play(order, sent, 1, plan.identity(task, 1)))
            replies.append(await worker.play(order, sent, 1, plan.identity(task, 0)))
        await worker.close()
        return replies

    ready, react, wrong, act, _ = asyncio.run(ask())
    assert isinstance(ready, Ready)
    assert ready.version == __version__
    assert isinstance(react, Trajectory) and isinstance(act, Trajectory)
    assert (react.method, act.method, react.sample) == ("react", "act", 1)
    assert react.outcome is Outcome.FINISHED and react.grade.correct
    assert react.settings["checkpoint"] == "c"
    assert isinstance(wrong, Fault)
    with pytest.raises(WorkerError, match="give all machines the same"):
        raise wrong.error()


def test_what_it_cannot_load_it_says() -> None:
    async def ask(environment: EnvironmentRecipe, address: str) -> Ready | Fault | Trajectory:
        worker = Worker(environment)
        opened = await worker.open()
        if isinstance(opened, Fault):
            return opened
        world = load_environment(environment)
        task = next(iter(world.tasks("train")))
        plan = Host(world, AbsentModel(ModelRecipe(address=address))).plan(REACT)
        return await worker.play(Order.of(plan), task, 0, plan.identity(task, 0))

    wiki = EnvironmentRecipe(name="hotpotqa", options={"data": "/nowhere"})
    for environment, address in ((wiki, "expert"), (ATLAS, "./no-such-folder")):
        reply = asyncio.run(ask(environment, address))
        assert isinstance(reply, Fault)
        assert isinstance(reply.error(), StaractError)
        assert str(reply.error()) == reply.sentence != ""


def test_it_goes_to_the_folder_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    asyncio.run(Worker(ATLAS, "not/there").open())
    assert Path.cwd() == tmp_path
    asyncio.run(Worker(ATLAS, str(tmp_path / "run")).open())
    assert Path.cwd() == tmp_path / "run"


@pytest.mark.parametrize("kind", [ModelError, QuotaError, EnvironmentFault, WorkerError])
def test_an_error_arrives_as_what_it_was(kind: type[StaractError]) -> None:
    sent = pickle.loads(pickle.dumps(Fault.of(kind("what is wrong"))))
    assert type(sent.error()) is kind
    assert str(sent.error()) == "what is wrong"
    assert str(Fault(sent.kind, sent.sentence, "node-7").error()) == "on node-7: what is wrong"


def test_an_absent_model_is_never_asked() -> None:
    model = AbsentModel(EXPERT)
    with pytest.raises(ModelError, match="loaded by workers alone"):
        asyncio.run(model.generate(None))  # type: ignore[arg-type]
