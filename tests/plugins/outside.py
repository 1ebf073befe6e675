"""An environment and a method as a third party would write them: nothing here is part of the package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pipeline.environments.base import Environment, Observation, ToolSpec
from pipeline.methods.base import Proposal, Seat
from pipeline.recipe.models import MethodRecipe
from pipeline.rendering.base import PromptSpec
from pipeline.trajectories.schema import Grade, Split, Step, Task


class GuessEpisode:
    """Guess the number: the answer is higher or lower."""

    def __init__(self, task: Task) -> None:
        self._secret = int(task.gold[0])
        self._guess: int | None = None

    def reset(self) -> str:
        return ""

    def step(self, action: str) -> Observation:
        try:
            self._guess = int(action.removeprefix("Guess[").removesuffix("]"))
        except ValueError:
            return Observation("Guess a whole number.", invalid=True)
        if self._guess == self._secret:
            return Observation("Found.", done=True, reward=1.0)
        return Observation("Higher." if self._guess < self._secret else "Lower.")

    def answer(self) -> str | None:
        return None if self._guess is None else str(self._guess)

    def grade(self) -> Grade:
        right = self._guess == self._secret
        return Grade(correct=right, reward=float(right), metrics={"accuracy": float(right)})

    def close(self) -> None:
        pass


class Guessing:
    """Numbers from 0 to 63."""

    name = "guessing"
    version = "1"
    label = "Puzzle"
    max_steps = 8
    tools = (ToolSpec("Guess", "number", "says whether the secret is higher or lower"),)

    def __init__(self, family: str = "", kinds: Sequence[str] = ()) -> None:
        self.family = family

    def tasks(self, split: Split) -> Iterator[Task]:
        for secret in range(64):
            if ("train", "dev", "test")[secret % 3] == split:
                yield Task(
                    id=f"guess-{secret}",
                    environment=self.name,
                    split=split,
                    instruction=f"Find secret number {secret % 7}-{secret // 7}.",
                    gold=[str(secret)],
                )

    def episode(self, task: Task) -> GuessEpisode:
        return GuessEpisode(task)

    def expert(self, task: Task, seed: int) -> Iterator[Step] | None:
        return None

    def normalise(self, answer: str) -> str:
        return answer.strip()


class Halving:
    """Halves the interval, whatever the model says: a method without a prompt."""

    name = "halving"
    single_step = False

    def __init__(self, recipe: MethodRecipe) -> None:
        self.recipe = recipe

    def settings(self, environment: Environment) -> dict[str, Any]:
        return {"method": self.name}

    def spec(self, environment: Environment) -> PromptSpec:
        return PromptSpec("act", environment.label, "Halve.")

    def agent(self, seat: Seat) -> HalvingAgent:
        return HalvingAgent()


class HalvingAgent:
    async def propose(self, steps: Sequence[Step]) -> Proposal:
        low, high = 0, 63
        for step in steps:
            guess = int(step.action.removeprefix("Guess[").removesuffix("]"))
            low, high = (guess + 1, high) if step.observation == "Higher." else (low, guess - 1)
        return Proposal(thought=f"Between {low} and {high}.", action=f"Guess[{(low + high) // 2}]")
