"""Intervals and the exact test, against independent computations and their own laws."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.evaluation.statistics import (
    difference_interval,
    mcnemar,
    mean_interval,
    stratified_interval,
)

PROPORTIONS = st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=40)
VERDICTS = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60)


def bca_by_hand(values, confidence, resamples, seed):
    """Efron's BCa from its definition: bias z0, acceleration from the jackknife."""
    x = np.asarray(values)
    n, normal = len(x), NormalDist()
    draws = np.random.RandomState(seed).randint(0, n, size=(resamples, n))
    means = np.sort(x[draws].mean(axis=1))
    below = ((means < x.mean() - 1e-12).sum() + (means < x.mean() + 1e-12).sum()) / 2
    z0 = normal.inv_cdf(below / resamples)
    jack = (x.sum() - x) / (n - 1)
    spread = jack.mean() - jack
    acceleration = (spread**3).sum() / (6 * (spread**2).sum() ** 1.5)

    def bound(tail):
        z = z0 + normal.inv_cdf(tail)
        return np.quantile(means, normal.cdf(z0 + z / (1 - acceleration * z)))

    tail = (1 - confidence) / 2
    return bound(tail), bound(1 - tail)


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_bca_agrees_with_the_definition(confidence):
    skewed = np.random.RandomState(5).beta(0.5, 2.0, size=80).tolist()
    low, high = bca_by_hand(skewed, confidence, 40_000, seed=11)
    interval = mean_interval(skewed, confidence=confidence, resamples=20_000)
    assert interval.method == "bca"
    assert interval.low == pytest.approx(low, abs=0.004)
    assert interval.high == pytest.approx(high, abs=0.004)


def test_bca_of_a_proportion_agrees_with_the_definition():
    values = [1.0] * 13 + [0.0] * 35
    low, high = bca_by_hand(values, 0.95, 40_000, seed=3)
    interval = mean_interval(values)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1.01 / 48)


def test_coverage_is_near_the_nominal_level():
    random = np.random.RandomState(1)
    truth, repeats = 0.3, 250
    hits = 0
    for repeat in range(repeats):
        sample = (random.random_sample(50) < truth).astype(float).tolist()
        interval = mean_interval(sample, resamples=499, seed=repeat)
        hits += interval.low <= truth <= interval.high
    assert 0.90 <= hits / repeats <= 0.985


def test_paired_coverage_is_near_the_nominal_level():
    random = np.random.RandomState(2)
    repeats, hits = 250, 0
    for repeat in range(repeats):
        shared = random.random_sample(60) < 0.3  # tasks that are easy for both
        a = (shared | (random.random_sample(60) < 0.4)).astype(float).tolist()
        b = (shared | (random.random_sample(60) < 0.1)).astype(float).tolist()
        interval = difference_interval(a, b, resamples=499, seed=repeat)
        hits += interval.low <= 0.7 * 0.3 <= interval.high
    assert 0.90 <= hits / repeats <= 0.985


def test_pairing_narrows_the_interval():
    a = [1.0, 0.0] * 30
    b = [*a[:-6], 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    paired = difference_interval(a, b)
    unpaired = difference_interval(a, sorted(b))
    assert paired.high - paired.low < 0.6 * (unpaired.high - unpaired.low)


@pytest.mark.parametrize(("n", "value"), [(1, 0.0), (48, 0.0), (48, 1.0), (500, 1.0)])
def test_all_equal_gives_the_clopper_pearson_interval(n, value):
    from scipy.stats import binomtest

    expected = binomtest(int(value * n), n).proportion_ci(0.95, method="exact")
    interval = mean_interval([value] * n)
    assert interval.method == "clopper-pearson"
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_no_difference_anywhere_is_not_certainty():
    interval = difference_interval([1.0, 0.0] * 24, [1.0, 0.0] * 24)
    assert interval.low == pytest.approx(-(1 - 0.025 ** (1 / 48)))
    assert interval.high == -interval.low


def test_a_difference_on_every_task_stays_within_the_possible():
    interval = difference_interval([1.0] * 48, [0.0] * 48)
    assert interval.high == 1.0
    assert 0.8 < interval.low < 0.9


def test_percentile_where_the_correction_is_undefined(monkeypatch):
    from scipy import stats

    real = stats.bootstrap

    def undefined(*args, **options):
        result = real(*args, **options)
        if options["method"] == "BCa":
            result.confidence_interval = type(result.confidence_interval)(math.nan, math.nan)
        return result

    monkeypatch.setattr(stats, "bootstrap", undefined)
    interval = mean_interval([0.0, 1.0, 1.0, 0.0])
    assert interval.method == "percentile"
    assert 0.0 <= interval.low < 0.5 < interval.high <= 1.0


@settings(max_examples=40, deadline=None)
@given(PROPORTIONS, st.integers(0, 3))
def test_the_interval_holds_the_mean_and_repeats(values, seed):
    interval = mean_interval(values, resamples=199, seed=seed)
    mean = sum(values) / len(values)
    assert 0.0 <= interval.low <= mean <= interval.high <= 1.0
    assert interval == mean_interval(values, resamples=199, seed=seed)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 1.0])), min_size=2, max_size=40))
