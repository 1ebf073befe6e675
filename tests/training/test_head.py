from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from transformers import CohereConfig, CohereForCausalLM

from pipeline.recipe.models import LoraRecipe
from pipeline.rendering.tokens import IGNORE
from pipeline.training.causal import with_adapter
from pipeline.training.head import add_label_head, can_skip, label_loss
from tests.training.making import make_model

IDS = torch.tensor([[5, 6, 7, 8, 9, 10], [11, 12, 13, 14, 15, 16]])
LABELS = torch.tensor([[IGNORE, IGNORE, 7, 8, IGNORE, 10], [IGNORE, 12, IGNORE, IGNORE, 15, 16]])


def gradients(model: Any) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("adapter", [False, True])
def test_loss_and_gradients_equal_the_models_own(adapter: bool) -> None:
    base = make_model(60)
    plain = with_adapter(base, LoraRecipe(rank=4)) if adapter else base
    if adapter:
        for name, weight in plain.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, std=0.1)
    ours = copy.deepcopy(plain)
    add_label_head(ours)
    expected = plain(input_ids=IDS, labels=LABELS).loss
    found = ours(input_ids=IDS, labels=LABELS, label_only=True, use_cache=False).loss / 6
    torch.testing.assert_close(found, expected)
    expected.backward()
    found.backward()
    wanted = gradients(plain)
    assert len(wanted) > 4
    for name, gradient in gradients(ours).items():
        torch.testing.assert_close(gradient, wanted[name], atol=1e-6, rtol=1e-4)
    assert gradients(ours).keys() == wanted.keys()


def test_other_calls_are_unchanged() -> None:
    plain, ours = make_model(60), make_model(60)
    add_label_head(ours)
    one, two = plain(input_ids=IDS, labels=LABELS), ours(input_ids=IDS, labels=LABELS)
    assert torch.equal(one.logits, two.logits)
    assert torch.equal(one.loss, two.loss)
    assert torch.equal(ours.generate(IDS[:1], max_new_tokens=3), plain.generate(IDS[:1], max_new_tokens=3))


def test_chunks_change_nothing_but_memory() -> None:
    head = torch.nn.Linear(8, 30, bias=False)
    hidden = torch.randn(2, 6, 8, requires_grad=True)
    labels = LABELS.clamp(max=29)
    whole = label_loss(head, hidden, labels)
    [one] = torch.autograd.grad(whole, hidden)
    parts = label_loss(head, hidden, labels, at_once=60)
    [two] = torch.autograd.grad(parts, hidden)
    torch.testing.assert_close(parts, whole)
    torch.testing.assert_close(two, one)


def test_a_batch_without_labels_is_a_zero_that_reaches_every_weight() -> None:
    model = make_model(60)
    add_label_head(model)
    loss = model(input_ids=IDS, labels=torch.full_like(IDS, IGNORE), label_only=True).loss
    loss.backward()
    assert loss.item() == 0
    assert all(weight.grad is not None and not weight.grad.any() for weight in model.parameters())


def test_models_that_scale_their_logits_keep_their_own_loss() -> None:
    assert can_skip(make_model(60))
    assert can_skip(with_adapter(make_model(60), LoraRecipe(rank=2)))
    config = CohereConfig(
        vocab_size=60,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        logit_scale=0.1,
    )
    assert not can_skip(CohereForCausalLM(config))
