"""How sure a number is: intervals of a mean and of a paired difference, and the exact McNemar test.

Everything is seeded: the same values give the same interval. scipy is imported when first needed.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

_BATCH_VALUES = 2_000_000
"""Resampled numbers held at once: bounds memory whatever the panel's size."""

IntervalMethod = Literal["bca", "percentile", "clopper-pearson", "stratified"]


@dataclass(frozen=True)
class Interval:
    """A two-sided confidence interval, and how it was computed."""

    low: float
    high: float
    method: IntervalMethod


def mean_interval(
    values: Sequence[float], *, confidence: float = 0.95, resamples: int = 9999, seed: int = 0
) -> Interval:
    """The interval of a mean of values between 0 and 1.

    BCa bootstrap (Efron 1987). Where every value is the same a bootstrap sees no spread, so the
    bound on unseen values comes from the exact binomial (Clopper-Pearson) instead; for all 0 or
    all 1 that is the usual Clopper-Pearson interval of a proportion.

    Raises:
        ValueError: no values, or one outside [0, 1].
    """
    return _interval(values, (0.0, 1.0), confidence, resamples, seed)


def difference_interval(
    a: Sequence[float], b: Sequence[float], *, confidence: float = 0.95, resamples: int = 9999, seed: int = 0
) -> Interval:
    """The interval of mean(a) - mean(b), where a[i] and b[i] are scores of the same task.

    Tasks are resampled, so what makes a task hard for both cancels out. Values lie between 0 and 1.
    Constant differences are treated as in ``mean_interval``.

    Raises:
        ValueError: no values, unequal lengths, or a difference outside [-1, 1].
    """
    if len(a) != len(b):
        raise ValueError(f"paired scores need equal lengths, not {len(a)} and {len(b)}")
    differences = [float(x) - float(y) for x, y in zip(a, b, strict=True)]
    return _interval(differences, (-1.0, 1.0), confidence, resamples, seed)


def stratified_interval(
    strata: Sequence[Sequence[float]], *, confidence: float = 0.95, resamples: int = 9999, seed: int = 0
) -> Interval:
    """The interval of a mean of strata's means (kinds of task, whatever their sizes), of values in [0, 1].

    A percentile bootstrap that resamples within each stratum, and draws one value fewer than it holds:
    so the variance of its mean is right for small strata too (Rao and Wu 1988). A stratum of one value
    shows no spread; where there is one, the strata's means are resampled themselves, as in
    ``mean_interval``. Where every value is the same that function's exact bound is used.

    Raises:
        ValueError: no strata, an empty one, or a value outside [0, 1].
    """
    import numpy as np

    if not strata or not all(strata):
        raise ValueError("an interval needs at least one value in every stratum")
    values = [value for stratum in strata for value in stratum]
    settings: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
    if max(values) - min(values) < 1e-12 or not all(0.0 <= value <= 1.0 for value in values):
        return mean_interval(values, **settings)
    if min(map(len, strata)) == 1:
        return mean_interval([sum(stratum) / len(stratum) for stratum in strata], **settings)
    rng = np.random.default_rng(seed)
    means = np.zeros(resamples)
    for stratum in strata:
        known = np.asarray(stratum, dtype=float)
        drawn = rng.integers(len(known), size=(resamples, len(known) - 1))
        means += known[drawn].mean(axis=1) / len(strata)
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return Interval(float(low), float(high), "stratified")


def mcnemar(a: Sequence[bool], b: Sequence[bool]) -> float:
    """The two-sided p value of the exact McNemar test on paired right/wrong verdicts.

    Only tasks on which the two differ count; each is a fair coin if neither is better.

    Raises:
        ValueError: the lengths differ.
    """
    from scipy.stats import binomtest

    if len(a) != len(b):
        raise ValueError(f"paired verdicts need equal lengths, not {len(a)} and {len(b)}")
    only_a = sum(x and not y for x, y in zip(a, b, strict=True))
    only_b = sum(y and not x for x, y in zip(a, b, strict=True))
    if only_a + only_b == 0:
        return 1.0
    return float(binomtest(only_a, only_a + only_b, 0.5).pvalue)


def _interval(
    values: Sequence[float], bounds: tuple[float, float], confidence: float, resamples: int, seed: int
) -> Interval:
    if not values:
        raise ValueError("an interval needs at least one value")
    if not all(bounds[0] <= value <= bounds[1] for value in values):
        raise ValueError(f"every value must lie in [{bounds[0]:g}, {bounds[1]:g}]")
    if max(values) - min(values) < 1e-12:
        return _constant_interval(values[0], len(values), bounds, confidence)
    return _bootstrap_interval(values, confidence, resamples, seed)


def _constant_interval(value: float, n: int, bounds: tuple[float, float], confidence: float) -> Interval:
    """All ``n`` values are the same: bound the share of tasks that would have given another."""
    unseen = 1.0 - ((1.0 - confidence) / 2.0) ** (1.0 / n)
    low, high = bounds
    return Interval(value - unseen * (value - low), value + unseen * (high - value), "clopper-pearson")


def _bootstrap_interval(values: Sequence[float], confidence: float, resamples: int, seed: int) -> Interval:
    result = _bootstrap(values, "BCa", confidence, resamples, seed)
    method: IntervalMethod = "bca"
    if not all(math.isfinite(bound) for bound in result):
        # BCa's correction is infinite when no resample falls on one side of the observed mean.
        result, method = _bootstrap(values, "percentile", confidence, resamples, seed), "percentile"
    return Interval(*result, method)


def _bootstrap(
    values: Sequence[float], method: str, confidence: float, resamples: int, seed: int
) -> tuple[float, float]:
    import numpy as np
    from scipy.stats import bootstrap

    options: dict[str, Any] = {
        "n_resamples": resamples,
        "batch": max(1, _BATCH_VALUES // len(values)),
        "confidence_level": confidence,
        "method": method,
        "rng": np.random.default_rng(seed),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a degenerate BCa warns; the caller sees the NaN itself
        interval = bootstrap((np.asarray(values, dtype=float),), np.mean, **options).confidence_interval
    return float(interval.low), float(interval.high)
