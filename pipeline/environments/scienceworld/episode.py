"""One episode: a variation in a simulator that is borrowed at its start and given back at its end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from pipeline.environments.base import Observation, ToolSpec
from pipeline.environments.scienceworld.pool import Pool
from pipeline.environments.scienceworld.scoring import grade
from pipeline.environments.scienceworld.simulator import Seen, Simulator
from pipeline.errors import EnvironmentFault
from pipeline.rendering.parse import split_action
from pipeline.trajectories.schema import Grade
from pipeline.trajectories.text import printable

Ambiguous = Literal["ask", "first"]

UNKNOWN: Final = "No known action matches that input."
AMBIGUOUS: Final = "Ambiguous request: Please enter the number"
TOOL: Final = ToolSpec(
    "act",
    "action",
    "carries out one action, written in plain words, on things that you can see or carry: open or close A,"
    " go to A, teleport to A, look around, look at A, look in A, read A, examine A, pick up A, put down A,"
    " move A to B, pour A into B, dunk A into B, mix A, use A on B, activate A, deactivate A, connect A to B,"
    " disconnect A, eat A, flush A, inventory, wait, wait1, and focus on A, which says what your answer is or"
    " what you work on",
)
"""Actions are free text; this is what stands for them where tools are listed."""
LONGEST: Final = 400
"""Characters of an action. The simulator's parser compares every word with every object: a text of any
length would keep it busy for ever."""


@dataclass(frozen=True)
class Rules:
    """How episodes are played.

    ``max_moves`` is the limit on the simulator's clock: most actions take one move, ``look around``
    and what it does not understand none, ``wait1`` two and ``wait`` eleven. ``ambiguous`` says who
    answers when an action could mean several things: the agent (``ask``; gold paths do), or the
    environment, always with the first (``first``).
    """

    simplifications: str = "easy"
    max_moves: int = 100
    ambiguous: Ambiguous = "ask"


class ScienceWorldEpisode:
    """An ``Episode``.

    Args:
        pool: lends the simulator.
        name: the task's name.
        variation: which variation of it.
        rules: how it is played.
    """

    def __init__(self, pool: Pool, name: str, variation: int, rules: Rules) -> None:
        self._pool = pool
        self._name = name
        self._variation = variation
        self._rules = rules
        self._simulator: Simulator | None = None
        self._last = Observation("")
        self._score = self._best = 0.0

    def reset(self) -> str:
        """Load the variation: what the agent sees, and what it carries.

        Raises:
            EnvironmentFault: no simulator can be had, or it fails.
        """
        if self._simulator is None or not self._simulator.alive:
            self.close()
            self._simulator = self._pool.acquire()
        self._simulator.load(self._name, self._variation, self._rules.simplifications)
        seen = self._simulator.act("look around")
        self._score = self._best = seen.score
        self._last = self._observed(seen)
        return f"{seen.look}\n{seen.inventory}"

    def step(self, action: str) -> Observation:
        """Carry out one action; after the end, the last observation again.

        ``info`` holds ``look`` and ``inventory`` as they are after the action.

        Raises:
            EnvironmentFault: the simulator died or hangs; it has been ended.
        """
        if self._last.done:
            return replace(self._last, reward=0.0)
        simulator, text = self._running(), _plain(action)
        if not text:
            self._last = replace(self._last, text=UNKNOWN, reward=0.0, invalid=True)
            return self._last
        seen = simulator.act(text)
        if self._rules.ambiguous == "first" and AMBIGUOUS in seen.text:
            seen = simulator.act("0")
        self._last = self._observed(seen)
        return self._last

    def _observed(self, seen: Seen) -> Observation:
        gained, self._score = seen.score - self._score, seen.score
        self._best = max(self._best, seen.score)
        done = seen.completed or seen.score < 0 or seen.moves > self._rules.max_moves
        return Observation(
            seen.text,
            done=done,
            reward=gained,
            score=max(seen.score, 0.0),
            invalid=seen.text.startswith(UNKNOWN),
            info={"look": seen.look, "inventory": seen.inventory},
        )

    def valid_actions(self) -> list[str]:
        """Every action that the simulator would carry out now, sorted; slow, so asked for only here.

        Raises:
            EnvironmentFault: the simulator died or hangs, or the episode has not begun.
        """
        return self._running().valid_actions()

    def answer(self) -> None:
        """Nothing: a task is solved by what is done, not by an answer."""

    def grade(self) -> Grade:
        """The simulator's verdict as it stands."""
        return grade(self._score, self._best)

    def close(self) -> None:
        """Give the simulator back."""
        simulator, self._simulator = self._simulator, None
        if simulator is not None:
            self._pool.release(simulator)

    def _running(self) -> Simulator:
        if self._simulator is None:
            raise EnvironmentFault("this episode of ScienceWorld has not begun, or is closed: reset it first")
        return self._simulator


def _plain(action: str) -> str:
    """The action as the simulator reads it; empty for what it could never be asked.

    ``act[open door]`` means ``open door``, as agents write it who are offered a tool.
    """
    text = " ".join(printable(action).split())
    name, argument = split_action(text)
    if argument and name.lower() == TOOL.name:
        text = argument.strip()
    return text if len(text) <= LONGEST else ""
