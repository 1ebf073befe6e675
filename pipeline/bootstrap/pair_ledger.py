"""The ledger of pairs: what became of every trajectory, and why some have no partner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from pydantic import model_validator

from pipeline.trajectories.schema import Record

PAIRED: Final = "paired"
"""The verdict on a failure that is the worse half of a pair."""
CHOSEN: Final = "chosen"
"""The verdict on a success that is the better half of one pair or more."""
SPARE: Final = "spare"
"""The verdict on a success that could be, but that no failure took."""
MEANING: Final = {
    "no_success": "no success of its task can be learnt from",
    "no_failure": "no failure of its task can be learnt from",
    "other_world": "it parts from no success after equal observations",
    "per_task": "its task has pairs enough",
    "target": "there are pairs enough",
}
"""Verdicts that need a word of explanation."""


class PairLedger(Record):
    """Counts of a choice of pairs: every trajectory that was seen has one verdict.

    ``successes`` and ``failures`` count verdicts: ``chosen`` or ``paired``, the rule that took the
    trajectory, or why it has no partner.
    """

    seen: int
    tasks: int
    pairs: int
    tasks_paired: int
    successes: dict[str, int]
    failures: dict[str, int]

    @model_validator(mode="after")
    def _adds_up(self) -> PairLedger:
        counted = sum(self.successes.values()) + sum(self.failures.values())
        if counted != self.seen or self.failures.get(PAIRED, 0) != self.pairs:
            raise ValueError(f"the ledger does not add up: {self.seen} seen, {counted} counted")
        return self

    def lines(self) -> list[str]:
        """The ledger for people."""
        return [
            f"{self.pairs} pairs of {self.tasks_paired} tasks, from {self.seen} trajectories of {self.tasks}",
            f"successes: {_told(self.successes)}",
            f"failures: {_told(self.failures)}",
        ]


def tallied(verdicts: Iterable[tuple[str, bool, str]]) -> PairLedger:
    """The ledger of trajectories, each given as its task, whether it was a success, and its verdict."""
    tasks: set[str] = set()
    paired: set[str] = set()
    counts: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for task, success, verdict in verdicts:
        tasks.add(task)
        counts[success][verdict] += 1
        if verdict == PAIRED:
            paired.add(task)
    return PairLedger(
        seen=counts[True].total() + counts[False].total(),
        tasks=len(tasks),
        pairs=counts[False][PAIRED],
        tasks_paired=len(paired),
        successes=dict(sorted(counts[True].items())),
        failures=dict(sorted(counts[False].items())),
    )


def _told(counts: dict[str, int]) -> str:
    told = (
        f"{count} {name}{f' ({MEANING[name]})' if name in MEANING else ''}" for name, count in counts.items()
    )
    return ", ".join(told) or "none"
