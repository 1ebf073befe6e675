"""One simulator: a Java process of its own, which plays one variation after another.

Only the cheap calls of the gateway are used. The package's own wrapper asks for all valid actions
after every step, which takes longer than the step itself.

The process ends with its owner, however that ends: its standard input is a pipe, and it exits when
the pipe closes. It has a session of its own, so that Ctrl-C reaches the owner alone. The gateway
listens on the loopback interface and asks for a token that only the owner knows.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import tempfile
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Final, cast

from pipeline.environments.scienceworld.gateway import Gateway, GatewayError, Reference, reference
from pipeline.environments.scienceworld.java import find_java, simulator_folder
from pipeline.errors import EnvironmentFault

OPTIONS: Final = (
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    f"-XX:ErrorFile={os.devnull}",
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:hashCode=2",
)
"""A small process that leaves no files. The last makes episodes repeatable: the simulator walks
through sets ordered by identity hash codes, which are random unless all are the same."""

START_SECONDS: Final = 300.0
GOLD_SECONDS: Final = 900.0
"""Generating a gold path plays the whole episode, and searches before each step."""


@dataclass(frozen=True)
class Seen:
    """What the simulator shows after an action. ``score`` is 0 to 1, or -1; ``moves`` is its clock."""

    text: str
    score: float
    completed: bool
    moves: int
    look: str
    inventory: str


class Simulator:
    """Starts the process. Used by one thread at a time; after a failure it is dead for good.

    Args:
        seconds: how long an answer may take before the process is taken for hung and ended.

    Raises:
        EnvironmentFault: Java or the simulator is missing, or it does not start.
    """

    def __init__(self, seconds: float = 120.0) -> None:
        self._seconds = seconds
        self._gateway: Gateway | None = None
        with tempfile.TemporaryFile() as said:
            self._process = _start(said)
            self._ending = weakref.finalize(self, _end, self._process)
            try:
                with self._failing("starting"):
                    self._connect()
            except EnvironmentFault as error:
                said.seek(0)
                words = " ".join(said.read(2000).decode("utf-8", "replace").split())
                raise EnvironmentFault(f"{error} {words}".strip()) from error

    def _connect(self) -> None:
        port, token = _listening(self._process, START_SECONDS)
        gateway = self._gateway = Gateway(port, token, START_SECONDS)
        # What it prints for debugging is not wanted, and costs time.
        stream = gateway.new("java.io.PrintStream", gateway.new("java.io.FileOutputStream", os.devnull))
        gateway.call("java.lang.System", "setOut", stream)
        gateway.call("java.lang.System", "setErr", stream)
        self._server = gateway.new("scienceworld.runtime.pythonapi.PythonInterface")

    @property
    def pid(self) -> int:
        """The process id of the Java process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can go on."""
        return self._ending.alive and self._process.poll() is None

    def load(self, name: str, variation: int, simplifications: str, *, gold: bool = False) -> None:
        """Load a variation, and with ``gold`` find its gold path."""
        with self._guarded(f"loading {name} {variation}", GOLD_SECONDS if gold else None) as gateway:
            gateway.call(self._server, "load", name, variation, simplifications, gold)
            failed = gateway.call(self._server, "errorStr")
        if failed:
            raise EnvironmentFault(f"ScienceWorld cannot load {name} {variation}: {failed}")

    def act(self, action: str) -> Seen:
        """Carry out an action. Right after loading this is ``look around``, as in the published wrapper."""
        with self._guarded("carrying out an action") as gateway:
            text = gateway.call(self._server, "step", action)
            score, completed, moves, look, inventory = (gateway.call(self._server, name) for name in _STATE)
        now = float(cast("float", score))
        return Seen(str(text), now, completed is True, int(cast("int", moves)), str(look), str(inventory))

    def valid_actions(self) -> list[str]:
        """Every action that can be carried out now, sorted. This takes several times as long as a step."""
        with self._guarded("listing the valid actions") as gateway:
            return sorted(set(_texts(gateway, self._server, "getValidActionObjectCombinations")))

    def gold_path(self) -> list[str]:
        """The actions of the gold path; empty unless the variation was loaded with ``gold``."""
        with self._guarded("reading the gold path") as gateway:
            return _texts(gateway, self._server, "getGoldActionSequence")

    def descriptions(self, name: str) -> list[str]:
        """The descriptions of all variations of a task, without loading them.

        Some are worded at random; the seed is the one that loading uses.
        """
        with self._guarded(f"describing {name}", GOLD_SECONDS) as gateway:
            random = _scala_object(gateway, "scala.util.Random$")
            maker = reference(gateway.call(self._server, "taskMaker"))
            task = reference(gateway.call(reference(gateway.call(maker, "getTask", name)), "get"))
            found: list[str] = []
            for variation in range(int(cast("int", gateway.call(task, "numCombinations")))):
                gateway.call(random, "setSeed", variation)
                goals = reference(gateway.call(task, "setupGoals", variation))
                found.append(str(gateway.call(goals, "description")).strip())
                gateway.forget(goals)
            return found

    def folds(self) -> dict[str, list[int]]:
        """The variations of each split of the task that is loaded, as the simulator says."""
        with self._guarded("listing the variations") as gateway:
            lists = {split: f"getVariations{split.title()}" for split in ("train", "dev", "test")}
            shown = {
                split: str(gateway.call(reference(gateway.call(self._server, method)), "toString"))
                for split, method in lists.items()
            }
            return {split: [int(number) for number in _NUMBER.findall(text)] for split, text in shown.items()}

    def close(self) -> None:
        """End the process at once."""
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            with suppress(OSError):
                gateway.close()
        self._ending()

    @contextmanager
    def _guarded(self, doing: str, seconds: float | None = None) -> Generator[Gateway]:
        if self._gateway is None:
            raise EnvironmentFault("this ScienceWorld simulator was ended before: take another")
        self._gateway.seconds = seconds or self._seconds
        with self._failing(doing):
            yield self._gateway

    @contextmanager
    def _failing(self, doing: str) -> Generator[None]:
        """Whatever goes wrong, or takes too long, ends the process: its state can no longer be known."""
        try:
            yield
        except GatewayError as error:
            reason = self._reason(error)
            self.close()
            raise EnvironmentFault(f"the ScienceWorld simulator {reason} while {doing}") from error
        except BaseException:
            self.close()
            raise

    def _reason(self, error: GatewayError) -> str:
        if isinstance(error.__cause__, TimeoutError):
            seconds = self._gateway.seconds if self._gateway else START_SECONDS
            return f"did not answer within {seconds:g} seconds"
        try:
            # A connection that breaks is heard of a moment before the process's end.
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return f"failed ({str(error).splitlines()[0][:300]})"
        return f"ended by itself (status {status})"


_STATE: Final = ("getScore", "getCompleted", "getNumMoves", "freeActionLook", "freeActionInventory")
_NUMBER: Final = re.compile(r"\d+")
_SERVER: Final = ("py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0")


def _start(said: IO[bytes]) -> subprocess.Popen[bytes]:
    folder, java = simulator_folder(), find_java()
    command = [java, *OPTIONS, "-cp", _class_path(str(folder / "scienceworld.jar")), *_SERVER]
    try:
        return subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            cwd=folder,
            start_new_session=True,
        )
    except OSError as error:
        raise EnvironmentFault(f"the Java runtime {java!r} cannot be started: {error.strerror}") from error


def _class_path(jar: str) -> str:
    try:
        from py4j.java_gateway import find_jar_path
    except ImportError as error:
        raise EnvironmentFault(
            "the package py4j is not installed: run: pip install 'staract[scienceworld]'"
        ) from error
    return os.pathsep.join((str(find_jar_path()), jar))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _listening(process: subprocess.Popen[bytes], seconds: float) -> tuple[int, str]:
    """The port and the token that the gateway server prints first."""
    output = process.stdout
    if output is None:
        raise GatewayError("it has no output")
    with output:
        if not select.select([output], [], [], seconds)[0]:
            raise GatewayError("it printed nothing") from TimeoutError()
        port, token = (output.readline().decode("utf-8", "replace").strip() for _ in range(2))
    if not port.isdigit():
        raise GatewayError("it did not say where it listens")
    return int(port), token


def _texts(gateway: Gateway, target: Reference, method: str) -> list[str]:
    """A Java list of texts in one call, and not one call for each."""
    found = reference(gateway.call(target, method))
    joined = str(gateway.call("java.lang.String", "join", "\n", found))
    gateway.forget(found)
    return joined.split("\n") if joined else []


def _scala_object(gateway: Gateway, name: str) -> Reference:
    holder = reference(gateway.call("java.lang.Class", "forName", name))
    field = reference(gateway.call(holder, "getField", "MODULE$"))
    return reference(gateway.call(field, "get", None))
