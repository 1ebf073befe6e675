"""One episode: a task, an agent and an environment in; one trajectory out, whatever happens.

Whose fault an ending was decides its outcome. What the model wrote never raises; an environment
that fails ends the episode as ``environment_error``, a model that cannot be asked as
``model_error``. Only ``QuotaError`` and mistakes in our own code come out as exceptions.
"""

from __future__ import annotations

import asyncio
import math
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from typing import Any, Self, TypeVar

from pipeline.environments.base import Environment, Episode, Observation
from pipeline.errors import ContextLimitError, EnvironmentFault, ModelError, QuotaError
from pipeline.methods.base import Method, Proposal, Seat
from pipeline.recipe.models import MethodRecipe
from pipeline.trajectories.files import clean_text
from pipeline.trajectories.schema import Grade, Outcome, Step, Trajectory, Usage

T = TypeVar("T")
_ERROR_LENGTH = 2000


@dataclass(frozen=True)
class Limits:
    """How much an episode may use.

    ``episode_tokens`` counts completion tokens. ``format_errors`` is how many unreadable steps an
    episode may have; one more ends it.
    """

    max_steps: int
    episode_tokens: int | None = None
    episode_seconds: float | None = None
    format_errors: int = 2

    @classmethod
    def of(cls, recipe: MethodRecipe, method: Method, environment: Environment) -> Self:
        """The recipe's limits, the environment's custom where it has none; one step for a single answer."""
        if method.single_step:
            return cls(1, recipe.episode_tokens, recipe.episode_seconds, 0)
        steps = recipe.max_steps or environment.max_steps
        return cls(steps, recipe.episode_tokens, recipe.episode_seconds, recipe.format_errors)

    def settings(self) -> dict[str, Any]:
        """The limits as part of a trajectory's identity."""
        return asdict(self)


@dataclass(frozen=True)
class _Ending:
    outcome: Outcome
    error: str | None = None


class _WorldError(Exception):
    """Environment code failed; holds what it said."""


async def play(
    seat: Seat, method: Method, limits: Limits, settings: dict[str, Any], sample: int = 0
) -> Trajectory:
    """Play one episode.

    Args:
        seat: who plays what; ``seat.session`` becomes the trajectory's id.
        method: drives the episode.
        limits: when to stop.
        settings: everything that makes the episode what it is, stored with it.
        sample: which of several episodes of the same task this is.

    Raises:
        QuotaError: the endpoint will not answer again; the episode is not to be stored.
    """
    try:
        return await _Play(seat, method, limits).trajectory(settings, sample)
    except Exception as error:
        error.add_note(f"in the episode of task {seat.task.id!r}, sample {sample}")
        raise
    finally:
        for model in filter(None, (seat.model, seat.swift)):
            model.forget(seat.session)


