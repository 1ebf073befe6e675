from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.rendering.tokens import IGNORE
from pipeline.training.data import Row
from pipeline.training.packing import PackedCollator, PaddedCollator, build_blocks, pack

lengths = st.lists(st.integers(1, 50), min_size=1, max_size=60)


@given(lengths, st.integers(50, 120), st.integers(0, 5))
def test_every_row_stands_in_one_block_and_no_block_overflows(
    sizes: list[int], capacity: int, seed: int
) -> None:
    blocks = pack(sizes, capacity, seed)
    assert sorted(index for block in blocks for index in block) == list(range(len(sizes)))
    assert all(sum(sizes[index] for index in block) <= capacity for block in blocks)
    assert blocks == pack(sizes, capacity, seed)
    # Two blocks that are both at most half full would have been one.
    assert sum(sum(sizes[index] for index in block) * 2 <= capacity for block in blocks) <= 1


def test_best_fit_fills_the_tightest_block_and_the_seed_decides_the_order() -> None:
    assert sorted(sorted(block) for block in pack([6, 5, 4, 5], 10, 0)) == [[0, 2], [1, 3]]
    many = [10] * 40
    assert pack(many, 20, 0) != pack(many, 20, 1)


def row(name: str, *tokens: int) -> Row:
    return Row(name, list(tokens), list(tokens))


def test_positions_restart_and_first_labels_are_masked() -> None:
    # T10: five tokens of A and four of B in one sequence.
    blocks = build_blocks([row("a", 1, 2, 3, 4, 5), row("b", 6, 7, 8, 9)], 9, 0, packing=True)
    assert len(blocks) == 1
    batch = PackedCollator(documents=True)(blocks)
    first = blocks[0]["lengths"][0]
    expected = [0, 1, 2, 3, 4, 0, 1, 2, 3] if first == 5 else [0, 1, 2, 3, 0, 1, 2, 3, 4]
    assert batch["position_ids"].tolist() == [expected]
    assert batch["document_lengths"] == tuple(blocks[0]["lengths"])
    assert batch["labels"][0, [0, first]].tolist() == [IGNORE, IGNORE]
    assert (batch["labels"] == IGNORE).sum() == 2
    assert "attention_mask" not in batch
    assert "document_lengths" not in PackedCollator(documents=False)(blocks)


def test_blocks_of_a_batch_lie_end_to_end() -> None:
    blocks = build_blocks([row("a", 1, 2), row("b", 3, 4, 5)], 3, 0, packing=True)
    batch = PackedCollator(documents=True)(blocks)
    assert batch["input_ids"].shape == (1, 5)
    assert sorted(batch["document_lengths"]) == [2, 3]


@pytest.mark.parametrize("pad", [0, 9])
def test_padding_is_masked_by_length_even_where_pad_is_the_stop(pad: int) -> None:
    # T03: 9 is both the end of text and the padding.
    blocks = build_blocks([row("a", 1, 2, 3, 9), row("b", 4, 9)], 16, 0, packing=False)
    batch = PaddedCollator(pad)(blocks)
    assert batch["labels"].tolist() == [[IGNORE, 2, 3, 9], [IGNORE, 9, IGNORE, IGNORE]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert batch["input_ids"][1].tolist() == [4, 9, pad, pad]
    assert batch["input_ids"].dtype == torch.int64
