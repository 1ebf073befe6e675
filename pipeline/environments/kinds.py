"""What an environment may tell of its kinds of task, for reports that compare kinds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KindGroup:
    """One kind of task, and the group that reports count it in.

    An environment's optional attribute ``kind_groups`` maps kinds to these, in a report's order.
    ``length`` is how many steps the published oracle takes on average.
    """

    name: str
    group: str
    length: float
