import os
import signal

import pytest

from pipeline.environments.scienceworld.environment import ScienceWorldEnvironment
from pipeline.errors import EnvironmentFault, RecipeError
from pipeline.trajectories.schema import Task
from tests.environments.scienceworld.conftest import task_of


@pytest.fixture
def begun(world):
    """Begins an episode of a task, and closes it in the end."""
    opened = []

    def begin(identity, environment=world):
        episode = environment.episode(task_of(world, identity))
        opened.append(episode)
        return episode, episode.reset()

    yield begin
    for episode in opened:
        episode.close()


def test_opening_and_steps(begun):
    episode, opening = begun("scienceworld-7-1-0093")
    look, inventory = opening.split("In your inventory, you see:")
    assert look.startswith("This room is called the greenhouse.") and "an orange" in inventory
    seen = episode.step("go to outside")
    assert not seen.done and not seen.invalid
    # The state is shown as it is after the action.
    assert (
        seen.info["look"].startswith("This outside location") and seen.info["inventory"].count("orange") == 1
    )
    assert episode.answer() is None and not episode.grade().correct


def test_rewards_add_up_to_the_score_from_where_it_begins(begun, world):
    task = task_of(world, "scienceworld-4-4-0225")
    path = [step.action for step in world.expert(task, 0)]
    episode, _ = begun(task.id)
    begin = episode.grade().reward
    steps = [episode.step(action) for action in path]
    assert begin == pytest.approx(0.08)
    # Steps are unrounded, grades are whole points.
    assert begin + sum(step.reward for step in steps) == pytest.approx(steps[-1].score, abs=0.005)
    assert steps[-1].score > 0.995 and episode.grade().correct
    assert steps[-1].done and episode.grade().correct


def test_done_is_not_won(begun):
    episode, _ = begun("scienceworld-7-1-0093")
    seen = episode.step("focus on air")
    assert (seen.done, seen.score, seen.reward) == (True, 0.0, -1.0)
    verdict = episode.grade()
    assert not verdict.correct
    assert verdict.metrics["score"] == 0.0 and verdict.metrics["score_published"] == -1.0
    # The simulator would go on answering.
    after = episode.step("look around")
    assert after.done and after.reward == 0.0 and after.text == seen.text


@pytest.mark.parametrize(
    "action",
    [
        "frobnicate the cup",
        "",
        "  ",
        "\ud800\x00\u2028",
        "open " + "x" * 100_000,
        "Finish[42]",
        "wait\\n\\",
        "0",
        "!ys",
    ],
)
def test_what_is_no_action_is_invalid_and_changes_nothing(begun, action):
    episode, opening = begun("scienceworld-7-1-0093")
    seen = episode.step(action)
    assert seen.invalid and not seen.done and seen.reward == 0.0
    assert seen.text.startswith("No known action matches that input.")
    assert f"{seen.info['look']}\n{seen.info['inventory']}" == opening


@pytest.mark.parametrize("action", ["act[go to outside]", "Act[ go to outside ]", "go  to\noutside"])
def test_forms_of_one_action(begun, action):
    episode, _ = begun("scienceworld-7-1-0093")
    assert episode.step(action).info["look"].startswith("This outside location")


def test_limit_on_moves(begun, installed):
    short = ScienceWorldEnvironment(max_steps=11, simulators=1, timeout=300)
    assert short.max_steps == 22
    episode, _ = begun("scienceworld-7-1-0093", short)
    assert not episode.step("wait").done
    assert not episode.step("look around").done
    seen = episode.step("open door to hallway")
    # The twelfth move is one too many; the episode is over and lost.
    assert seen.done and not episode.grade().correct
    episode.close()
    short.close()


def test_the_agent_is_asked_what_it_means(begun):
    episode, _ = begun("scienceworld-7-1-0093")
    episode.step("go to outside")
    seen = episode.step("look at door")
    assert "Ambiguous request: Please enter the number" in seen.text and not seen.invalid
    assert [line.split(":")[0] for line in seen.text.split("\n")[1:4]] == ["0", "1", "2"]
    assert episode.valid_actions() == ["0", "1", "2"]
    assert "Ambiguous" not in episode.step("2").text
    # A number answers nothing when nothing was asked.
    assert episode.step("2").invalid


def test_or_the_first_meaning_is_taken(begun, installed):
    world = ScienceWorldEnvironment(ambiguous="first", simulators=1, timeout=300)
    episode, _ = begun("scienceworld-7-1-0093", world)
    episode.step("go to outside")
    seen = episode.step("look at door")
    asked, _ = begun("scienceworld-7-1-0093")
    asked.step("go to outside")
    asked.step("look at door")
    assert seen.text == asked.step("0").text and not seen.invalid
    episode.close()
    world.close()


def test_a_simulator_that_dies_costs_one_episode(begun, world):
    episode, opening = begun("scienceworld-7-1-0093")
    os.kill(episode._simulator.pid, signal.SIGKILL)
    with pytest.raises(EnvironmentFault, match="simulator ended by itself"):
        while True:
            episode.step("look around")
    assert not episode.grade().correct
    episode.close()
    _, again = begun("scienceworld-7-1-0093")
    assert again == opening


def test_an_episode_must_begin(world):
    episode = world.episode(task_of(world, "scienceworld-7-1-0093"))
    with pytest.raises(EnvironmentFault, match="reset it first"):
        episode.step("look around")
    with pytest.raises(EnvironmentFault, match="reset it first"):
        episode.valid_actions()
    episode.close()


def test_a_task_of_another_world(world):
    with pytest.raises(EnvironmentFault, match="names no variation"):
        world.episode(Task(id="x", environment="atlas", split="test", instruction="?"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"family": "hard"}, "environment.family: 'hard'"),
        ({"kinds": ["1-9"]}, "environment.kinds: '1-9'"),
        ({"simplifications": "easy,openDoors"}, "simplifications: 'easy' is unknown"),
        ({"simplifications": ["easy"]}, "simplifications"),
        ({"max_steps": 0}, "max_steps: 0"),
        ({"simulators": True}, "simulators: True"),
        ({"variations": -1}, "variations: -1"),
        ({"ambiguous": "last"}, "ambiguous: 'last'"),
        ({"timeout": 0}, "timeout: 0"),
        ({"timeout": float("nan")}, "timeout: nan"),
    ],
)
def test_wrong_options(options, words):
    with pytest.raises(RecipeError, match=words):
        ScienceWorldEnvironment(**options)
