"""The ledger of a selection: what was seen, what was kept, and which rule took the rest."""

from __future__ import annotations

from collections import Counter

from pydantic import Field, model_validator

from pipeline.bootstrap.rules import ORDER
from pipeline.trajectories.schema import Record
from pipeline.trajectories.text import printable

KEPT = "kept"
"""The verdict on a trajectory that no rule took."""


class Ledger(Record):
    """Counts of a selection. Every trajectory that was seen is counted once in each table.

    ``fallen`` has one entry a rule, zeros included, in the order of the rules. ``kinds`` and
    ``tasks`` count verdicts (``kept`` or the name of a rule) by kind of task and by task id.
    ``conflicts`` lists the ids of tasks that ask the same with different gold answers: they are
    flagged, not dropped.
    """

    seen: int = 0
    kept: int = 0
    order: list[str] = Field(default_factory=lambda: list(ORDER))
    fallen: dict[str, int] = Field(default_factory=lambda: dict.fromkeys(ORDER, 0))
    kinds: dict[str, dict[str, int]] = Field(default_factory=dict)
    tasks: dict[str, dict[str, int]] = Field(default_factory=dict)
    conflicts: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _adds_up(self) -> Ledger:
        for name, counted in (
            ("kept + fallen", self.kept + sum(self.fallen.values())),
            ("kinds", sum(sum(row.values()) for row in self.kinds.values())),
            ("tasks", sum(sum(row.values()) for row in self.tasks.values())),
        ):
            if counted != self.seen:
                raise ValueError(f"the ledger does not add up: {self.seen} seen, {counted} in {name}")
        return self

    @property
    def tasks_kept(self) -> int:
        """How many tasks have at least one trajectory kept."""
        return sum(1 for row in self.tasks.values() if row.get(KEPT))


class Tally:
    """Counts verdicts one at a time, then closes into a ledger."""

    def __init__(self) -> None:
        self._total: Counter[str] = Counter()
        self._kinds: dict[str, dict[str, int]] = {}
        self._tasks: dict[str, dict[str, int]] = {}

    def add(self, task: str, kind: str, verdict: str) -> None:
        """Count one trajectory: ``verdict`` is ``KEPT`` or the rule it fell to."""
        self._total[verdict] += 1
        for table, key in ((self._kinds, kind), (self._tasks, task)):
            row = table.setdefault(key, {})
            row[verdict] = row.get(verdict, 0) + 1

    def close(self, conflicts: list[str]) -> Ledger:
        """The ledger of everything counted, its tables in sorted order."""
        return Ledger(
            seen=self._total.total(),
            kept=self._total[KEPT],
            fallen={name: self._total[name] for name in ORDER},
            kinds=dict(sorted(self._kinds.items())),
            tasks=dict(sorted(self._tasks.items())),
            conflicts=sorted(conflicts),
        )


def ledger_table(ledger: Ledger) -> str:
    """The ledger in Markdown: a row for every rule that took something, a column for every kind."""
    kinds = list(ledger.kinds)
    header = ["rule", "all", *(kind or "(no kind)" for kind in kinds)]
    rows = [header, ["seen", str(ledger.seen), *(str(sum(ledger.kinds[kind].values())) for kind in kinds)]]
    for name in (rule for rule in ledger.order if ledger.fallen[rule]):
        rows.append([f"− {name}", str(ledger.fallen[name]), *_cells(ledger, kinds, name)])
    rows.append([KEPT, str(ledger.kept), *_cells(ledger, kinds, KEPT)])
    lines = ["| " + " | ".join(_plain(cell) for cell in row) + " |" for row in rows]
    lines.insert(1, "| --- |" + " ---: |" * (len(header) - 1))
    lines.append("")
    if idle := [name for name in ledger.order if not ledger.fallen[name]]:
        lines.append(f"Nothing fell to: {', '.join(idle)}.")
    lines.append(
        f"{ledger.kept} trajectories of {ledger.tasks_kept} tasks kept, of {len(ledger.tasks)} seen."
    )
    if ledger.conflicts:
        lines.append(f"{len(ledger.conflicts)} tasks ask what another asks, with another gold answer.")
    return "\n".join(lines)


def _cells(ledger: Ledger, kinds: list[str], verdict: str) -> list[str]:
    return [str(ledger.kinds[kind].get(verdict, 0)) for kind in kinds]


def _plain(cell: str) -> str:
    """A name from a data file, made harmless in a table: no bar, no control character."""
    return printable(cell).replace("|", "\\|")
