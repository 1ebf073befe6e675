"""Who keeps keys and values where: rows of episodes, kept between steps, and shared prefixes."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pipeline.models.transformers_attention import KeyValues

_STRIDE = 64
"""Columns are added in multiples of this, so that rows rarely move."""


@dataclass(eq=False)
class Prefix:
    """Leading ids that many prompts share, and their keys and values (one row)."""

    ids: tuple[int, ...]
    values: KeyValues


class PrefixCache:
    """The most recently used prefixes, up to a number of tokens (the newest always stays)."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[bytes, Prefix] = OrderedDict()

    def get(self, ids: Sequence[int], compute: Callable[[Sequence[int]], KeyValues]) -> tuple[Prefix, bool]:
        """The prefix of these ids, computed if it is new; the flag says that it was."""
        key = array("q", ids).tobytes()
        known = self._kept.get(key)
        if known is not None:
            self._kept.move_to_end(key)
            return known, False
        prefix = Prefix(tuple(ids), compute(ids))
        self._kept[key] = prefix
        while len(self._kept) > 1 and sum(len(kept.ids) for kept in self._kept.values()) > self._limit:
            self._kept.popitem(last=False)
        return prefix, True


@dataclass(eq=False)
class Row:
    """One row of the store. ``ids`` are the tokens after the prefix whose keys and values it holds."""

    index: int
    session: str = ""
    prefix: Prefix | None = None
    ids: list[int] = field(default_factory=list)
    need: int = 0
    busy: bool = False
    used: int = 0


class Rows:
    """Hands rows to sequences, within a number of tokens (rows × columns).

    An idle row keeps an episode's tokens until the episode is forgotten, or its place is needed: the
    least recently used goes first. One sequence is always let in, however long it is.
    """

    def __init__(self, limit: int) -> None:
        self.store = KeyValues(0, 0)
        self._limit = limit
        self._rows: list[Row] = []
        self._clock = 0

    def acquire(self, session: str, prefix: Prefix | None, ids: Sequence[int], need: int) -> Row | None:
        """A row with room for ``need`` tokens, holding as many leading ``ids`` as are known.

        At least one id is left to compute. None means that no room can be made while others write.
        """
        row = self._own(session, prefix) or self._free() or self._new(need) or self._oldest()
        if row is None or not self._fit(row, need):
            return None
        if row.session != session or row.prefix is not prefix:
            row.ids = []
        del row.ids[_common(row.ids, ids) :]
        self._clock += 1
        row.session, row.prefix, row.need, row.busy, row.used = session, prefix, need, True, self._clock
        return row

    def release(self, row: Row) -> None:
        """The sequence is done: keep its tokens under its session, if it has one."""
        row.busy = False
        row.need = len(row.ids)
        if not row.session:
            row.ids, row.prefix = [], None

    def forget(self, session: str) -> None:
        """Drop what idle rows hold for a session (a busy one drops it when it is released)."""
        for row in self._rows:
            if row.session == session:
                row.session = ""
                if not row.busy:
                    self.release(row)

    def clear(self) -> None:
        """Drop everything."""
        self.store = KeyValues(0, 0)
        self._rows = []

    def _own(self, session: str, prefix: Prefix | None) -> Row | None:
        if not session:
            return None
        own = (row for row in self._rows if row.session == session and not row.busy)
        return next((row for row in own if row.prefix is prefix), None)

    def _free(self) -> Row | None:
        return next((row for row in self._rows if not row.busy and not row.ids), None)

    def _oldest(self) -> Row | None:
        return min((row for row in self._rows if not row.busy), key=lambda row: row.used, default=None)

    def _new(self, need: int) -> Row | None:
        count = len(self._rows) + 1
        if self._rows and count * max(self.store.capacity, _round(need)) > self._limit:
            return None
        row = Row(len(self._rows))
        self._rows.append(row)
        return row

    def _fit(self, row: Row, need: int) -> bool:
        """Make the store wide and tall enough, dropping idle rows if it would grow past the limit."""
        idle = sorted(
            (other for other in self._rows if other is not row and not other.busy), key=lambda r: r.used
        )
        kept = list(self._rows)
        while idle and len(kept) * self._width(kept, row, need) > self._limit:
            kept.remove(idle.pop(0))
        width = self._width(kept, row, need)
        if len(kept) * width > self._limit and len(kept) > 1:
            self._rows = [other for other in self._rows if other is not row or row.index < self.store.rows]
            return False
        if len(kept) < len(self._rows) or width > self.store.capacity or len(kept) > self.store.rows:
            self._reshape(kept, width)
        return True

    def _width(self, kept: Sequence[Row], row: Row, need: int) -> int:
        wanted = _round(max(need, *(other.need for other in kept if other is not row), 0))
        now = self.store.capacity
        roomy = now if wanted <= now else max(wanted, _round(now * 5 // 4))
        return roomy if len(kept) * roomy <= self._limit else wanted

    def _reshape(self, kept: list[Row], width: int) -> None:
        roomy = min(len(kept) * 3 // 2, self._limit // width)
        old = [row.index for row in kept if row.index < self.store.rows]
        # Ids past the width belong to a row that is about to be given to another sequence.
        used = min(max((len(row.ids) for row in kept), default=0), width, self.store.capacity)
        self.store.resize(old, max(len(kept), roomy), width, used)
        for index, row in enumerate(kept):
            row.index = index
        self._rows = kept


def _round(need: int) -> int:
    return -(-need // _STRIDE) * _STRIDE


def _common(kept: Sequence[int], wanted: Sequence[int]) -> int:
    """How many leading ids agree, short of the last one wanted: its logits are needed."""
    limit = min(len(kept), len(wanted) - 1)
    for index in range(limit):
        if kept[index] != wanted[index]:
            return index
    return limit
