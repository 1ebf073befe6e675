"""What all prompted methods share: a renderer, a fixed prompt part, and one way to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any, ClassVar, cast

from pipeline.environments.base import Environment
from pipeline.methods.base import Proposal, Seat
from pipeline.methods.prompts import spec_for
from pipeline.models.base import Completion, Request
from pipeline.recipe.models import MethodRecipe
from pipeline.rendering.base import Parsed, Prompt, PromptSpec, TextPrompt
from pipeline.rendering.parse import clean_action, without_reasoning
from pipeline.rendering.registry import load_renderer
from pipeline.rendering.tools import write_turn
from pipeline.trajectories.schema import Step, digest


class Prompted:
    """Base of the methods that only differ in the shape of a turn.

    Raises:
        RecipeError: on construction, for a renderer that does not exist.
    """

    style: ClassVar[str]

    def __init__(self, recipe: MethodRecipe) -> None:
        self.recipe = recipe
        self.renderer = load_renderer(recipe.renderer)

    def settings(self, environment: Environment) -> dict[str, Any]:
        """As ``Method.settings``; the prompt, exemplars included, enters by its hash."""
        recipe = self.recipe
        return {
            "method": self.style,
            "renderer": f"{self.renderer.name}/{self.renderer.version}",
            "shots": recipe.shots,
            "max_tokens": recipe.max_tokens,
            "temperature": recipe.temperature,
            "top_p": recipe.top_p,
            "prompt": digest(_plain(self.spec(environment))),
        }

    def spec(self, environment: Environment) -> PromptSpec:
        """As ``Method.spec``.

        Raises:
            RecipeError: the environment has fewer exemplars than the recipe's ``shots``.
            FormatError: its exemplar file cannot be read.
        """
        spec = spec_for(environment, self.style, self.recipe.shots)
        return replace(spec, tools=environment.tools) if self.renderer.name == "tools" else spec


async def ask(seat: Seat, prompt: Prompt, number: int, call: int = 0) -> Completion:
    """One call of the seat's model for step ``number``."""
    seed = step_seed(seat.seed, number, call)
    return await seat.model.generate(Request(prompt, seat.sampling, seat.session, seed))


def step_seed(episode: int, number: int, call: int = 0) -> int:
    """The seed of a call; it depends on nothing but the episode's seed and the call's place in it."""
    return int(digest([episode, number, call]), 16) >> 1


def proposal(parsed: Parsed, completion: Completion, *, free_form: bool = False) -> Proposal:
    """A parsed completion as the next move.

    ``truncated`` marks a turn that the budget cut; an action cut in the middle is not carried out. A
    call is whole with its bracket, an action in free text where the cut came in a later line.
    """
    flags = [*completion.flags, *parsed.flags]
    action = parsed.action
    if completion.stop_reason == "length" and not {"extra_text", "hallucinated_observation"} & set(flags):
        flags.append("truncated")
        if action and not action.endswith("]") and not (free_form and _ended(action, completion.text)):
            action = ""
            flags.append("no_action")
    return Proposal(
        thought=parsed.thought,
        action=action,
        completion=completion.text,
        stop_reason=completion.stop_reason,
        flags=tuple(flags),
        usage=completion.usage,
    )


def _ended(action: str, text: str) -> bool:
    """Whether something other than the action stands on the last line, where the cut is."""
    return clean_action(without_reasoning(text)[0].rpartition("\n")[2]) != action


def is_expert(seat: Seat) -> bool:
    """Whether the seat's model plays solutions (it has a method ``plays``) instead of writing."""
    return hasattr(seat.model, "plays")


def expert_steps(seat: Seat) -> Iterator[Step]:
    """The steps that the seat's expert intends to take.

    Raises:
        EnvironmentFault: the environment has no expert for the task.
    """
    play = cast(Callable[..., Iterator[Step]], getattr(seat.model, "plays"))  # noqa: B009
    return play(seat.task, seat.environment, seat.seed)


async def next_step(seat: Seat, played: Iterator[Step]) -> Step | None:
    """The expert's next step, or None; in a thread where its world blocks (a gold path takes seconds).

    Raises:
        EnvironmentFault: the expert fails.
    """
    if not getattr(seat.environment, "blocking", False):
        return next(played, None)
    return await asyncio.to_thread(next, played, None)


def written(prompt: Prompt) -> str:
    """The model's last turn in a training row, without its stop: what an expert "wrote"."""
    if isinstance(prompt, TextPrompt):
        return prompt.segments[-1].text.removesuffix(prompt.stop[0])
    return write_turn(prompt.messages[-1])


def _plain(spec: PromptSpec) -> dict[str, Any]:
    """A prompt's fixed part as plain JSON values."""
    plain = asdict(spec)
    for written, exemplar in zip(plain["exemplars"], spec.exemplars, strict=True):
        written["steps"] = [[step.thought, step.action, step.observation] for step in exemplar.steps]
    for name in ("tools", "free_form"):
        # What is not shown is no part of what is hashed.
        if not plain[name]:
            del plain[name]
    return plain
