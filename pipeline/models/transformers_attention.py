"""Attention over ragged sequences that share a prefix, as a transformers attention function.

The tokens of all sequences stand one after the other in one row of shape ``[1, tokens]``, without
padding, so the linear layers do no wasted work. Keys and values of a sequence's own tokens lie in a
row of ``KeyValues``; those of a shared prefix lie apart, once. Attention over the prefix is computed
for all sequences together and merged with the attention over their own tokens by log-sum-exp:
``softmax`` over two sets of keys is the mean of the two softmaxes weighted by their sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import AttentionInterface

from pipeline.errors import ModelError

ATTENTION = "staract_shared_prefix"
"""The name under which transformers knows ``attention``."""

_FEW = 3
"""Batch the attention of single tokens while at least one row in this many is in use."""


class KeyValues:
    """Keys and values of every layer, one row a sequence: tensors ``[rows, kv_heads, capacity, dim]``.

    Unused places are zero, never uninitialised: a masked NaN would still spoil a sum.
    """

    def __init__(self, rows: int, capacity: int) -> None:
        self.rows = rows
        self.capacity = capacity
        self._layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def layer(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of one layer, as views to read."""
        return self._layers[index]

    def write(
        self, index: int, rows: torch.Tensor, columns: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> None:
        """Store tokens' keys and values ``[tokens, kv_heads, dim]`` at their rows and columns."""
        if index not in self._layers:
            self._layers[index] = (self._empty(key), self._empty(value))
        keys, values = self._layers[index]
        keys[rows, :, columns] = key
        values[rows, :, columns] = value

    def resize(self, kept: Sequence[int], rows: int, capacity: int, used: int) -> None:
        """Keep the first ``used`` columns of the rows ``kept``, in that order, in a new shape."""
        self.rows, self.capacity = rows, capacity
        order = torch.tensor(kept, dtype=torch.long)
        for index, pair in self._layers.items():
            self._layers[index] = (self._moved(pair[0], order, used), self._moved(pair[1], order, used))

    def clear(self, row: int) -> None:
        """Zero a row (its sequence went wrong)."""
        for pair in self._layers.values():
            for tensor in pair:
                tensor[row].zero_()

    def _empty(self, like: torch.Tensor) -> torch.Tensor:
        return like.new_zeros(self.rows, like.shape[1], self.capacity, like.shape[2])

    def _moved(self, old: torch.Tensor, order: torch.Tensor, used: int) -> torch.Tensor:
        new = old.new_zeros(self.rows, old.shape[1], self.capacity, old.shape[3])
        new[: len(order), :, :used] = old[order.to(old.device), :, :used]
        return new


@dataclass(frozen=True)
class Part:
    """The tokens of one sequence in a pass: ``count`` of them, from ``column`` of ``row`` on."""

    row: int
    column: int
    count: int
    prefix: KeyValues | None = None


@dataclass(frozen=True)
class _Span:
    """Flat tokens ``start`` to ``stop`` of one row; they see its first ``length`` columns."""

    row: int
    start: int
    stop: int
    length: int
    mask: torch.Tensor | None


@dataclass(frozen=True)
class _Singles:
    """Rows with one token each, attended together: rows ``low`` to ``high``, ``length`` columns.

    ``tokens`` are their places among the flat tokens, ``rows`` their rows counted from ``low``.
    """

    tokens: slice | torch.Tensor
    rows: slice | torch.Tensor
    low: int
    high: int
    length: int
    mask: torch.Tensor


@dataclass
class Plan:
    """How the flat tokens of one pass belong to rows and prefixes."""

    store: KeyValues
    rows: torch.Tensor
    columns: torch.Tensor
    prefixes: list[tuple[KeyValues, int, int]] = field(default_factory=list)
    spans: list[_Span] = field(default_factory=list)
    singles: _Singles | None = None


def make_plan(store: KeyValues, parts: Sequence[Part], device: torch.device) -> Plan:
    """Lay out one pass. Parts of the same prefix must stand together."""
    rows = [part.row for part in parts for _ in range(part.count)]
    columns = [part.column + step for part in parts for step in range(part.count)]
    plan = Plan(store, torch.tensor(rows, device=device), torch.tensor(columns, device=device))
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + part.count)
    plan.prefixes = _prefix_ranges(parts, starts)
    ones = [index for index, part in enumerate(parts) if part.count == 1]
    used = [parts[index].row for index in ones]
    together = len(ones) > 1 and len(ones) * _FEW >= max(used) + 1 - min(used)
    if together:
        plan.singles = _singles([parts[index] for index in ones], [starts[index] for index in ones], device)
    for part, start in zip(parts, starts, strict=False):
        if part.count > 1 or not together:
            plan.spans.append(_span(part, start, device))
    return plan


