"""A small world that lists valid actions, models that search, and a way to play an episode in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pipeline.environments.base import Observation, ToolSpec
from pipeline.methods.base import Seat
from pipeline.methods.registry import load_method
from pipeline.models.base import Completion, Request, Sampling
from pipeline.models.scripted import ScriptedModel
from pipeline.models.wire import prompt_text
from pipeline.recipe.models import MethodRecipe
from pipeline.rollout.episode import Limits, play
from pipeline.trajectories.schema import Grade, Task, Trajectory, Usage

TASK = Task(
    id="larder-1",
    environment="larder",
    split="test",
    kind="4-2",
    instruction="Your task is to eat. First, focus on the food. Then, eat the apple.",
)
ROOMS = {"hallway": "kitchen", "kitchen": "hallway"}


class Larder:
    """Two rooms, an apple and a plum in the kitchen. Focus on the apple is half of it, eating it all."""

    name = "larder"
    version = "1"
    family = ""
    label = "Task"
    max_steps = 30
    tools = (ToolSpec("act", "action", "does it"),)

    def __init__(self, **said: str) -> None:
        self.said = said
        """Observations to give instead, by action (with ``_`` for spaces)."""

    def episode(self, task: Task) -> LarderEpisode:
        return LarderEpisode(self.said)


class LarderEpisode:
    def __init__(self, said: dict[str, str]) -> None:
        self.said = said
        self.room, self.score, self.asked = "hallway", 0.0, 0

    @property
    def look(self) -> str:
        things = "\n\tan apple\n\ta plum" if self.room == "kitchen" else ""
        return f"This room is called the {self.room}. In it, you see:{things}"

    def reset(self) -> str:
        return f"{self.look}\nIn your inventory, you see:\n\tnothing"

    def valid_actions(self) -> list[str]:
        self.asked += 1
        food = ["focus on apple", "focus on plum", "eat apple", "eat plum", "mix red apple", "mix plum"]
        here = food if self.room == "kitchen" else []
        return sorted([*here, f"go to {ROOMS[self.room]}", "look around", "wait", "wait1"])

    def step(self, action: str) -> Observation:
        before, text = self.score, "No known action matches that input."
        if action == f"go to {ROOMS[self.room]}":
            self.room = action.removeprefix("go to ")
            text = f"You move to the {self.room}."
        elif action in self.valid_actions() or action == "0":
            text = "Done."
        if action == "focus on apple":
            self.score = max(self.score, 0.5)
        elif action == "eat apple" and self.score:
            self.score = 1.0
        text = self.said.get(action.replace(" ", "_"), text)
        info = {"look": self.look, "inventory": "In your inventory, you see:\n\tnothing"}
        done = self.score == 1.0
        return Observation(text, done, self.score - before, self.score, text.startswith("No known"), info)

    def answer(self) -> None:
        return None

    def grade(self) -> Grade:
        return Grade(correct=self.score == 1.0, reward=self.score)

    def close(self) -> None:
        pass


class Searching:
    """A model that writes beams: from a list (the last repeats), or from the request."""

    address = "swift"

    def __init__(self, script: Sequence[Sequence[str]] | Callable[[Request], Sequence[str]]) -> None:
        self.script = script
        self.requests: list[Request] = []

    async def beams(self, request: Request, count: int) -> list[Completion]:
        asked = len(self.requests)
        self.requests.append(request)
        found = (
            self.script(request) if callable(self.script) else self.script[min(asked, len(self.script) - 1)]
        )
        usage = Usage(prompt_tokens=7, completion_tokens=3, calls=1)
        texts = [Completion(f"<pad> {text}</s>") for text in found[:count]]
        return [replace(texts[0], usage=usage), *texts[1:]]

    async def generate(self, request: Request) -> Completion:
        return (await self.beams(request, 1))[0]

    def forget(self, session: str) -> None:
        pass

    @property
    def inputs(self) -> list[str]:
        return [prompt_text(request.prompt) for request in self.requests]


class Wise:
    """A SAGE that keeps what it was asked: plans from nothing, grounds from a list (the last repeats)."""

    address = "sage"

    def __init__(self, *answers: str, choice: str = "none") -> None:
        self.answers = answers
        self.choice = choice
        self.asked: list[str] = []
        self.kinds: list[str] = []

    def kind(self, text: str) -> str:
        if "Answer five questions" in text:
            return "plan"
        if "word for word, or none" in text:
            return "choice"
        return "retry" if "Think again" in text else "ground"

    async def generate(self, request: Request) -> Completion:
        text = prompt_text(request.prompt)
        self.asked.append(text)
        kind = self.kind(text)
        self.kinds.append(kind)
        usage = Usage(prompt_tokens=100, completion_tokens=10, calls=1)
        if kind == "plan":
            return Completion("1. An apple.", usage=usage)
        if kind == "choice":
            return Completion(self.choice, usage=usage)
        grounded = sum(each in ("ground", "retry") for each in self.kinds)
        return Completion(self.answers[min(grounded, len(self.answers)) - 1], usage=usage)

    def forget(self, session: str) -> None:
        pass


def seat(model: Any, environment: Any = None, swift: Any = None, task: Task = TASK) -> Seat:
    return Seat(task, environment or Larder(), model, Sampling(max_tokens=500), "session-1", 5, swift=swift)


def played(
    name: str,
    model: Any,
    swift: Any = None,
    environment: Any = None,
    task: Task = TASK,
    steps: int = 30,
    **recipe: Any,
) -> Trajectory:
    """A whole episode through the rollout."""
    method = load_method(MethodRecipe(name=name, **recipe))
    return asyncio.run(play(seat(model, environment, swift, task), method, Limits(steps), {}))


def scripted(*texts: str) -> ScriptedModel:
    return ScriptedModel(list(texts))


def acts(trajectory: Trajectory) -> list[tuple[str, ...]]:
    """Action and flags of each step."""
    return [(step.action, *step.flags) for step in trajectory.steps]
