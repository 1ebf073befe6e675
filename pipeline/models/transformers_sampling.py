"""Choosing the next tokens of a batch, each sequence by its own settings and its own dice."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from pipeline.models.base import Sampling

_HEAD = 256
"""Candidates sorted first: the nucleus nearly always lies among them, and sorting all is slow."""


def choose(logits: torch.Tensor, sampling: Sequence[Sampling], dice: Sequence[random.Random]) -> list[int]:
    """The next token of each row.

    Temperature 0 takes the likeliest token. Otherwise one number is drawn from the sequence's own
    generator and looked up in its cumulated probabilities, so what else is in the batch never matters.

    Args:
        logits: ``[rows, vocabulary]``.
        sampling: one a row.
        dice: one a row, seeded by the request.
    """
    logits = logits.float()
    tokens: list[int] = logits.argmax(-1).tolist()
    for row, (settings, die) in enumerate(zip(sampling, dice, strict=True)):
        if settings.temperature > 0:
            tokens[row] = _draw(logits[row], settings, die.random())
    return tokens


def _draw(logits: torch.Tensor, settings: Sampling, point: float) -> int:
    probabilities = torch.softmax(logits / settings.temperature, -1)
    if settings.top_p >= 1:
        return _lookup(probabilities, point)
    shares, order = probabilities.topk(min(_HEAD, len(probabilities)))
    if float(shares.sum()) < settings.top_p:
        shares, order = probabilities.sort(descending=True)
    size = int((shares.cumsum(-1, dtype=torch.float64) < settings.top_p).sum()) + 1
    return int(order[_lookup(shares[:size], point)])


def _lookup(shares: torch.Tensor, point: float) -> int:
    sums = shares.cumsum(-1, dtype=torch.float64)
    place = int(torch.searchsorted(sums, float(sums[-1]) * point, right=True))
    return min(place, len(shares) - 1)
