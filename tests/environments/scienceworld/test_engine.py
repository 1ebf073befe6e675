"""Through the engine: an episode whose simulator is killed is an environment error, and is played again."""

import asyncio
import json
import os
import signal

from pipeline.methods.base import Proposal
from pipeline.recipe.models import MethodRecipe
from pipeline.rollout.engine import Plan, run_episodes
from pipeline.trajectories.schema import Outcome
from pipeline.trajectories.store import TrajectoryStore
from tests.environments.scienceworld.conftest import task_of


class Waiting:
    """A method that opens a door, waits, and focuses on the air: done, and lost."""

    name = "waiting"
    single_step = False
    actions = ("go to outside", "wait1", "focus on air")

    def settings(self, environment):
        return {}

    def agent(self, seat):
        return self

    async def propose(self, steps):
        return Proposal(action=self.actions[len(steps)])


class Silent:
    """A model that is never asked."""

    address = "scripted"

    def forget(self, session):
        pass


class Killing:
    """The world, but its next simulators are killed before the second step."""

    def __init__(self, world, kills):
        self._world = world
        self.kills = kills

    def __getattr__(self, name):
        return getattr(self._world, name)

    def episode(self, task):
        episode = self._world.episode(task)
        plain = episode.step

        def step(action):
            if action == "wait1" and self.kills:
                self.kills -= 1
                os.kill(episode._simulator.pid, signal.SIGKILL)
            return plain(action)

        episode.step = step
        return episode


def played(world, path, kills):
    tasks = [task_of(world, f"scienceworld-7-1-{number:04d}") for number in (93, 94)]
    plan = Plan(Killing(world, kills), Waiting(), MethodRecipe(name="react"), Silent())
    with TrajectoryStore(path) as store:
        return asyncio.run(run_episodes(plan, tasks, store, concurrency=5))


def test_an_episode_whose_simulator_was_killed_is_played_once_more(world, tmp_path):
    path = tmp_path / "trajectories.jsonl"
    summary = played(world, path, kills=1)
    assert (summary.done, summary.outcomes) == (2, {Outcome.FINISHED: 2})
    lines = [json.loads(line) for line in path.read_text().split("\n")[:-1]]
    broken = [line for line in lines if line["outcome"] == "environment_error"]
    assert len(lines) == 3 and len(broken) == 1
    assert "simulator ended by itself" in broken[0]["error"] and len(broken[0]["steps"]) == 1
    finished = list(TrajectoryStore(path).read())
    assert [each.outcome for each in finished] == [Outcome.FINISHED] * 2
    assert not any(each.grade.correct for each in finished)


def test_one_that_fails_twice_is_an_error_and_the_run_goes_on(world, tmp_path):
    path = tmp_path / "trajectories.jsonl"
    summary = played(world, path, kills=2)
    assert summary.outcomes == {Outcome.ENVIRONMENT_ERROR: 1, Outcome.FINISHED: 1}
    again = played(world, path, kills=0)
    assert (again.kept, again.outcomes) == (1, {Outcome.FINISHED: 1})
