import importlib.util

import pytest

from pipeline.environments.scienceworld.environment import ScienceWorldEnvironment
from pipeline.environments.scienceworld.java import find_java, simulator_folder
from pipeline.environments.scienceworld.simulator import Simulator
from pipeline.errors import EnvironmentFault


@pytest.fixture(scope="session")
def installed():
    """Skips what needs the simulator where it, or Java, is missing."""
    try:
        find_java(), simulator_folder()
    except EnvironmentFault as error:
        pytest.skip(str(error))
    if not importlib.util.find_spec("py4j"):
        pytest.skip("py4j is not installed")


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """The cache folder of these tests."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STARACT_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def world(installed, cache):
    """An environment whose simulator is shared by the tests of a session."""
    world = ScienceWorldEnvironment(max_steps=300, simulators=1, timeout=300)
    yield world
    world.close()


@pytest.fixture(scope="session")
def simulator(installed):
    """A simulator of its own."""
    simulator = Simulator(300)
    yield simulator
    simulator.close()


def task_of(world, identity):
    """The task with this id."""
    return next(
        task for split in ("train", "dev", "test") for task in world.tasks(split) if task.id == identity
    )
