"""What all pictures share."""

from __future__ import annotations

import pytest

from pipeline.evaluation.canvas import new_figure, whole_ticks


@pytest.mark.parametrize(
    ("values", "there"),
    [([60, 0, 20, 40, 68, 20], True), ([0], True), ([0, 1, 500, 1000], False), (list(range(40)), False)],
)
def test_numbers_below_are_those_that_there_are_if_they_have_room(values: list[int], there: bool) -> None:
    axes = new_figure(8.0, 5.0).subplots()
    axes.plot(values, values)
    whole_ticks(axes, values)
    low, high = axes.get_xlim()
    ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
    assert (ticks == sorted(set(values))) is there
    assert len(ticks) <= 12 and all(tick == int(tick) for tick in ticks)
