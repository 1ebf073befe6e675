"""Tasks that ask the same: data sets hold them, and some contradict each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.environments.answers import normalise
from pipeline.trajectories.panels import normal_text
from pipeline.trajectories.schema import Task


@dataclass(frozen=True)
class Duplicates:
    """What is asked more than once. Nothing is dropped: ids tell the tasks apart.

    ``repeated`` holds the ids of each group of tasks with the same normalised text, in the order of
    the data; ``contradictory`` those of the groups whose answers differ.
    """

    tasks: int
    texts: int
    repeated: tuple[tuple[str, ...], ...]
    contradictory: tuple[tuple[str, ...], ...]

    def sentence(self) -> str:
        """One line for a person; empty if nothing is asked twice."""
        if not self.repeated:
            return ""
        example = f" (such as {', '.join(self.contradictory[0])})" if self.contradictory else ""
        return (
            f"{self.tasks} tasks have {self.texts} different texts; texts that stand there more than once:"
            f" {len(self.repeated)}, with different answers: {len(self.contradictory)}{example}; all are kept"
        )


def duplicates(tasks: Iterable[Task]) -> Duplicates:
    """Find the tasks that ask the same, and those of them that answer differently."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    answers: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
    for task in tasks:
        text = normal_text(task.problem)
        groups[text].append(task.id)
        answers[text].add(tuple(normalise(gold) for gold in task.gold))
    repeated = {text: tuple(names) for text, names in groups.items() if len(names) > 1}
    return Duplicates(
        tasks=sum(len(names) for names in groups.values()),
        texts=len(groups),
        repeated=tuple(repeated.values()),
        contradictory=tuple(names for text, names in repeated.items() if len(answers[text]) > 1),
    )
