from __future__ import annotations

import pytest

from pipeline.errors import FormatError
from pipeline.export.restyle import Style, lacking, restyle
from pipeline.trajectories.schema import Step
from tests.bootstrap.making import make_trajectory, with_step

WALK = make_trajectory(
    steps=[
        Step(
            thought="I need the capital\nof Peru. ",
            action="Search[Peru]",
            observation="Peru's capital is Lima.",
            completion=" I need…\nObservation: invented",
            flags=["repaired"],
        ),
        Step(thought="", action="Lookup[capital]", observation="No more results."),
        Step(thought="It is Lima.", action="Finish[Lima]", observation="Episode finished, reward = 1"),
    ]
)


def test_react_keeps_thought_action_observation_and_nothing_else() -> None:
    assert restyle(WALK, "react") == [
        Step(
            thought="I need the capital\nof Peru. ",
            action="Search[Peru]",
            observation="Peru's capital is Lima.",
        ),
        Step(action="Lookup[capital]", observation="No more results."),
        Step(thought="It is Lima.", action="Finish[Lima]"),
    ]


def test_act_has_no_thoughts() -> None:
    assert restyle(WALK, "act") == [
        Step(action="Search[Peru]", observation="Peru's capital is Lima."),
        Step(action="Lookup[capital]", observation="No more results."),
        Step(action="Finish[Lima]"),
    ]


def test_cot_is_one_paragraph_and_the_answer() -> None:
    assert restyle(WALK, "cot") == [
        Step(thought="I need the capital of Peru. It is Lima.", action="Finish[Lima]")
    ]


def test_standard_is_the_answer() -> None:
    assert restyle(make_trajectory(answer=" New\nYork "), "standard") == [Step(action="Finish[New York]")]


@pytest.mark.parametrize(
    ("style", "changes", "missing"),
    [
        ("react", {"steps": []}, "steps"),
        ("react", {"steps": [Step(action="Finish[a]")]}, "thoughts"),
        ("cot", {"steps": [Step(action="Finish[a]")]}, "thoughts"),
        ("cot", {"answer": None}, "an answer"),
        ("standard", {"answer": " "}, "an answer"),
        ("act", {"steps": [Step(thought="t", action="")]}, "an action in some step"),
        ("react", {"steps": [Step(thought="t", action="\n")]}, "an action in some step"),
    ],
)
def test_what_is_lacking_is_named(style: Style, changes: dict[str, object], missing: str) -> None:
    trajectory = make_trajectory(**changes)
    assert lacking(trajectory, style) == missing
    with pytest.raises(FormatError, match=f"'id1' lacks {missing}: style '{style}'"):
        restyle(trajectory, style)


def test_the_trajectory_itself_is_not_touched() -> None:
    before = WALK.model_copy(deep=True)
    for style in ("react", "act", "cot", "standard"):
        restyle(WALK, style)
    assert with_step(WALK, 0) == before
