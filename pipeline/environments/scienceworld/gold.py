"""The gold oracle: the simulator's own solution of a variation, as an expert's steps.

Source: Wang et al. 2022 (ScienceWorld), section 3; the paths are generated, not stored.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.environments.scienceworld.episode import Rules
from pipeline.environments.scienceworld.pool import Pool
from pipeline.errors import EnvironmentFault
from pipeline.trajectories.schema import Step


def gold_path(pool: Pool, name: str, variation: int, rules: Rules) -> list[str]:
    """The actions that solve a variation. Takes from half a second to half a minute.

    Raises:
        EnvironmentFault: the simulator fails, or finds no path.
    """
    simulator = pool.acquire()
    try:
        simulator.load(name, variation, rules.simplifications, gold=True)
        path = simulator.gold_path()
    finally:
        pool.release(simulator)
    if not path:
        raise EnvironmentFault(f"the simulator finds no gold path for {name} {variation}")
    if rules.ambiguous == "first":
        # The numbers answer questions that the environment then answers itself.
        path = [action for action in path if not action.isdigit()]
    return path


def gold_steps(pool: Pool, name: str, variation: int, rules: Rules) -> Iterator[Step]:
    """The gold path as steps without thoughts; it is generated when the first is asked for."""
    for action in gold_path(pool, name, variation, rules):
        yield Step(action=action)
