"""A model whose answers are written down beforehand: which sample of which task is right, and its price."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pipeline.models.base import Completion, Request
from pipeline.recipe.models import MethodRecipe
from pipeline.rollout.engine import Plan
from pipeline.trajectories.schema import Task, Usage
from tests.rollout.toy import Sums, Talk, task


@dataclass
class Script:
    """``right[task][sample]`` says which episodes are correct; each takes one step.

    ``cost`` gives an episode's price by task and sample, ``turns`` how often it lets others go first.
    """

    right: Sequence[Sequence[bool]]
    cost: Callable[[int, int], float] = lambda task, sample: 0.0
    turns: Callable[[int, int], int] = lambda task, sample: 0
    before: Callable[[int, int], None] = lambda task, sample: None
    address: str = "scripted"
    begun: list[tuple[int, int]] = field(default_factory=list)
    flying: Counter[int] = field(default_factory=Counter[int])
    most: int = 0

    def __post_init__(self) -> None:
        self.tasks: list[Task] = [task(number) for number in range(len(self.right))]
        self.samples = len(self.right[0])
        self.plan = Plan(Sums(), Talk(), MethodRecipe(name="talk"), self, run_seed=3)
        self.places = {
            self.plan.identity(one, sample): (number, sample)
            for number, one in enumerate(self.tasks)
            for sample in range(self.samples)
        }

    async def generate(self, request: Request) -> Completion:
        number, sample = self.places[request.session]
        self.begun.append((number, sample))
        self.before(number, sample)
        self.flying[number] += 1
        self.most = max(self.most, self.flying.total())
        try:
            for _ in range(self.turns(number, sample)):
                await asyncio.sleep(0)
        finally:
            self.flying[number] -= 1
        answer = self.tasks[number].gold[0] if self.right[number][sample] else "wrong"
        cost = self.cost(number, sample)
        return Completion(
            f"say[{answer}]", usage=Usage(prompt_tokens=7, completion_tokens=3, calls=1, cost=cost)
        )

    def forget(self, session: str) -> None:
        pass

    async def close(self) -> None:
        pass

    def wanted(self, per_task: int) -> set[tuple[int, int]]:
        """What a run plays that finds no target: each sample with fewer than ``per_task`` right before it."""
        return {
            (number, sample)
            for number, row in enumerate(self.right)
            for sample in range(self.samples)
            if sum(row[:sample]) < per_task
        }

    def worth(self, played: set[tuple[int, int]], per_task: int) -> int:
        """How many of these episodes count."""
        hits = Counter(number for number, sample in played if self.right[number][sample])
        return sum(min(count, per_task) for count in hits.values())
