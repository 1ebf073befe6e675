"""What every variation asks for: read from the simulator once, and kept in the cache.

The texts are the simulator's (Apache-2.0) and not part of this package. One process reads all 7,207
in a few seconds, without loading the variations.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pipeline.environments.scienceworld.names import TYPES
from pipeline.environments.scienceworld.simulator import Simulator
from pipeline.errors import EnvironmentFault, StoreError
from pipeline.trajectories.files import cache_folder, read_json, write_json

Descriptions = dict[str, list[str]]
"""The text of every variation, by the name of its task."""


@cache
def simulator_version() -> str:
    """The version of the installed package.

    Raises:
        EnvironmentFault: it is not installed.
    """
    try:
        return version("scienceworld")
    except PackageNotFoundError as error:
        raise EnvironmentFault(
            "the package scienceworld is not installed: run: pip install 'staract[scienceworld]'"
        ) from error


def cache_file() -> Path:
    """Where the texts are kept."""
    return cache_folder() / "scienceworld" / f"descriptions-{simulator_version()}.json"


def load_descriptions() -> Descriptions:
    """The text of every variation, from the cache or else from a simulator.

    Raises:
        EnvironmentFault: the simulator is missing, or is not the one whose tasks this package knows.
    """
    path = cache_file()
    try:
        found: Any = read_json(path)
    except StoreError:
        found = None
    if _complete(found):
        return found
    return _read_and_keep(path)


def _read_and_keep(path: Path) -> Descriptions:
    simulator = Simulator()
    try:
        # The first load seeds what the task descriptions are drawn from.
        simulator.load(TYPES[0].name, 0, "")
        found = {kind.name: simulator.descriptions(kind.name) for kind in TYPES}
    finally:
        simulator.close()
    if not _complete(found):
        raise EnvironmentFault(
            f"scienceworld {simulator_version()} has other tasks or variations than this package knows:"
            " install scienceworld 1.2.3"
        )
    try:
        write_json(path, found)
    except StoreError:
        # A cache that cannot be written costs a few seconds the next time.
        return found
    return found


def _complete(found: Any) -> bool:
    if not isinstance(found, dict) or len(found) != len(TYPES):
        return False
    texts = (found.get(kind.name) for kind in TYPES)
    return all(
        isinstance(rows, list) and len(rows) == kind.variations and all(isinstance(row, str) for row in rows)
        for kind, rows in zip(TYPES, texts, strict=True)
    )
