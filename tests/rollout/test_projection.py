from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from pipeline.rollout.goal import Goal
from pipeline.rollout.projection import (
    duration,
    expected_episodes,
    magnitude,
    open_episodes,
    project,
    wilson,
)
from pipeline.rollout.tally import Tally
from pipeline.trajectories.schema import Usage

USAGE = Usage(prompt_tokens=1500, completion_tokens=140, cost=0.00248)


def tally(
    correct: int, played: int, tasks: int = 7405, samples: int = 1, usage: Usage = USAGE, **goal: Any
) -> Tally:
    counts = Tally(Goal(**goal), tasks, samples)
    for number in range(played):
        counts.add(f"t{number}", 0, usage, correct=number < correct)
    return counts


def test_the_sentence() -> None:
    # 6 of 50 is 12%; 2,994 more at 12% are 24,950 more episodes, 25,000 in all.
    # 25,000 × 1,640 tokens = 41 M, × 0.00248 = 62.00; 24,950 at 50 in 22.85 s take 3 h 10 min.
    # Even at 23.8% the 7,355 that are left give only 1,750.
    said = str(project(tally(6, 50, until=3000), 50, 22.85))
    assert said == (
        "at 12% (6–24%) correct, 3,000 need about 25,000 episodes, 41 M tokens, 62.00 in cost,"
        " 3 h 10 min more; the panel allows 7,405, too few"
    )


def test_budgets_say_how_far_they_reach() -> None:
    # 8.2 M tokens pay for 5,000 episodes, a cost of 24.80 for 10,000.
    goal = {"until": 100, "max_tokens": 8_200_000, "max_cost": 24.8}
    found = project(tally(25, 50, **goal), 50, 50.0)
    assert found.affordable == 5000
    assert found.enough == "yes"
    assert str(found).endswith("; the budget (max_cost 24.80 and max_tokens 8,200,000) allows about 5,000")


def test_without_a_target_the_panel_is_what_is_wanted() -> None:
    free = Usage(prompt_tokens=90, completion_tokens=10)
    # 350 more at two seconds each are 700 s.
    found = project(tally(25, 50, tasks=200, samples=2, usage=free, max_tokens=10**6), 50, 100.0)
    assert str(found) == (
        "at 50% (37–63%) correct, the whole panel needs about 400 episodes, 40 k tokens, 12 min more;"
        " the budget (max_tokens 1,000,000) allows about 10,000"
    )
    assert found.needed == found.allowed == 400


def test_nothing_correct_gives_a_lower_bound() -> None:
    found = project(tally(0, 50, until=71), 50, 1.0)
    # 71 at 7.1348%, the upper end, are 995.1 more.
    assert found.needed == 50 + 996
    assert str(found).startswith("at 0% (0–7%) correct, 71 need at least 1,000 episodes")
    assert found.enough == "perhaps"


def test_later_rounds_are_judged_by_themselves() -> None:
    counts = Tally(Goal(until=150), 200, 3)
    for number in range(200):
        counts.add(f"t{number}", 0, USAGE, correct=number < 100)
    for number in range(100, 149):
        counts.add(f"t{number}", 1, USAGE, correct=False)
    assert project(counts, 249, 1.0).share == 100 / 249
    counts.add("t149", 1, USAGE, correct=True)
    found = project(counts, 250, 1.0)
    assert (found.share, found.round) == (1 / 50, 1)
    # 49 more at 2%; 99 tasks lack one: 49 have one sample left, 50 have two, of which
    # the second is played in 98% of cases.
    assert found.needed == 250 + 49 * 50
    assert found.allowed == 250 + round(49 + 50 * 1.98)
    assert "in round 2," in str(found)
    assert found.enough == "no"


@given(st.integers(1, 400), st.data())
def test_the_interval_is_wilsons(played: int, data: st.DataObject) -> None:
    correct = data.draw(st.integers(0, played))
    known = binomtest(correct, played).proportion_ci(0.95, method="wilson")
    assert wilson(correct, played) == pytest.approx((known.low, known.high), abs=1e-9)


@pytest.mark.parametrize("left", range(7))
@pytest.mark.parametrize("lacking", [-1, 0, 1, 2, 5])
@pytest.mark.parametrize("share", [0.0, 0.12, 0.5, 1.0])
def test_the_expected_episodes_of_a_task_by_counting_every_case(
    left: int, lacking: int, share: float
) -> None:
    total = 0.0
    for case in itertools.product([0, 1], repeat=left):
        played = next((n for n in range(left) if sum(case[:n]) >= lacking), left) if lacking > 0 else 0
        chance = share ** sum(case) * (1 - share) ** (left - sum(case))
        total += chance * played
    assert expected_episodes(left, lacking, share) == pytest.approx(total)


def test_the_correct_ones_that_come_with_them() -> None:
    """Wald's equation, on a panel that is played out many times."""
    chance, hits, episodes = random.Random(1), 0, 0
    for _ in range(40_000):
        solved = False
        for _ in range(3):
            episodes += not solved
            if not solved and chance.random() < 0.3:
                solved, hits = True, hits + 1
    expected = open_episodes(Tally(Goal(until=10**6), 40_000, 3), 0.3)
    assert expected == pytest.approx(episodes, rel=0.01)
    assert 0.3 * expected == pytest.approx(hits, rel=0.01)


def test_words() -> None:
    assert [magnitude(value) for value in (950, 1240, 41_000, 1.24e6, 41e6, 2.5e9)] == [
        "950",
        "1.2 k",
        "41 k",
        "1.2 M",
        "41 M",
        "2.5 G",
    ]
    assert duration(11_400) == "3 h 10 min"
