"""Packing whole rows into blocks, and blocks into batches without padding."""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Any

import torch

from pipeline.rendering.tokens import IGNORE
from pipeline.training.data import Row

Block = dict[str, list[int]]
"""``input_ids`` and ``labels`` of one or more whole rows, and the rows' ``lengths``."""


def pack(lengths: Sequence[int], capacity: int, seed: int) -> list[list[int]]:
    """Which rows go into which block: best-fit decreasing, in an order drawn by the seed.

    Args:
        lengths: tokens of each row, none above ``capacity``.
        capacity: tokens that a block may hold.
        seed: decides among rows of equal length, and the order of the blocks.

    Returns:
        Row numbers by block; every row stands in exactly one.
    """
    chance = random.Random(seed)
    order = list(range(len(lengths)))
    chance.shuffle(order)
    order.sort(key=lambda index: -lengths[index])
    blocks: list[list[int]] = []
    spaces: list[tuple[int, int]] = []
    for index in order:
        at = bisect_left(spaces, (lengths[index], -1))
        left, block = spaces.pop(at) if at < len(spaces) else (capacity, len(blocks))
        if block == len(blocks):
            blocks.append([])
        blocks[block].append(index)
        insort(spaces, (left - lengths[index], block))
    for block in blocks:
        chance.shuffle(block)
    chance.shuffle(blocks)
    return blocks


def build_blocks(rows: Sequence[Row], capacity: int, seed: int, *, packing: bool) -> list[Block]:
    """Blocks of whole rows: as many as fit, or one a block when ``packing`` is off."""
    if packing:
        groups = pack([len(row.ids) for row in rows], capacity, seed)
    else:
        groups = [[index] for index in range(len(rows))]
    return [_block([rows[index] for index in group]) for group in groups]


def _block(rows: Sequence[Row]) -> Block:
    return {
        "input_ids": [token for row in rows for token in row.ids],
        # Nothing predicts a row's first token: the token before it belongs to another row.
        "labels": [label for row in rows for label in [IGNORE, *row.labels[1:]]],
        "lengths": [len(row.ids) for row in rows],
    }


class PackedCollator:
    """Lays the blocks of a batch end to end: one sequence, no padding, no attention mask.

    Positions restart with each row. ``document_lengths`` is added where the model's attention asks
    for it; elsewhere transformers finds the documents by the positions.
    """

    def __init__(self, *, documents: bool) -> None:
        self._documents = documents

    def __call__(self, blocks: Sequence[Block]) -> dict[str, Any]:
        """A batch: ``input_ids``, ``labels`` and ``position_ids``, each of shape (1, tokens)."""
        lengths = [length for block in blocks for length in block["lengths"]]
        batch: dict[str, Any] = {
            "input_ids": torch.tensor([[token for block in blocks for token in block["input_ids"]]]),
            "labels": torch.tensor([[label for block in blocks for label in block["labels"]]]),
            "position_ids": torch.cat([torch.arange(length) for length in lengths])[None],
        }
        if self._documents:
            batch["document_lengths"] = tuple(lengths)
        return batch


class PaddedCollator:
    """One row a line, padded on the right; padding is masked by length, so pad may equal eos."""

    def __init__(self, pad_id: int) -> None:
        self._pad_id = pad_id

    def __call__(self, blocks: Sequence[Block]) -> dict[str, torch.Tensor]:
        """A batch: ``input_ids``, ``labels`` and ``attention_mask``, each of shape (rows, longest)."""
        width = max(len(block["input_ids"]) for block in blocks)

        def padded(lists: Sequence[list[int]], fill: int) -> torch.Tensor:
            return torch.tensor([values + [fill] * (width - len(values)) for values in lists])

        return {
            "input_ids": padded([block["input_ids"] for block in blocks], self._pad_id),
            "labels": padded([block["labels"] for block in blocks], IGNORE),
            "attention_mask": padded([[1] * len(block["input_ids"]) for block in blocks], 0),
        }
