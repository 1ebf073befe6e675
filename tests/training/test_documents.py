from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from pipeline.errors import TrainingError
from pipeline.training.data import Row
from pipeline.training.documents import NAME, separate_documents
from pipeline.training.packing import PackedCollator, build_blocks
from tests.training.making import make_model

SMALL: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def llama() -> Any:
    return make_model(60)


def windowed() -> Any:
    torch.manual_seed(0)
    config = Qwen2Config(**SMALL, use_sliding_window=True, sliding_window=4, max_window_layers=1)
    return Qwen2ForCausalLM(config).eval()


def capped() -> Any:
    torch.manual_seed(0)
    config = Gemma2Config(**SMALL, head_dim=8, sliding_window=4, attn_implementation="eager")
    return Gemma2ForCausalLM(config).eval()


def packed_logits(model: Any, documents: bool, rows: list[list[int]]) -> list[torch.Tensor]:
    blocks = build_blocks([Row(str(n), ids, ids) for n, ids in enumerate(rows)], 64, 0, packing=False)
    batch = PackedCollator(documents=documents)(blocks)
    del batch["labels"]
    with torch.no_grad():
        logits = model(**batch, use_cache=False).logits[0]
    return list(logits.split([len(ids) for ids in rows]))


@pytest.mark.parametrize("make", [llama, windowed, capped])
def test_packed_logits_equal_separate_ones(make: Any) -> None:
    rows = [[5, 6, 7, 8, 9, 10, 11], [12, 13, 14], [15, 16, 17, 18, 19, 20]]
    plain = make()
    with torch.no_grad():
        alone = [plain(input_ids=torch.tensor([ids]), use_cache=False).logits[0] for ids in rows]
    model = make()
    together = packed_logits(model, separate_documents(model), rows)
    for one, two in zip(alone, together, strict=True):
        torch.testing.assert_close(one, two, atol=1e-5, rtol=0)


@pytest.mark.parametrize("make", [llama, windowed])
def test_changing_one_document_leaves_the_other_as_it_was(make: Any) -> None:
    model = make()
    documents = separate_documents(model)
    before = packed_logits(model, documents, [[5, 6, 7, 8], [12, 13, 14]])
    after = packed_logits(model, documents, [[5, 6, 20, 21], [12, 13, 14]])
    assert torch.equal(before[1], after[1])
    assert not torch.equal(before[0], after[0])


def test_plain_causal_models_get_our_attention_and_others_keep_theirs() -> None:
    model = llama()
    assert separate_documents(model)
    assert model.config._attn_implementation == NAME
    other = windowed()
    assert not separate_documents(other)
    assert other.config._attn_implementation == "sdpa"


def test_calls_that_are_not_packed_are_unchanged() -> None:
    ids = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    plain, model = llama(), llama()
    separate_documents(model)
    with torch.no_grad():
        expected = plain(input_ids=ids, attention_mask=mask, use_cache=False).logits[mask.bool()]
        found = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[mask.bool()]
    torch.testing.assert_close(found, expected)
    assert torch.equal(model.generate(ids[:1], max_new_tokens=4), plain.generate(ids[:1], max_new_tokens=4))


def test_a_model_that_would_mix_documents_is_refused() -> None:
    config = MambaConfig(vocab_size=60, hidden_size=16, num_hidden_layers=1, state_size=4)
    with pytest.raises(TrainingError, match=r"train\.packing=false"):
        separate_documents(MambaForCausalLM(config))
