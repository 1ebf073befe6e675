"""Which episode is to begin next: sample after sample of each task, or round by round to a target."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from pipeline.rollout.tally import Tally
from pipeline.trajectories.schema import Task

Identify = Callable[[Task, int], str]
"""The id of a task's sample."""


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to play; ``position`` is the task's place in the panel."""

    position: int
    task: Task
    sample: int
    identity: str


class Jobs(Protocol):
    """A panel's episodes that are still to play."""

    @property
    def more(self) -> bool:
        """Whether any is left, ready or not."""
        ...

    def take(self) -> Job | None:
        """The next one that may begin now; None where there is none, or none before another is over."""
        ...

    def over(self, job: Job) -> None:
        """An episode has ended and is counted."""
        ...


class PanelJobs:
    """All samples of one task, then those of the next: every episode that is not settled."""

    def __init__(self, tasks: Sequence[Task], samples: int, identify: Identify, settled: Set[str]) -> None:
        self._panel = (tasks, samples, identify, settled)
        self._jobs = self._owed()
        self.more = True

    def count(self) -> int:
        """How many there are from the beginning."""
        return sum(1 for _ in self._owed())

    def take(self) -> Job | None:
        """The next one."""
        job = next(self._jobs, None)
        self.more = job is not None
        return job

    def over(self, job: Job) -> None:
        """Nothing depends on it."""

    def _owed(self) -> Iterator[Job]:
        tasks, samples, identify, settled = self._panel
        for position, task in enumerate(tasks):
            for sample in range(samples):
                identity = identify(task, sample)
                if identity not in settled:
                    yield Job(position, task, sample, identity)


class RoundJobs:
    """Every task once, then a second time those that lack correct trajectories, and so on.

    A sample begins only when it is wanted even if all the task's earlier ones turn out correct. So which
    samples of a task are played does not depend on timing, and none is played in vain; and no round
    waits for the last of the one before.
    """

    def __init__(self, tasks: Sequence[Task], identify: Identify, settled: Set[str], tally: Tally) -> None:
        self._tasks = tasks
        self._identify = identify
        self._settled = settled
        self._tally = tally
        self._fresh = iter(range(len(tasks)))
        self._ready: list[tuple[int, int]] = []
        """Sample and position of what may begin after the first round: a heap."""
        self._flying = Counter[int]()
        self._undecided: dict[int, int] = {}
        """Position and next sample of tasks that wait for their episodes in flight."""

    @property
    def more(self) -> bool:
        """Whether any is left, ready or not; known once ``take`` has gone through the first round."""
        return bool(self._ready or self._undecided)

    def take(self) -> Job | None:
        """The next one, in the order of rounds, then of the panel."""
        job = self._first()
        if job is None and self._ready:
            sample, position = heapq.heappop(self._ready)
            job = self._job(position, sample)
        if job is not None:
            self._flying[job.position] += 1
            self._undecided[job.position] = job.sample + 1
            self._decide(job.position)
        return job

    def over(self, job: Job) -> None:
        """The task's next sample may begin now, or is not wanted."""
        self._flying[job.position] -= 1
        self._decide(job.position)
        if not self._flying[job.position]:
            del self._flying[job.position]
            self._undecided.pop(job.position, None)

    def _first(self) -> Job | None:
        """The next job of the first round; what that has behind it goes to the later ones."""
        for position in self._fresh:
            sample = self._open(position, 0)
            if sample is None or self._tally.lacking(self._tasks[position].id) <= 0:
                continue
            if sample == 0:
                return self._job(position, 0)
            heapq.heappush(self._ready, (sample, position))
        return None

    def _decide(self, position: int) -> None:
        """Make the task's next sample ready if it is wanted whatever those in flight come to."""
        if position not in self._undecided:
            return
        if self._tally.lacking(self._tasks[position].id) > self._flying[position]:
            sample = self._open(position, self._undecided.pop(position))
            if sample is not None:
                heapq.heappush(self._ready, (sample, position))

    def _open(self, position: int, sample: int) -> int | None:
        """The task's first sample from this one on that is not settled."""
        task = self._tasks[position]
        for number in range(sample, self._tally.samples):
            if not self._settled or self._identify(task, number) not in self._settled:
                return number
        return None

    def _job(self, position: int, sample: int) -> Job:
        task = self._tasks[position]
        return Job(position, task, sample, self._identify(task, sample))
