"""Continuous batching: sequences join and leave a running batch, one pass at a time."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from pipeline.errors import ModelError
from pipeline.models.base import Completion, Sampling
from pipeline.models.transformers_attention import KeyValues, Part, make_plan
from pipeline.models.transformers_rows import Prefix, PrefixCache, Row, Rows
from pipeline.models.transformers_sampling import choose
from pipeline.models.transformers_text import TextStream
from pipeline.trajectories.schema import StopReason, Usage

_WORTHWHILE = 32
"""A shorter shared prefix is left in each sequence: merging would cost more than it saves."""

Result = Completion | Exception


@dataclass(eq=False)
class Job:
    """One request on its way: the ids to continue, and what is to be done with the answer.

    ``deliver`` is called once, in the decoding thread. ``cancelled`` is asked before every pass.
    """

    ids: list[int]
    shared: int
    budget: int
    sampling: Sampling
    seed: int
    session: str
    text: TextStream
    deliver: Callable[[Result], None]
    cancelled: Callable[[], bool] = lambda: False
    began: float = field(default_factory=time.perf_counter)


@dataclass(eq=False)
class _Active:
    """A job with a row. ``waiting`` are ids whose keys and values are still to be computed."""

    job: Job
    row: Row
    prefix: Prefix | None
    waiting: list[int]
    dice: random.Random
    cached: int
    written: int = 0


class Decoder:
    """Runs jobs on a causal model. Used by one thread only, under ``torch.inference_mode``.

    Args:
        model: a transformers causal model whose attention is ``transformers_attention.attention``.
        stops: ids that end a text.
        batch_size: sequences in a pass.
        limit: tokens (rows × columns) of keys and values that may be held.
        chunk: tokens in a pass; a longer prompt takes several.
    """

    def __init__(
        self, model: Any, stops: frozenset[int], *, batch_size: int, limit: int = 32768, chunk: int = 1024
    ) -> None:
        self._model = model
        self._device: torch.device = model.device
        self._stops = stops
        self._batch_size = batch_size
        self._chunk = max(chunk, batch_size)
        self._rows = Rows(limit)
        self._prefixes = PrefixCache(limit)
        self._queue: deque[Job] = deque()
        self._active: list[_Active] = []

    @property
    def idle(self) -> bool:
        """Nothing is waiting or under way."""
        return not self._queue and not self._active

    def add(self, job: Job) -> None:
        """Queue a job."""
        self._queue.append(job)

    def forget(self, session: str) -> None:
        """Drop what is kept for a session."""
        self._rows.forget(session)

    def fail(self, error: Exception) -> None:
        """Answer every job with an error and drop all that is kept: its state is unknown."""
        jobs = [*(active.job for active in self._active), *self._queue]
        self._active, self._queue = [], deque()
        self._rows.clear()
        for job in jobs:
            job.deliver(error)

    def step(self) -> None:
        """One pass: let jobs in, compute their waiting tokens, choose a token for those up to date."""
        self._leave_cancelled()
        self._admit()
        taken = self._take()
        if not taken:
            return
        logits = self._forward([active for active, _ in taken], [ids for _, ids in taken])
        ready = [active for active, _ in taken if not active.waiting]
        if ready:
            self._continue(ready, logits)

    def _leave_cancelled(self) -> None:
        self._queue = deque(job for job in self._queue if not job.cancelled())
        for active in [active for active in self._active if active.job.cancelled()]:
            self._leave(active)

    def _admit(self) -> None:
        while self._queue and len(self._active) < self._batch_size:
            active = self._seat(self._queue[0])
            if active is None:
                return
            self._queue.popleft()
            self._active.append(active)

    def _seat(self, job: Job) -> _Active | None:
        prefix, new = None, False
        shared = min(job.shared, len(job.ids) - 1)
        if shared >= _WORTHWHILE:
            prefix, new = self._prefixes.get(job.ids[:shared], self._compute_prefix)
        start = len(prefix.ids) if prefix else 0
        own = job.ids[start:]
        row = self._rows.acquire(job.session, prefix, own, len(own) + job.budget)
        if row is None:
            return None
        cached = len(row.ids) + (0 if new else start)
        return _Active(job, row, prefix, own[len(row.ids) :], random.Random(job.seed), cached)

    def _compute_prefix(self, ids: Sequence[int]) -> KeyValues:
        values = KeyValues(1, len(ids))
        for start in range(0, len(ids), self._chunk):
            piece = list(ids[start : start + self._chunk])
            positions = range(start, start + len(piece))
            self._run(values, [Part(0, start, len(piece))], piece, positions, [])
        return values

    def _take(self) -> list[tuple[_Active, list[int]]]:
        """The tokens of the next pass: one of every writer first, then prompts as far as they fit."""
        room = self._chunk
        taken: list[tuple[_Active, list[int]]] = []
        for active in sorted(self._active, key=lambda active: len(active.waiting) > 1):
            ids, active.waiting = active.waiting[:room], active.waiting[room:]
            room -= len(ids)
            if ids:
                taken.append((active, ids))
        # Sequences of one prefix must stand together for its attention to be computed at once; rows in
        # their order in the store need no gathering.
        return sorted(taken, key=lambda pair: (id(pair[0].prefix), pair[0].row.index))

    def _forward(self, actives: Sequence[_Active], pieces: Sequence[list[int]]) -> torch.Tensor:
        """Run the pieces; the logits ``[ready, vocabulary]`` of those that are up to date."""
        parts: list[Part] = []
        positions: list[int] = []
        wanted: list[int] = []
        for active, ids in zip(actives, pieces, strict=True):
            column = len(active.row.ids)
            start = column + (len(active.prefix.ids) if active.prefix else 0)
            parts.append(Part(active.row.index, column, len(ids), active.prefix and active.prefix.values))
            positions.extend(range(start, start + len(ids)))
            if not active.waiting:
                wanted.append(len(positions) - 1)
            active.row.ids.extend(ids)
        flat = [token for ids in pieces for token in ids]
        return self._run(self._rows.store, parts, flat, positions, wanted)

    def _run(
        self,
        store: KeyValues,
        parts: Sequence[Part],
        ids: list[int],
        positions: Sequence[int],
        wanted: list[int],
    ) -> torch.Tensor:
        device = self._device
        output = self._model(
            input_ids=torch.tensor([ids], device=device),
            position_ids=torch.tensor([list(positions)], device=device),
            use_cache=False,
            logits_to_keep=torch.tensor(wanted, dtype=torch.long, device=device),
            plan=make_plan(store, parts, device),
        )
        return output.logits[0]

    def _continue(self, ready: Sequence[_Active], logits: torch.Tensor) -> None:
        sound = torch.isfinite(logits.amax(-1)).tolist()
        settings = [active.job.sampling for active in ready]
        tokens = choose(logits, settings, [active.dice for active in ready])
        for active, token, good in zip(ready, tokens, sound, strict=True):
            if not good:
                self._break(active)
            else:
                self._accept(active, token)

    def _accept(self, active: _Active, token: int) -> None:
        job = active.job
        active.written += 1
        if token in self._stops or job.text.push(token):
            self._finish(active, "stop")
        elif active.written >= job.budget:
            self._finish(active, "length")
        else:
            active.waiting = [token]

    def _finish(self, active: _Active, reason: StopReason) -> None:
        self._leave(active)
        job = active.job
        usage = Usage(
            prompt_tokens=len(job.ids),
            completion_tokens=active.written,
            cached_tokens=active.cached,
            calls=1,
            seconds=time.perf_counter() - job.began,
        )
        job.deliver(Completion(job.text.finish(), reason, usage))

    def _break(self, active: _Active) -> None:
        self._rows.store.clear(active.row.index)
        active.row.ids = []
        self._leave(active)
        active.job.deliver(
            ModelError("the model computed no finite number; its weights or its precision are unfit")
        )

    def _leave(self, active: _Active) -> None:
        self._active.remove(active)
        self._rows.release(active.row)
