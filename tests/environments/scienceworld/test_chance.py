from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pipeline.environments.scienceworld.chance import random_action


@given(st.lists(st.text(), min_size=1), st.integers(), st.integers(1, 600))
def test_it_is_one_of_them_and_repeats(valid, seed, number):
    action = random_action(valid, seed, number)
    assert action in valid and action == random_action(list(valid), seed, number)


def test_all_are_about_as_likely():
    counts = Counter(random_action("abcd", seed, number) for seed in range(20) for number in range(100))
    assert len(counts) == 4 and all(400 < count < 600 for count in counts.values())
