"""Whether a merged model writes what its adapter and base do: their logits, position by position."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

Ids = Sequence[int]

TOLERANCE: Final = {torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 4e-2}
"""The largest difference of a logit that is put down to rounding, as a share of the largest logit.

In float32 only the order of additions differs; in two bytes every weight is rounded once."""
LOST: Final = 0.5
"""The share of the adapter's effect from which rounding has spoilt it."""


@dataclass(frozen=True)
class Agreement:
    """Two models compared on the same rows.

    ``difference`` is the largest absolute difference of a logit, ``tolerance`` what it may be.
    ``lost`` is how far the merged model is from adapter and base, as a share of how far these are from the
    base alone (both as root mean squares): 0 where they agree, about 1 where the adapter is not in it.
    ``same`` counts the positions where both choose the same token; ``flipped`` those where they do not
    although the choice was clear, by more than the tolerance.
    """

    rows: int
    positions: int
    difference: float
    tolerance: float
    effect: float
    lost: float
    same: int
    flipped: int

    @property
    def holds(self) -> bool:
        """Whether the merged model may stand for adapter and base."""
        # A difference that is not a number is no agreement.
        return self.difference <= self.tolerance and self.lost < LOST and not self.flipped

    def __str__(self) -> str:
        """One line for people."""
        return (
            f"{self.rows} rows, {self.positions} positions: logits differ by at most {self.difference:.2g} "
            f"(allowed: {self.tolerance:.2g}), {self.lost:.1%} of the adapter's effect; "
            f"the same token is best at {self.same} of {self.positions}"
        )


def row_logits(model: Any, rows: Iterable[Ids]) -> list[torch.Tensor]:
    """The logits of each row, positions × vocabulary, in float32 on the processor."""
    with torch.inference_mode():
        return [
            model(input_ids=torch.tensor([list(ids)], device=model.device)).logits[0].float().cpu()
            for ids in rows
        ]


def compare(
    adapted: Sequence[torch.Tensor],
    base: Sequence[torch.Tensor],
    merged: Sequence[torch.Tensor],
    dtype: torch.dtype,
) -> Agreement:
    """Compare the logits of three models on the same rows.

    Args:
        adapted: of the base with its adapter beside it.
        base: of the base alone.
        merged: of the merged model, read back from disk.
        dtype: what the merged weights are written in.
    """
    tolerance = TOLERANCE[dtype] * max(_largest(logits) for logits in adapted)
    pairs = list(zip(adapted, merged, strict=True))
    best = [_best(right, own, tolerance) for right, own in pairs]
    effect = _distance(adapted, base)
    return Agreement(
        rows=len(pairs),
        positions=sum(len(logits) for logits in adapted),
        difference=max(_largest(right - own) for right, own in pairs),
        tolerance=tolerance,
        effect=effect,
        lost=_distance(adapted, merged) / effect if effect else math.inf,
        same=sum(same for same, _ in best),
        flipped=sum(flipped for _, flipped in best),
    )


def _largest(values: torch.Tensor) -> float:
    largest = float(values.abs().max())
    return math.inf if math.isnan(largest) else largest


def _distance(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> float:
    """The root mean square of the differences."""
    squares = [float((a - b).double().square().sum()) for a, b in zip(one, other, strict=True)]
    return math.sqrt(sum(squares) / sum(a.numel() for a in one))


def _best(right: torch.Tensor, own: torch.Tensor, tolerance: float) -> tuple[int, int]:
    """At how many positions the best token is the same, and is another although the choice was clear."""
    first, second = right.topk(2).values.unbind(-1)
    same = right.argmax(-1) == own.argmax(-1)
    return int(same.sum()), int((~same & (first - second > tolerance)).sum())
