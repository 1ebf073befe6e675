from __future__ import annotations

import io

from rich.console import Console

from pipeline.rollout.goal import Goal
from pipeline.rollout.progress import RunProgress
from pipeline.rollout.projection import duration, project
from pipeline.rollout.tally import Tally
from pipeline.trajectories.schema import Grade, Outcome, Trajectory, Usage
from tests.rollout.toy import task


def trajectory(correct: bool, outcome: Outcome = Outcome.FINISHED) -> Trajectory:
    usage = Usage(prompt_tokens=900, completion_tokens=100, cost=0.005)
    return Trajectory(
        id="x",
        task=task(1),
        method="m",
        model="m",
        outcome=outcome,
        grade=Grade(correct=correct),
        usage=usage,
    )


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_plain_lines_come_every_few_seconds_and_at_the_end() -> None:
    out, clock = io.StringIO(), Clock()
    progress = RunProgress("react \u00d7 [bold]m[/bold]", Console(file=out, width=40), clock)
    progress.begin(8)
    for index in range(4):
        clock.now += 2
        progress.advance(trajectory(index % 2 == 0, Outcome.MODEL_ERROR if index == 3 else Outcome.FINISHED))
    progress.end()
    lines = out.getvalue().split("\n")
    title = "react \u00d7 [bold]m[/bold]"
    assert lines == [
        f"{title}: 3/8 episodes, 2 correct, 3,000 tokens, cost 0.01, 0.5/s, about 10 s left",
        f"{title}: 4/8 episodes, 2 correct, 4,000 tokens, 1 errors, cost 0.02, 0.5/s, about 8 s left",
        "",
    ]


def test_nothing_owed_says_nothing() -> None:
    out = io.StringIO()
    progress = RunProgress("t", Console(file=out))
    progress.begin(0)
    progress.end()
    assert out.getvalue() == ""


def test_a_terminal_gets_a_bar() -> None:
    out = io.StringIO()
    progress = RunProgress("[red]run", Console(file=out, force_terminal=True, width=120))
    progress.begin(2)
    progress.advance(trajectory(True))
    progress.advance(trajectory(True))
    progress.end()
    progress.end()
    assert "[red]run" in out.getvalue()
    assert "2/2 episodes, 2 correct" in out.getvalue()


def test_durations() -> None:
    assert [duration(value) for value in (0.4, 59.4, 59.6, 185, 7500)] == [
        "0 s",
        "59 s",
        "1 min",
        "3 min",
        "2 h 5 min",
    ]


def test_a_target_is_what_counts_and_projections_stay() -> None:
    out, clock, said = io.StringIO(), Clock(), []
    tally = Tally(Goal(until=1000), 5000, 1)
    for number in range(400):
        tally.add(f"before{number}", 0, Usage(), correct=True)
    progress = RunProgress("[b]run", Console(file=out, width=40), clock)
    progress.aim(tally)
    progress.begin(4600)
    for number in range(4):
        clock.now += 1.5
        tally.add(f"t{number}", 0, Usage(), correct=number < 3)
        progress.advance(trajectory(number < 3))
    progress.project(project(tally, 4, 6.0))
    progress.end()
    lines = out.getvalue().split("\n")
    # Three more in six seconds: 597 take 1,194 s.
    assert (
        lines[0] == "[b]run: 403/1,000 correct, 4 episodes, 4,000 tokens, cost 0.02, 0.7/s, about 20 min left"
    )
    assert lines[1].startswith("[b]run: at 100% (99–100%) correct, 1,000 need about 1,000 episodes, 0 tokens")
    assert len(lines) == 3

    RunProgress("run", Console(file=out), say=said.append).project(project(tally, 4, 6.0))
    assert len(said) == 1


def test_a_projection_stands_above_the_bar() -> None:
    out = io.StringIO()
    tally = Tally(Goal(until=2), 5, 1)
    progress = RunProgress("run", Console(file=out, force_terminal=True, width=200))
    progress.aim(tally)
    progress.begin(5)
    tally.add("t", 0, Usage(), correct=True)
    progress.advance(trajectory(True))
    progress.project(project(tally, 1, 1.0))
    progress.end()
    assert "1/2 correct, 1 episodes" in out.getvalue()
    assert "2 need about 2 episodes" in out.getvalue()
    assert "50%" in out.getvalue()
