import random
from collections import Counter

import pytest
import torch

from pipeline.models.base import Sampling
from pipeline.models.transformers_sampling import choose

LOGITS = torch.log(torch.tensor([0.5, 0.25, 0.15, 0.1]))


def draws(sampling, times=4000, logits=LOGITS):
    dice = random.Random(1)
    return Counter(choose(logits[None], [sampling], [dice])[0] for _ in range(times))


def test_zero_temperature_takes_the_likeliest_and_rolls_nothing():
    dice = random.Random(3)
    assert choose(torch.stack([LOGITS, -LOGITS]), [Sampling()] * 2, [dice, dice]) == [0, 3]
    assert dice.random() == random.Random(3).random()


def test_shares_follow_the_probabilities():
    counts = draws(Sampling(temperature=1.0))
    for token, share in enumerate([0.5, 0.25, 0.15, 0.1]):
        assert counts[token] / 4000 == pytest.approx(share, abs=0.03)


def test_temperature_sharpens():
    # Squared and scaled back: 0.25, 0.0625, 0.0225, 0.01 over 0.345.
    assert draws(Sampling(temperature=0.5))[0] / 4000 == pytest.approx(0.25 / 0.345, abs=0.03)


@pytest.mark.parametrize(
    ("top_p", "kept"), [(0.4, {0}), (0.6, {0, 1}), (0.8, {0, 1, 2}), (1.0, {0, 1, 2, 3})]
)
def test_the_nucleus_is_the_smallest_set_that_reaches_top_p(top_p, kept):
    assert set(draws(Sampling(temperature=1.0, top_p=top_p), 800)) == kept


def test_a_flat_distribution_needs_the_full_sort():
    counts = draws(Sampling(temperature=1.0, top_p=0.9), 3000, torch.zeros(1000))
    assert 800 < len(counts) <= 900


def test_a_draw_depends_on_the_seed_alone():
    torch.manual_seed(0)
    logits = torch.randn(5, 50)
    sampling = [Sampling(temperature=0.8, top_p=0.9)] * 5
    together = choose(logits, sampling, [random.Random(seed) for seed in range(5)])
    alone = [choose(logits[i : i + 1], sampling[:1], [random.Random(i)])[0] for i in range(5)]
    assert together == alone
