"""A small world of numbers to add, a method for it, and a program that generates until it is killed."""

from __future__ import annotations

import asyncio
import hashlib
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pipeline.environments.base import Environment, Observation, ToolSpec
from pipeline.methods.base import Proposal, Seat
from pipeline.models.base import Request
from pipeline.models.scripted import ScriptedModel
from pipeline.recipe.models import MethodRecipe
from pipeline.rendering.base import PromptSpec, Segment, TextPrompt
from pipeline.rollout.engine import Plan, run_episodes
from pipeline.trajectories.schema import Grade, Split, Step, Task
from pipeline.trajectories.store import TrajectoryStore


def task(number: int) -> Task:
    figures = [number % 7, number % 5, number]
    return Task(
        id=f"sum-{number}",
        environment="sums",
        split="train",
        kind="odd" if number % 2 else "even",
        instruction="Add " + " and ".join(map(str, figures)),
        gold=[str(sum(figures))],
    )


class SumEpisode:
    """``read`` shows the next figure, ``say[n]`` ends; anything else is invalid."""

    def __init__(self, problem: Task, hooks: dict[str, Callable[..., Any]]) -> None:
        self.problem = problem
        self.hooks = hooks
        self.figures = problem.instruction.removeprefix("Add ").split(" and ")
        self.said: str | None = None
        self.closed = 0

    def hook(self, name: str, *args: Any) -> Any:
        return self.hooks[name](*args) if name in self.hooks else None

    def reset(self) -> str:
        self.hook("reset")
        return f"{len(self.figures)} figures"

    def step(self, action: str) -> Observation:
        seen = self.hook("step", action)
        if seen is not None:
            return seen
        if action == "read" and self.figures:
            return Observation(self.figures.pop(0))
        if action.startswith("say["):
            self.said = action[4:-1]
            return Observation("over", done=True, reward=1.0)
        return Observation("cannot", invalid=True)

    def answer(self) -> str | None:
        return self.said

    def grade(self) -> Grade:
        found = self.hook("grade")
        right = self.said in self.problem.gold
        return found or Grade(correct=right, reward=float(right), metrics={"em": float(right)})

    def close(self) -> None:
        self.closed += 1
        self.hook("close")


class Sums:
    name = "sums"
    version = "1"
    family = ""
    label = "Task"
    max_steps = 6
    tools = (ToolSpec("read", "", "shows a figure"), ToolSpec("say", "sum", "ends"))

    def __init__(self, blocking: bool = False, **hooks: Callable[..., Any]) -> None:
        self.blocking = blocking
        self.hooks = hooks
        self.episodes: list[SumEpisode] = []

    def tasks(self, split: Split) -> Iterator[Task]:
        return (task(number) for number in range(100))

    def episode(self, problem: Task) -> SumEpisode:
        if "episode" in self.hooks:
            self.hooks["episode"](problem)
        self.episodes.append(SumEpisode(problem, self.hooks))
        return self.episodes[-1]

    def expert(self, task: Task, seed: int) -> Iterator[Step] | None:
        return None

    def normalise(self, answer: str) -> str:
        return answer.strip()


class Talk:
    """The completion is the action; a ``#`` before it makes it unreadable."""

    name = "talk"

    def __init__(self, single_step: bool = False) -> None:
        self.single_step = single_step

    def settings(self, environment: Any) -> dict[str, Any]:
        return {"style": "talk"}

    def spec(self, environment: Environment) -> PromptSpec:
        return PromptSpec("act", environment.label, "")

    def agent(self, seat: Seat) -> TalkAgent:
        return TalkAgent(seat)


class TalkAgent:
    def __init__(self, seat: Seat) -> None:
        self.seat = seat

    async def propose(self, steps: Sequence[Step]) -> Proposal:
        lines = [self.seat.task.instruction, *(f"{step.action} -> {step.observation}" for step in steps)]
        seat = self.seat
        prompt = TextPrompt((Segment("\n".join(lines)),), ("\n",))
        found = await seat.model.generate(Request(prompt, seat.sampling, seat.session, seat.seed))
        readable = not found.text.startswith("#")
        return Proposal(
            thought="hm",
            action=found.text if readable else "",
            completion=found.text,
            stop_reason=found.stop_reason,
            flags=found.flags if readable else (*found.flags, "no_action"),
            usage=found.usage,
        )


def clever(request: Request) -> str:
    """Read, err now and then (as the prompt's hash and the seed say), and add up in the end."""
    text = "".join(segment.text for segment in request.prompt.segments)  # type: ignore[union-attr]
    seen = [line.rpartition(" -> ")[2] for line in text.split("\n")[1:] if line.startswith("read -> ")]
    chance = hashlib.sha256(f"{text}{request.seed}".encode()).digest()[0]
    if chance < 40:
        return "# what?" if chance < 20 else "jump"
    figures = text.split("\n")[0].removeprefix("Add ").split(" and ")
    return "read" if len(seen) < len(figures) else f"say[{sum(map(int, seen))}]"


def plan(model: ScriptedModel, environment: Sums | None = None, **recipe: Any) -> Plan:
    return Plan(environment or Sums(), Talk(), MethodRecipe(name="talk", **recipe), model, run_seed=3)


def main() -> None:
    """Generate into the named file, slowly enough to be killed in the middle."""
    path, count, delay = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    chance = random.Random()
    model = ScriptedModel(clever, delay=lambda _: chance.uniform(0, delay))
    tasks = [task(number) for number in range(count)]
    print("ready", flush=True)
    with TrajectoryStore(path) as store:
        asyncio.run(run_episodes(plan(model), tasks, store, samples=2, concurrency=4))
    print("done", time.time(), flush=True)


if __name__ == "__main__":
    main()
