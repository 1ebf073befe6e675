"""What a run has got and spent so far: counts, never trajectories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pydantic import BaseModel, Field, ValidationError

from pipeline.errors import StoreError
from pipeline.rollout.goal import Goal
from pipeline.trajectories.files import read_lines
from pipeline.trajectories.schema import ERRORED, Grade, Outcome, Task, Usage

REPEATED: Final = ERRORED
"""Outcomes that are no fault of the agent: such episodes are played again on resume."""
FIRST: Final = 50
"""So many episodes say something about those to come."""
_ROUNDING = 1e-9
"""A sum of costs is no less rounded than the budget."""


class Tally:
    """Counts towards a goal.

    Args:
        goal: what the run is after.
        tasks: tasks of the panel.
        samples: episodes a task at most.
    """

    def __init__(self, goal: Goal, tasks: int, samples: int) -> None:
        self.goal = goal
        self.tasks = tasks
        self.samples = samples
        self.per_task = samples if goal.until is None else goal.per_task
        self.episodes = 0
        """Episodes played, in this call and before; those that are played again count twice."""
        self.counted = 0
        """Correct ones, at most ``per_task`` a task."""
        self.tokens = 0
        self.cost = 0.0
        self._paid = 0
        self._played = Counter[str]()
        self._correct = Counter[str]()
        self._rounds = [[0, 0] for _ in range(samples)]

    def add(self, task: str, sample: int, usage: Usage, *, correct: bool) -> None:
        """Count an episode that has just ended."""
        self.spend(usage)
        self.settle(task, sample, correct=correct)

    def spend(self, usage: Usage) -> None:
        """Count what an episode used."""
        tokens = usage.prompt_tokens + usage.completion_tokens
        self.episodes += 1
        self.tokens += tokens
        self.cost += usage.cost
        self._paid += tokens > 0

    def settle(self, task: str, sample: int, *, correct: bool) -> None:
        """Count what an episode came to."""
        counts = correct and self.lacking(task) > 0
        self.counted += counts
        self._rounds[sample][0] += 1
        self._rounds[sample][1] += counts
        if self.goal.bounded:
            self._played[task] += 1
            if counts:
                self._correct[task] += 1

    @property
    def reached(self) -> bool:
        """Whether the target is reached."""
        return self.goal.until is not None and self.counted >= self.goal.until

    def lacking(self, task: str) -> int:
        """How many more correct trajectories of a task would count."""
        return self.per_task - self._correct[task]

    def affords(self, flying: int) -> bool:
        """Whether the budgets allow one more episode, if it and those in flight cost the mean.

        While little is known of the mean, no more episodes are in flight than have ended.
        """
        limits = ((self.goal.max_cost, self.cost), (self.goal.max_tokens, self.tokens))
        bounds = [(limit * (1 + _ROUNDING), spent) for limit, spent in limits if limit is not None]
        expected = 1 + (flying + 1) / max(self._paid, 1)
        return not bounds or (
            flying <= self.episodes and all(spent * expected <= limit for limit, spent in bounds)
        )

    def yields(self) -> tuple[int, int, int]:
        """Correct and played episodes of the latest round that says enough, and its number from 0.

        Later rounds ask what earlier ones did not solve, so theirs is the share that goes on.
        """
        for number in reversed(range(1, self.samples)):
            played, correct = self._rounds[number]
            if played >= FIRST:
                return correct, played, number
        return sum(row[1] for row in self._rounds), sum(row[0] for row in self._rounds), 0

    def open(self) -> Counter[tuple[int, int]]:
        """How many tasks have so many samples left and so many correct ones lacking."""
        states = Counter((self.samples - played, self.lacking(task)) for task, played in self._played.items())
        states[self.samples, self.per_task] += self.tasks - len(self._played)
        return states


class _Line(BaseModel):
    """What counts of a stored trajectory."""

    class _Task(BaseModel):
        id: str

    id: str
    task: _Task
    sample: int = Field(ge=0)
    outcome: Outcome
    grade: Grade
    usage: Usage


def read_held(
    path: Path, tasks: Sequence[Task], identify: Callable[[Task, int], str], tally: Tally
) -> set[str]:
    """Count what a store holds of a panel, one line at a time.

    Every line was spent, also one whose episode was played again later.

    Args:
        path: the store's file, locked (its last line is whole).
        tasks: the panel's tasks.
        identify: the id of a task's sample.
        tally: where to count.

    Returns:
        The ids of the episodes that need not be played again.

    Raises:
        StoreError: a line is broken (file and line number are named).
    """
    known = {task.id: task for task in tasks}
    latest: dict[str, tuple[str, int, bool]] = {}
    for number, raw in read_lines(path):
        line = _parse(raw, f"{path}, line {number}")
        task = known.get(line.task.id)
        if task is None or line.sample >= tally.samples or identify(task, line.sample) != line.id:
            continue
        tally.spend(line.usage)
        latest.pop(line.id, None)
        if line.outcome not in REPEATED:
            latest[line.id] = (task.id, line.sample, line.grade.correct)
    for name, sample, correct in latest.values():
        tally.settle(name, sample, correct=correct)
    return set(latest)


def _parse(raw: bytes, where: str) -> _Line:
    try:
        return _Line.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors()[0]
        raise StoreError(f"{where} is broken: {first['msg']}") from None
