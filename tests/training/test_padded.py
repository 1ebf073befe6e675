"""What a recipe may change for speed or memory alone: the losses are the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaMLP

from pipeline.models.transformers_load import load_causal
from tests.training.test_causal import Place, record_order

KEYS = ("loss", "grad_norm")


def losses(place: Place) -> list[float]:
    return [entry[key] for entry in place.log() for key in KEYS]


@pytest.mark.parametrize("train", ["packing: true", "packing: false\nlora: {rank: 2, dropout: 0.1}"])
def test_activations_computed_twice_change_nothing(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, train: str
) -> None:
    ran: list[int] = []
    forward = LlamaMLP.forward

    def count(self: Any, *arguments: Any) -> Any:
        ran[-1] += self.training
        return forward(self, *arguments)

    monkeypatch.setattr(LlamaMLP, "forward", count)
    places = [Place(tmp_path / name, base, train="max_steps: 2\n" + train, count=4) for name in ("a", "b")]
    for place, twice in zip(places, ("false", "true"), strict=True):
        ran.append(0)
        assert place.train(f"train.activation_checkpointing={twice}") == 0
    assert ran[1] == 2 * ran[0], "each layer ran again in the backward pass"
    assert losses(places[1]) == pytest.approx(losses(places[0]), rel=1e-6)
    student = load_causal(str(places[1].checkpoints / "react"), torch.float32, "cpu")[0]
    assert student.config.use_cache
    # It makes no other student: the key may change on the way.
    assert places[0].train("train.activation_checkpointing=true") == 0


def test_padded_batches_hold_rows_of_like_length(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = "batch_size: 2\nepochs: 2\npacking: false"
    place = Place(tmp_path, base, train=train, count=12)
    seen = record_order(monkeypatch)
    assert place.train() == 0
    assert len(seen) == 12
    widths = [len(batch) // 2 for batch in seen]
    tokens = json.loads((place.checkpoints / "react" / "train.json").read_text())["data"]["tokens"]
    assert 2 * tokens / sum(2 * width for width in widths) > 0.95, (
        "rows of three lengths, almost nothing padded"
    )
    assert widths[:6] != sorted(widths[:6], reverse=True), "and yet not from the longest to the shortest"
    assert seen[:6] != seen[6:]
