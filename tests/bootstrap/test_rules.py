from __future__ import annotations

import pytest
from pydantic import ValidationError

from pipeline.bootstrap.rules import ORDER, RULES, Excluded, Limits, first_failed
from pipeline.recipe.models import PanelRecipe
from pipeline.trajectories.panels import draw_panel
from pipeline.trajectories.schema import Grade, Outcome, Step, Trajectory
from tests.bootstrap.making import make_task, make_trajectory, with_step

GOOD = make_trajectory()

BAD = {
    "provenance": [
        make_trajectory(task=make_task(id="")),
        make_trajectory(task=make_task(split="")),
        make_trajectory(task=make_task(environment="")),
        make_trajectory(versions={"python": "3.11"}),
    ],
    "finished": [make_trajectory(outcome=outcome) for outcome in Outcome if outcome is not Outcome.FINISHED],
    "correct": [make_trajectory(grade=Grade(correct=False, reward=1.0))],
    "well_formed": [
        make_trajectory(steps=[]),
        with_step(GOOD, 0, action=" \n"),
        with_step(GOOD, 1, flags=["no_action"]),
    ],
    "valid_actions": [with_step(GOOD, 0, invalid=True)],
    "nothing_invented": [with_step(GOOD, 1, flags=["repaired", "hallucinated_observation"])],
    "uncut": [
        with_step(GOOD, 0, stop_reason="length"),
        with_step(GOOD, 0, stop_reason="error"),
        with_step(GOOD, 1, flags=["truncated"]),
    ],
    "no_verdict": [
        with_step(GOOD, 0, observation="Episode finished, reward = 1"),
        with_step(GOOD, 0, observation="REWARD: -0.5"),
        with_step(GOOD, 1, thought="Answer is CORRECT"),
        with_step(GOOD, 1, thought="The answer was  incorrect, so I try again."),
        with_step(GOOD, 1, action="Finish[reward = 1]"),
        make_trajectory(opening="Your answer is INCORRECT"),
    ],
}


@pytest.mark.parametrize(("rule", "bad"), [(rule, bad) for rule, bads in BAD.items() for bad in bads])
def test_each_rule_takes_what_it_names(rule: str, bad: Trajectory) -> None:
    assert first_failed(bad, Limits()) == rule


def test_a_good_trajectory_passes_all() -> None:
    assert first_failed(GOOD, Limits(max_steps=2)) is None


@pytest.mark.parametrize(
    "harmless",
    [
        with_step(GOOD, 0, observation="Could not find [Peru]. Similar: ['Lima']."),
        with_step(GOOD, 0, flags=["repaired"]),
        with_step(GOOD, 1, observation="Episode finished, reward = 1. Answer is CORRECT"),
        with_step(GOOD, 0, observation="He got a reward of 5 pounds. The correct answer is unknown."),
    ],
    ids=["missed search", "repaired", "verdict after the end", "a reward in a text"],
)
def test_harmless_things_pass(harmless: Trajectory) -> None:
    assert first_failed(harmless, Limits()) is None


def test_the_first_rule_in_order_is_named() -> None:
    worst = make_trajectory(outcome=Outcome.STEP_LIMIT, grade=Grade(), steps=[])
    assert first_failed(worst, Limits()) == "finished"
    assert list(RULES) == [name for name in ORDER if name in RULES]


def test_max_steps() -> None:
    long = make_trajectory(steps=[Step(action="Search[a]")] * 7)
    assert first_failed(long, Limits(max_steps=7)) is None
    assert first_failed(long, Limits(max_steps=6)) == "max_steps"


def test_excluded_by_id_by_panel_and_by_text() -> None:
    panel = draw_panel([make_task(5, split="test")], PanelRecipe(split="test"))
    limits = Limits(excluded=Excluded.of([panel], ["t1", "WHICH city is  number 3 ?"]))
    assert first_failed(make_trajectory(1), limits) == "no_leak"
    assert first_failed(make_trajectory(2), limits) is None
    assert first_failed(make_trajectory(3), limits) == "no_leak"
    assert first_failed(make_trajectory(5), limits) == "no_leak"
    same_text = make_trajectory(9, task=make_task(9, instruction="which city is number 5"))
    assert first_failed(same_text, limits) == "no_leak"


def test_every_rule_explains_itself() -> None:
    assert all(rule.__doc__ for rule in RULES.values())


def test_a_trajectory_without_a_task_id_is_refused() -> None:
    raw = GOOD.model_dump()
    del raw["task"]["id"]
    with pytest.raises(ValidationError, match=r"task\.id"):
        Trajectory.model_validate(raw)
