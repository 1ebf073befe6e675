"""Through the engine: an episode whose simulator is killed is an environment error, and is played again."""

import asyncio
import os
import signal

from pipeline.methods.base import Proposal
from pipeline.recipe.models import MethodRecipe
from pipeline.rollout.engine import Plan, run_episodes
from pipeline.trajectories.schema import Outcome
from pipeline.trajectories.store import TrajectoryStore, read_trajectories
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
    """The world, but its next simulator is killed before the second step."""

    def __init__(self, world):
        self._world = world
        self.kills = 1

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


def test_a_killed_simulator_costs_one_episode(world, tmp_path):
    tasks = [task_of(world, f"scienceworld-7-1-{number:04d}") for number in (93, 94)]
    plan = Plan(Killing(world), Waiting(), MethodRecipe(name="react"), Silent())
    path = tmp_path / "trajectories.jsonl"

    def play():
        with TrajectoryStore(path) as store:
            return asyncio.run(run_episodes(plan, tasks, store, concurrency=1))

    first, second = play(), play()
    assert first.outcomes == {Outcome.ENVIRONMENT_ERROR: 1, Outcome.FINISHED: 1}
    assert second.outcomes == {Outcome.FINISHED: 1} and second.kept == 1
    broken = [each for each in read_trajectories(path) if each.outcome is Outcome.ENVIRONMENT_ERROR]
    assert all("simulator ended by itself" in each.error and len(each.steps) == 1 for each in broken)
    finished = {each.task.id: each for each in read_trajectories(path) if each.outcome is Outcome.FINISHED}
    assert len(finished) == 2
    assert not any(each.grade.correct for each in finished.values())