def _prefix_ranges(parts: Sequence[Part], starts: Sequence[int]) -> list[tuple[KeyValues, int, int]]:
    ranges: list[tuple[KeyValues, int, int]] = []
    for part, start in zip(parts, starts, strict=False):
        if part.prefix is None:
            continue
        stop = start + part.count
        if ranges and ranges[-1][0] is part.prefix and ranges[-1][2] == start:
            ranges[-1] = (part.prefix, ranges[-1][1], stop)
        else:
            ranges.append((part.prefix, start, stop))
    return ranges


def _singles(parts: Sequence[Part], tokens: Sequence[int], device: torch.device) -> _Singles:
    rows = [part.row for part in parts]
    low, high = min(rows), max(rows) + 1
    lengths = [1] * (high - low)
    for part in parts:
        lengths[part.row - low] = part.column + 1
    length = max(lengths)
    hidden = torch.arange(length, device=device) >= torch.tensor(lengths, device=device)[:, None]
    mask = torch.zeros(hidden.shape, device=device).masked_fill_(hidden, float("-inf"))
    return _Singles(
        _selector(tokens, device),
        _selector([row - low for row in rows], device),
        low,
        high,
        length,
        mask[:, None, None, :],
    )


def _selector(places: Sequence[int], device: torch.device) -> slice | torch.Tensor:
    """An index of these places; a slice where they follow each other, since gathering is slow."""
    first, count = places[0], len(places)
    if list(places) == list(range(first, first + count)):
        return slice(first, first + count)
    return torch.tensor(places, device=device)


def _span(part: Part, start: int, device: torch.device) -> _Span:
    length = part.column + part.count
    mask = None
    if part.count > 1:
        mask = torch.full((part.count, length), float("-inf"), device=device).triu_(part.column + 1)
    return _Span(part.row, start, start + part.count, length, mask)


@dataclass(frozen=True)
class _Layer:
    """One layer's work.

    ``queries`` are ``[kv_heads, group, tokens, dim]``, ``keys`` and ``values`` the store's; ``output``
    ``[tokens, kv_heads, group, dim]`` and ``sums`` (without ``dim``) take what is found.
    """

    queries: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    scale: float
    output: torch.Tensor
    sums: torch.Tensor


def attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    plan: Plan | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function that transformers calls in every layer.

    Args:
        module: the attention layer; its ``layer_idx`` names the place in the store.
        query: ``[1, heads, tokens, dim]``, rotated to absolute positions.
        key: ``[1, kv_heads, tokens, dim]``, as are the values.
        value: see ``key``.
        attention_mask: unused; who sees whom is in the plan.
        scaling: factor of the scores, ``dim ** -0.5`` by default.
        plan: the layout of the pass, handed through the model's forward.
        kwargs: whatever else an architecture passes.

    Returns:
        ``[1, tokens, heads, dim]`` and no weights.

    Raises:
        ModelError: the architecture needs a kind of attention that is not computed here.
    """
    if plan is None or kwargs.get("softcap") is not None or kwargs.get("s_aux") is not None:
        raise ModelError(f"{type(module).__name__} needs an attention that local decoding does not offer")
    index: int = module.layer_idx
    plan.store.write(index, plan.rows, plan.columns, key[0].transpose(0, 1), value[0].transpose(0, 1))
    layer = _layer(query, plan.store.layer(index), scaling)
    if plan.singles is not None:
        _attend_singles(layer, plan.singles)
    for span in plan.spans:
        _attend_span(layer, span)
    for prefix, start, stop in plan.prefixes:
        _merge_prefix(layer, prefix.layer(index), slice(start, stop))
    return layer.output.reshape(1, query.shape[2], -1, layer.output.shape[-1]), None


def _layer(query: torch.Tensor, stored: tuple[torch.Tensor, torch.Tensor], scaling: float | None) -> _Layer:
    keys, values = stored
    tokens, dim = query.shape[2:]
    queries = query[0].reshape(keys.shape[1], -1, tokens, dim)
    output = query.new_empty(tokens, *queries.shape[:2], values.shape[3])
    sums = torch.empty(output.shape[:3], dtype=torch.float32, device=query.device)
    return _Layer(queries, keys, values, dim**-0.5 if scaling is None else scaling, output, sums)


def _attend_singles(layer: _Layer, singles: _Singles) -> None:
    """Single tokens of many rows: the query heads of one key head stand as that head's queries."""
    kv_heads, groups, _, dim = layer.queries.shape
    queries = layer.queries.new_zeros(singles.high - singles.low, kv_heads, groups, dim)
    queries[singles.rows] = layer.queries[:, :, singles.tokens].permute(2, 0, 1, 3)
    window = slice(singles.low, singles.high), slice(None), slice(0, singles.length)
    found, sums = attend(queries, layer.keys[window], layer.values[window], singles.mask, layer.scale)
    layer.output[singles.tokens] = found[singles.rows]
    layer.sums[singles.tokens] = sums[singles.rows]


def _attend_span(layer: _Layer, span: _Span) -> None:
    """Several tokens of one row, each seeing the columns up to its own."""
    tokens = slice(span.start, span.stop)
    queries = layer.queries[:, :, tokens]
    shape = (*queries.shape[:2], span.length, -1)
    keys = layer.keys[span.row, :, None, : span.length].expand(shape)
    values = layer.values[span.row, :, None, : span.length].expand(shape)
    found, sums = attend(queries, keys, values, span.mask, layer.scale)
    layer.output[tokens] = found.permute(2, 0, 1, 3)
    layer.sums[tokens] = sums.permute(2, 0, 1)


def _merge_prefix(layer: _Layer, past: tuple[torch.Tensor, torch.Tensor], tokens: slice) -> None:
    """Add the attention over a shared prefix to tokens' attention over their own rows, in place."""
    queries = layer.queries[:, :, tokens]
    kv_heads, groups, count, dim = queries.shape
    found, sums = attend(queries.reshape(1, kv_heads, groups * count, dim), *past, None, layer.scale)
    found = found.reshape(kv_heads, groups, count, -1).permute(2, 0, 1, 3)
    sums = sums.reshape(kv_heads, groups, count).permute(2, 0, 1)
    output = layer.output[tokens]
    output.lerp_(found, torch.sigmoid(sums - layer.sums[tokens]).unsqueeze(-1).to(output.dtype))


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention and the logarithm of each query's sum of exponentials.

    Args:
        query: ``[batch, heads, queries, dim]``, at least one query.
        key: ``[batch, heads, keys, dim]``, as are the values.
        value: see ``key``.
        mask: added to the scores; anything that broadcasts to ``[batch, heads, queries, keys]``.
        scale: factor of the scores.

    Returns:
        ``[batch, heads, queries, dim]`` and, in float32, ``[batch, heads, queries]``.
    """
    if query.device.type == "cpu":
        wide = mask if mask is None or mask.dim() == 4 else mask[None, None]
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, attn_mask=wide, scale=scale
        )
    return attend_plainly(query, key, value, mask, scale)


def attend_plainly(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """``attend`` in elementary operations, for devices without a kernel that returns the sums."""
    scores = torch.matmul(query, key.transpose(-1, -2)).float() * scale
    if mask is not None:
        scores = scores + mask
    sums = scores.logsumexp(-1)
    shares = (scores - sums.unsqueeze(-1)).exp().to(value.dtype)
    return torch.matmul(shares, value), sums


AttentionInterface.register(ATTENTION, attention)