def test_swapping_the_pair_mirrors_the_interval(pairs):
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    one = difference_interval(a, b, resamples=199)
    other = difference_interval(b, a, resamples=199)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(VERDICTS)
def test_mcnemar_is_twice_the_smaller_binomial_tail(pairs):
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    only_a = sum(x and not y for x, y in pairs)
    only_b = sum(y and not x for x, y in pairs)
    n, k = only_a + only_b, min(only_a, only_b)
    tail = sum(math.comb(n, i) for i in range(k + 1)) / 2**n
    assert mcnemar(a, b) == pytest.approx(min(1.0, 2 * tail))
    assert mcnemar(a, b) == mcnemar(b, a)


def test_mcnemar_ignores_tasks_on_which_both_agree():
    a, b = [True] * 9 + [False], [False] * 9 + [True]
    agreed = [True, False] * 50
    assert mcnemar(a, b) == mcnemar(a + agreed, b + agreed) == pytest.approx(22 / 1024)


@pytest.mark.parametrize("values", [[], [0.5, 1.5], [math.nan, 0.0]])
def test_values_that_are_no_scores_are_refused(values):
    with pytest.raises(ValueError, match=r"at least one|must lie"):
        mean_interval(values)


def test_unequal_lengths_are_refused():
    with pytest.raises(ValueError, match="not 2 and 1"):
        difference_interval([1.0, 0.0], [1.0])
    with pytest.raises(ValueError, match="not 2 and 1"):
        mcnemar([True, False], [True])


def strata_of(*sizes, seed=3):
    rng = np.random.RandomState(seed)
    return [rng.beta(1 + number, 2, size=size).tolist() for number, size in enumerate(sizes)]


@pytest.mark.parametrize("sizes", [(200, 300), (3, 3, 4) * 12, (5, 200)])
def test_a_stratified_interval_has_the_width_that_theory_gives(sizes):
    """The variance of a mean of K strata's means is the sum of s²/n over K², with the unbiased s²."""
    strata = strata_of(*sizes)
    variance = sum(np.var(x, ddof=1) / len(x) for x in strata) / len(strata) ** 2
    interval = stratified_interval(strata, confidence=0.95, resamples=20_000)
    middle = np.mean([np.mean(x) for x in strata])
    half = NormalDist().inv_cdf(0.975) * math.sqrt(variance)
    assert interval.method == "stratified"
    assert (interval.high - interval.low) / 2 == pytest.approx(half, rel=0.06)
    assert (interval.high + interval.low) / 2 == pytest.approx(middle, abs=0.15 * half)


def test_a_stratified_interval_covers_the_truth_as_often_as_it_says():
    truths = [0.2, 0.5, 0.8] * 3
    rng = np.random.RandomState(1)
    hits = 0
    for _ in range(200):
        strata = [rng.binomial(4, truth, size=6) / 4 for truth in truths]
        found = stratified_interval([list(x) for x in strata], resamples=299)
        hits += found.low <= 0.5 <= found.high
    # Ninety-five of a hundred, within four standard errors.
    assert 0.88 <= hits / 200 <= 1.0


def test_differences_between_strata_are_no_uncertainty():
    apart = [[0.0, 0.1, 0.0], [1.0, 0.9, 1.0]]
    narrow = stratified_interval(apart)
    assert narrow.high - narrow.low < 0.11
    pooled = mean_interval([x for stratum in apart for x in stratum])
    assert pooled.high - pooled.low > 0.5


def test_a_stratum_of_one_value_is_resampled_with_the_others():
    strata = [[0.2], [0.4, 0.6], [0.9, 0.8]]
    means = [0.2, 0.5, pytest.approx(0.85)]
    assert [sum(x) / len(x) for x in strata] == means
    assert stratified_interval(strata) == mean_interval([sum(x) / len(x) for x in strata])


def test_equal_values_have_the_exact_bound_in_strata_too():
    assert stratified_interval([[1.0] * 4, [1.0] * 6]) == mean_interval([1.0] * 10)


@pytest.mark.parametrize("strata", [[], [[]], [[0.5], []], [[0.5, 1.5], [0.2, 0.3]]])
def test_strata_that_cannot_be_resampled_are_refused(strata):
    with pytest.raises(ValueError, match=r"every stratum|must lie in"):
        stratified_interval(strata)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.floats(0, 1), min_size=2, max_size=6), min_size=1, max_size=4))
def test_a_stratified_interval_is_seeded_and_bounded(strata):
    first = stratified_interval(strata, resamples=199)
    assert first == stratified_interval(strata, resamples=199)
    assert -1e-9 <= first.low <= first.high <= 1.0 + 1e-9
