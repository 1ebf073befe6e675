from collections import Counter

import pytest

from pipeline.environments.base import Environment, Episode
from pipeline.environments.scienceworld import descriptions as module
from pipeline.environments.scienceworld.environment import ScienceWorldEnvironment
from pipeline.environments.scienceworld.names import TYPES
from pipeline.trajectories.panels import named_panel
from tests.environments.scienceworld.conftest import task_of


def test_it_is_an_environment(world):
    assert isinstance(world, Environment) and world.blocking and world.concurrency == 1
    episode: Episode = world.episode(next(world.tasks("test")))
    episode.close()


def test_tasks(world):
    counts = {split: Counter(task.kind for task in world.tasks(split)) for split in ("train", "dev", "test")}
    assert [sum(each.values()) for each in counts.values()] == [3592, 1796, 1819]
    assert all(counts["test"][kind.id] == len(kind.fold("test")) for kind in TYPES)
    tasks = [task for split in ("train", "dev", "test") for task in world.tasks(split)]
    assert len({task.id for task in tasks}) == 7207
    assert not any(
        task.instruction.startswith("Task") or task.instruction != task.instruction.strip() for task in tasks
    )
    boil = task_of(world, "scienceworld-1-1-0000")
    assert boil.instruction.startswith("Your task is to boil ") and boil.meta["variation"] == 0


def test_published_panels_are_tasks(world):
    for name, (split, ids) in world.listed.items():
        assert len(named_panel(split, world.tasks(split), ids, name)) == len(ids)


def test_fewer_kinds_and_variations(world):
    few = ScienceWorldEnvironment(kinds=["4-2", "boil"], variations=2)
    ids = [task.id for task in few.tasks("test")]
    assert ids == [
        "scienceworld-1-1-0021",
        "scienceworld-1-1-0022",
        "scienceworld-4-2-0225",
        "scienceworld-4-2-0226",
    ]
    assert list(few.listed["test_first10"][1]) == [task.id for task in few.tasks("test")]


def test_texts_come_from_the_cache(world, monkeypatch):
    before = [task.instruction for task in world.tasks("dev")]
    monkeypatch.setattr(module, "Simulator", None)
    assert [task.instruction for task in world.tasks("dev")] == before


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"boil": ["x"]}'])
def test_a_damaged_cache_is_made_again(world, monkeypatch, tmp_path, content):
    monkeypatch.setenv("STARACT_CACHE", str(tmp_path))
    module.cache_file().parent.mkdir(parents=True)
    module.cache_file().write_text(content)
    monkeypatch.setattr(module, "_read_and_keep", lambda path: {"made": ["again"]})
    assert module.load_descriptions() == {"made": ["again"]}


def test_the_version_tells_rules_apart(installed):
    settings = [{}, {"max_steps": 300}, {"simplifications": ""}, {"ambiguous": "first"}]
    versions = [ScienceWorldEnvironment(**each).version for each in settings]
    assert len(set(versions)) == len(settings)
    assert ScienceWorldEnvironment(simulators=5, kinds=["1-1"], variations=3).version == versions[0]


@pytest.mark.parametrize(
    "identity",
    ["scienceworld-4-2-0225", "scienceworld-7-1-0093", "scienceworld-6-2-0027", "scienceworld-3-1-0015"],
)
def test_gold_paths_reach_a_hundred(world, identity):
    task = task_of(world, identity)
    episode = world.episode(task)
    episode.reset()
    for step in world.expert(task, 0):
        seen = episode.step(step.action)
        if seen.done:
            break
    assert seen.done and episode.grade().correct and not seen.invalid
    episode.close()


def test_wires_can_be_connected_where_that_is_the_task(world):
    strict = ScienceWorldEnvironment(
        simplifications="openDoors,noElectricalAction", simulators=1, timeout=300
    )
    for identity, possible in [("scienceworld-3-1-0015", True), ("scienceworld-1-1-0021", False)]:
        episode = strict.episode(task_of(world, identity))
        episode.reset()
        if possible:
            episode.step("go to workshop")
        assert any(action.startswith("connect ") for action in episode.valid_actions()) == possible
        episode.close()
    strict.close()
