"""What a method is: how the next step of an episode is decided."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pipeline.environments.base import Environment
from pipeline.models.base import Model, Sampling
from pipeline.rendering.base import PromptSpec
from pipeline.trajectories.schema import Step, StopReason, Task, Usage


@dataclass(frozen=True)
class Proposal:
    """A method's next move. An empty ``action`` is a step that could not be read."""

    thought: str = ""
    action: str = ""
    completion: str = ""
    stop_reason: StopReason = "stop"
    flags: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    votes: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    gives_up: bool = False
    """The agent ends the episode as it stands; nothing is carried out."""


class Agent(Protocol):
    """Decides the steps of one episode."""

    async def propose(self, steps: Sequence[Step]) -> Proposal:
        """The next step, given those so far. Raises only what ``Model.generate`` raises."""
        ...


@dataclass(frozen=True)
class Seat:
    """What an agent is given to play one episode with."""

    task: Task
    environment: Environment
    model: Model
    sampling: Sampling
    session: str
    seed: int
    opening: str = ""
    """What the episode's reset showed."""
    valid_actions: Callable[[], Awaitable[list[str]]] | None = None
    """Lists what may be done now, where the environment can say so. Slow: ask only when needed."""
    swift: Model | None = None
    """The fast model of a method that has two."""


class Method(Protocol):
    """A way to drive episodes. Holds no state of any episode.

    ``single_step`` methods answer at once (standard, cot): one step, which finishes. An optional
    attribute ``sampling`` replaces the recipe's temperature, top_p and max_tokens. An optional method
    ``trained_as(environment)`` says which rows train its model (renderer, style, spec_digest and whatever
    else their export noted, by name), where that does not follow from ``spec``.
    """

    name: str
    single_step: bool

    def settings(self, environment: Environment) -> dict[str, Any]:
        """All that changes what the model is shown there: part of every trajectory's identity."""
        ...

    def spec(self, environment: Environment) -> PromptSpec:
        """The prompt's fixed part, for serving and for training."""
        ...

    def agent(self, seat: Seat) -> Agent:
        """A fresh agent for one episode."""
        ...
