"""What an environment is: tasks to draw from, episodes to act in, and a grader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from pipeline.rendering.base import ToolSpec
from pipeline.trajectories.schema import Grade, Split, Step, Task

__all__ = ["Environment", "Episode", "Observation", "ToolSpec"]


@dataclass(frozen=True)
class Observation:
    """What an environment answers to an action.

    ``done`` means the episode is over, not that it is won. ``invalid`` means that the action could
    not be carried out; it still counts as a step. ``info`` is what else the environment shows of its
    state after the action (a room's look, an inventory), by name.
    """

    text: str
    done: bool = False
    reward: float = 0.0
    score: float | None = None
    invalid: bool = False
    info: Mapping[str, str] = field(default_factory=dict[str, str])


class Episode(Protocol):
    """One episode of one task. Not shared between threads; closed exactly once."""

    def reset(self) -> str:
        """Start, and return the opening observation (may be empty)."""
        ...

    def step(self, action: str) -> Observation:
        """Carry out one action. Never raises on a bad action: that is an invalid observation.

        Raises:
            EnvironmentFault: the environment itself failed.
        """
        ...

    def answer(self) -> str | None:
        """The answer the agent has committed to, or None while there is none."""
        ...

    def grade(self) -> Grade:
        """The environment's own verdict on the episode as it stands."""
        ...

    def close(self) -> None:
        """Free whatever the episode holds."""
        ...


@runtime_checkable
class Environment(Protocol):
    """A family of tasks and the world they are played in.

    ``version`` changes whenever an episode could turn out differently. ``label`` is the word that
    stands before the instruction in prompts (``Question``, ``Claim``). ``max_steps`` is the
    environment's customary limit.

    Optional attributes: ``blocking`` (calls may take long: they are made in threads), ``concurrency``
    (episodes that can be open at once), ``free_form`` (actions are plain text instead of calls),
    ``panels`` and ``listed`` (panels by name), ``kind_groups`` (how a table by kind is grouped) and
    ``exemplars`` (a file of worked examples). An episode may have ``valid_actions()``.
    """

    name: str
    version: str
    family: str
    label: str
    max_steps: int
    tools: tuple[ToolSpec, ...]

    def tasks(self, split: Split) -> Iterator[Task]:
        """Every task of a split, in a fixed order."""
        ...

    def episode(self, task: Task) -> Episode:
        """A fresh episode of the task."""
        ...

    def expert(self, task: Task, seed: int) -> Iterator[Step] | None:
        """The scripted expert's steps (thought and action filled), or None where there is none.

        The steps are what the expert intends to do; observations come from the episode.
        """
        ...

    def normalise(self, answer: str) -> str:
        """The form in which two answers are compared (used by votes and by leak checks)."""
        ...