class _Play:
    """An episode in progress."""

    def __init__(self, seat: Seat, method: Method, limits: Limits) -> None:
        self.seat = seat
        self.method = method
        self.limits = limits
        self.start = time.monotonic()
        self.blocking: bool = getattr(seat.environment, "blocking", False)
        self.opening = ""
        self.steps: list[Step] = []
        self.grade = Grade()
        self.answer: str | None = None

    async def trajectory(self, settings: dict[str, Any], sample: int) -> Trajectory:
        ending = await self.run()
        seat = self.seat
        return Trajectory(
            id=seat.session,
            task=seat.task,
            method=self.method.name,
            model=seat.model.address,
            settings=settings,
            sample=sample,
            seed=seat.seed,
            opening=self.opening,
            steps=self.steps,
            outcome=ending.outcome,
            answer=self.answer,
            grade=self.grade,
            error=ending.error,
            usage=sum((step.usage for step in self.steps), Usage()),
            seconds=time.monotonic() - self.start,
            versions=_versions(seat.environment, transformers="transformers" in sys.modules),
        )

    async def run(self) -> _Ending:
        try:
            episode = await self.world(lambda: self.seat.environment.episode(self.seat.task))
        except _WorldError as error:
            return _Ending(Outcome.ENVIRONMENT_ERROR, str(error))
        try:
            ending = await self.act(episode)
            return await self.judge(episode, ending)
        finally:
            await self.close(episode)

    async def act(self, episode: Episode) -> _Ending:
        """Step until something ends the episode."""
        try:
            self.opening = await self.world(lambda: clean_text(episode.reset()))
            agent = self.method.agent(self.seated(episode))
            ending = None
            while ending is None:
                proposal = await agent.propose(tuple(self.steps))
                ending = await self.take(episode, proposal)
        except ContextLimitError as error:
            return _Ending(Outcome.CONTEXT_LIMIT, _short(str(error)))
        except QuotaError:
            raise
        except ModelError as error:
            return _Ending(Outcome.MODEL_ERROR, _short(str(error)))
        except EnvironmentFault as error:
            return _Ending(Outcome.ENVIRONMENT_ERROR, _short(str(error)))
        except _WorldError as error:
            return _Ending(Outcome.ENVIRONMENT_ERROR, str(error))
        return ending

    def seated(self, episode: Episode) -> Seat:
        """The seat, with what only a running episode can show."""
        listing: Callable[[], list[str]] | None = getattr(episode, "valid_actions", None)
        if listing is None:
            return replace(self.seat, opening=self.opening)
        return replace(self.seat, opening=self.opening, valid_actions=lambda: self.world(listing))

    async def take(self, episode: Episode, proposal: Proposal) -> _Ending | None:
        """Carry out one proposal, and say whether the episode is over."""
        if proposal.gives_up:
            self.give_up(proposal)
            return _Ending(Outcome.FINISHED)
        action = clean_text(proposal.action)
        if action.strip():
            seen = await self.world(lambda: _checked(episode.step(action)))
        else:
            seen = Observation(_unreadable(proposal, self.seat.environment), invalid=True)
        self.steps.append(_step(proposal, action, seen))
        # An episode that ends itself is over, whatever limit the same step reached.
        return _Ending(Outcome.FINISHED) if seen.done else self.exceeded()

    def give_up(self, proposal: Proposal) -> None:
        """Note at the last step that, and why, the agent took no other."""
        if self.steps:
            last = self.steps[-1]
            flags = [*last.flags, "gives_up", *proposal.flags]
            self.steps[-1] = last.model_copy(update={"flags": flags, "usage": last.usage + proposal.usage})

    def exceeded(self) -> _Ending | None:
        """Which limit has been reached, if any."""
        limits = self.limits
        # A step that the token budget cut says nothing about whether the model knows the format.
        unreadable = sum(not step.action.strip() and step.stop_reason != "length" for step in self.steps)
        if unreadable > limits.format_errors:
            return _Ending(Outcome.FORMAT_ERROR)
        tokens = sum(step.usage.completion_tokens for step in self.steps)
        over = (
            len(self.steps) >= limits.max_steps
            or (limits.episode_tokens is not None and tokens >= limits.episode_tokens)
            or (limits.episode_seconds is not None and self.seconds() >= limits.episode_seconds)
        )
        return _Ending(Outcome.STEP_LIMIT) if over else None

    async def judge(self, episode: Episode, ending: _Ending) -> _Ending:
        """Ask for the answer and the grade. Only a finished episode can be correct."""
        try:
            self.answer, grade = await self.world(lambda: _verdict(episode))
        except _WorldError as error:
            # After a failure the grader may fail too; the first error says more.
            return ending if ending.error else _Ending(Outcome.ENVIRONMENT_ERROR, str(error))
        finished = ending.outcome is Outcome.FINISHED
        self.grade = grade.model_copy(update={"correct": grade.correct and finished})
        return ending

    async def close(self, episode: Episode) -> None:
        try:
            await self.world(episode.close)
        except _WorldError as error:
            # The episode is over: what it came to stands.
            sys.stderr.write(f"staract: closing the episode of task {self.seat.task.id!r} failed: {error}\n")

    def seconds(self) -> float:
        return time.monotonic() - self.start

    async def world(self, call: Callable[[], T]) -> T:
        """Call environment code, in a thread if it blocks."""
        try:
            return await _in_thread(call) if self.blocking else call()
        except Exception as error:
            text = str(error) if isinstance(error, EnvironmentFault) else f"{type(error).__name__}: {error}"
            raise _WorldError(_short(text)) from error


async def _in_thread(call: Callable[[], T]) -> T:
    work = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        # A thread cannot be stopped, and closing the episode under it would be worse than waiting.
        await asyncio.wait([work])
        raise


def _step(proposal: Proposal, action: str, seen: Observation) -> Step:
    return Step(
        thought=clean_text(proposal.thought),
        action=action,
        observation=clean_text(seen.text),
        reward=float(seen.reward),
        score=None if seen.score is None else float(seen.score),
        completion=clean_text(proposal.completion),
        stop_reason=proposal.stop_reason,
        flags=list(proposal.flags),
        invalid=seen.invalid,
        usage=proposal.usage,
        info={name: clean_text(text) for name, text in seen.info.items()},
        votes=[clean_text(vote) for vote in proposal.votes],
        candidates=[clean_text(text) for text in proposal.candidates],
    )


def _checked(seen: Observation) -> Observation:
    """Raises ``EnvironmentFault`` for numbers that could not be stored."""
    if not math.isfinite(seen.reward) or (seen.score is not None and not math.isfinite(seen.score)):
        raise EnvironmentFault(f"the environment gave reward {seen.reward!r} and score {seen.score!r}")
    return seen


def _verdict(episode: Episode) -> tuple[str | None, Grade]:
    answer, grade = episode.answer(), episode.grade()
    if not all(map(math.isfinite, [grade.reward, *grade.metrics.values()])):
        raise EnvironmentFault(f"the environment graded with {grade.reward!r} and {grade.metrics!r}")
    return None if answer is None else clean_text(answer), grade


def _unreadable(proposal: Proposal, environment: Environment) -> str:
    """What an agent sees that named no action."""
    cut = proposal.stop_reason == "length"
    reason = "The step was cut before it named an action." if cut else "The step names no action."
    if getattr(environment, "free_form", False):
        return f"Invalid action. {reason} Write one action in plain words."
    shapes = ", ".join(f"{tool.name}[{tool.argument}]" for tool in environment.tools)
    return f"Invalid action. {reason} Write exactly one of: {shapes}."


def _short(text: str) -> str:
    text = clean_text(text)
    return text if len(text) <= _ERROR_LENGTH else text[: _ERROR_LENGTH - 1] + "…"


def _versions(environment: Environment, *, transformers: bool) -> dict[str, str]:
    return {"environment": environment.version, **_installed(transformers)}


@lru_cache
def _installed(transformers: bool) -> dict[str, str]:
    names = ["staract", "transformers"] if transformers else ["staract"]
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
