import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ModelError
from pipeline.models.transformers_attention import (
    KeyValues,
    Part,
    attend,
    attend_plainly,
    attention,
    make_plan,
)

HEADS, KV, DIM = 6, 2, 8
CPU = torch.device("cpu")
LAYER = SimpleNamespace(layer_idx=0)


def test_two_keys_by_hand():
    query = torch.tensor([[[[1.0, 0.0]]]])
    key = torch.tensor([[[[math.log(3), 0.0], [0.0, 5.0]]]])
    value = torch.tensor([[[[4.0, 0.0], [0.0, 8.0]]]])
    for way in (attend, attend_plainly):
        out, sums = way(query, key, value, None, 1.0)
        assert out.flatten().tolist() == pytest.approx([3.0, 2.0])
        assert sums.item() == pytest.approx(math.log(4))


@pytest.mark.parametrize("mask_shape", [(3, 1, 1, 17), (5, 17)])
def test_the_kernel_and_the_plain_way_agree(mask_shape):
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 5, 8), torch.randn(3, 2, 17, 8), torch.randn(3, 2, 17, 8)
    mask = torch.where(torch.rand(mask_shape) < 0.3, float("-inf"), 0.0)
    mask[..., 0] = 0.0
    for fast, plain in zip(
        attend(query, key, value, mask, 0.4), attend_plainly(query, key, value, mask, 0.4), strict=True
    ):
        torch.testing.assert_close(fast, plain)


def dense(query, keys, values, start):
    """Textbook causal attention of one sequence, in float64; ``start`` keys precede the queries."""
    group = HEADS // KV
    keys, values = keys.repeat_interleave(group, 0).double(), values.repeat_interleave(group, 0).double()
    scores = query.double() @ keys.transpose(-1, -2) / math.sqrt(DIM)
    count, total = scores.shape[-2:]
    for row in range(count):
        scores[:, row, start + row + 1 : total] = float("-inf")
    return (scores.softmax(-1) @ values).float()


parts_drawn = st.lists(
    st.tuples(st.integers(0, 9), st.integers(1, 4), st.sampled_from([0, 1, 2])), min_size=1, max_size=6
)


@settings(max_examples=60, deadline=None)
@given(drawn=parts_drawn, spread=st.integers(1, 4), seed=st.integers(0, 99))
def test_ragged_parts_with_shared_prefixes_equal_dense_attention(drawn, spread, seed):
    make = torch.Generator().manual_seed(seed)
    drawn = sorted(drawn, key=lambda item: item[2])
    store = KeyValues(len(drawn) * spread, 16)
    prefixes = {}
    for name, length in ((1, 5), (2, 11)):
        prefix = KeyValues(1, length)
        shape = (length, KV, DIM)
        prefix.write(
            0,
            torch.zeros(length, dtype=torch.long),
            torch.arange(length),
            torch.randn(shape, generator=make),
            torch.randn(shape, generator=make),
        )
        prefixes[name] = prefix
    parts, expected, flat = [], [], []
    for place, (column, count, name) in enumerate(drawn):
        row = place * spread
        own = [torch.randn(column + count, KV, DIM, generator=make) for _ in range(2)]
        query = torch.randn(HEADS, count, DIM, generator=make)
        if column:
            store.write(0, torch.full((column,), row), torch.arange(column), own[0][:column], own[1][:column])
        past = prefixes[name].layer(0) if name else (torch.zeros(1, KV, 0, DIM),) * 2
        keys, values = (torch.cat([p[0], o.transpose(0, 1)], 1) for p, o in zip(past, own, strict=True))
        expected.append(dense(query, keys, values, keys.shape[1] - count))
        parts.append(Part(row, column, count, prefixes.get(name)))
        flat.append((query, own[0][column:].transpose(0, 1), own[1][column:].transpose(0, 1)))
    query, key, value = (torch.cat([item[i] for item in flat], 1)[None] for i in range(3))
    plan = make_plan(store, parts, CPU)
    out, weights = attention(LAYER, query, key, value, None, scaling=DIM**-0.5, plan=plan)
    assert weights is None
    torch.testing.assert_close(out[0].transpose(0, 1), torch.cat(expected, 1), atol=2e-5, rtol=1e-4)


def test_foreign_attention_is_refused():
    tensor = torch.zeros(1, 2, 1, 8)
    with pytest.raises(ModelError, match="attention"):
        attention(LAYER, tensor, tensor, tensor, None)
    plan = make_plan(KeyValues(1, 4), [Part(0, 0, 1)], CPU)
    with pytest.raises(ModelError, match="does not offer"):
        attention(LAYER, tensor, tensor, tensor, None, plan=plan, softcap=30.0)


def test_resizing_keeps_rows_in_the_new_order_and_zeroes_the_rest():
    store = KeyValues(3, 4)
    rows, columns = torch.tensor([0, 1, 2]), torch.tensor([0, 0, 0])
    content = torch.tensor([1.0, 2.0, 3.0])[:, None, None].expand(3, KV, DIM)
    store.write(0, rows, columns, content, content)
    store.resize([2, 0], rows=4, capacity=6, used=1)
    keys, values = store.layer(0)
    assert keys.shape == values.shape == (4, KV, 6, DIM)
    assert keys[:, 0, 0, 0].tolist() == [3.0, 1.0, 0.0, 0.0]
    assert keys[:, :, 1:].abs().sum() == 0
    store.clear(0)
    assert store.layer(0)[1][0].abs().sum() == 0
