"""The table of signs: counts with their denominators, errors apart."""

import io

from rich.console import Console

from pipeline.evaluation.failures import (
    FailureTable,
    FlagCount,
    failure_markdown,
    failure_table,
    failure_terminal,
    failures_by_name,
)
from pipeline.trajectories.schema import Outcome, Step
from tests.evaluation.builders import episode, make_task, prompted

TASKS = [make_task(number) for number in range(8)]


def acted(task, answer, *observations, **fields):
    steps = [Step(action=f"Search[{place}]", observation=text) for place, text in enumerate(observations)]
    steps.append(Step(action=f"Finish[{answer}]", observation="Episode finished."))
    return episode(task, answer, steps=steps, **fields)


EPISODES = [
    acted(TASKS[0], "Paris", "It is Paris."),
    acted(TASKS[1], "Paris", "It is Rome."),
    acted(TASKS[2], "Rome", "It is Rome."),
    acted(TASKS[3], "Lyon", "Could not find 0. Similar: []."),
    acted(TASKS[4], "Paris, France", "Paris, France"),
    episode(TASKS[5], outcome=Outcome.STEP_LIMIT, metrics={}, steps=[Step(action="a"), Step(action="a")]),
    episode(TASKS[6], outcome=Outcome.MODEL_ERROR, metrics={}, steps=[]),
]
COT = [episode(TASKS[0], "Rome", method="cot"), episode(TASKS[1], "Paris", method="cot")]
TABLE = failure_table([prompted("react", EPISODES), prompted("cot", COT), prompted("act", [])])


def test_every_count_names_what_it_is_of():
    react = TABLE.groups[0]
    assert (react.episodes, react.right_episodes, react.wrong_episodes, react.errored_episodes) == (
        7,
        2,
        4,
        1,
    )
    assert react.wrong == {
        "repeated_loop": FlagCount(n=1, of=4),
        "uninformative_search": FlagCount(n=1, of=3),
        "unsupported_answer": FlagCount(n=1, of=3),
        "label_ambiguity": FlagCount(n=1, of=3),
        "unfinished": FlagCount(n=1, of=4),
        "no_sign": FlagCount(n=1, of=4),
    }
    assert react.right == {
        "repeated_loop": FlagCount(n=0, of=2),
        "uninformative_search": FlagCount(n=0, of=2),
        "unsupported_answer": FlagCount(n=1, of=2),
        "no_sign": FlagCount(n=1, of=2),
    }


def test_what_cannot_be_judged_is_in_no_denominator():
    cot = TABLE.groups[1]
    assert cot.wrong["unsupported_answer"] == FlagCount(n=0, of=0)
    assert cot.right["uninformative_search"] == FlagCount(n=0, of=0)


def test_the_table_survives_json():
    assert FailureTable.model_validate_json(TABLE.model_dump_json()) == TABLE


def test_grouping_by_name_gives_the_same_in_any_order():
    found = failures_by_name([*EPISODES, *COT])
    assert found == failures_by_name([*COT, *reversed(EPISODES)])
    assert [group.method for group in found.groups] == ["cot", "react"]
    assert found.groups[1].wrong == TABLE.groups[0].wrong


def test_markdown_and_terminal_say_the_same():
    text = failure_markdown(TABLE)
    wrong = (
        "| react | base | 7 | 1 | 4 | 1/4 (25%) | 1/3 (33%) | 1/3 (33%) | 1/3 (33%) | 1/4 (25%) | 1/4 (25%) |"
    )
    assert wrong in text
    assert "| cot | base | 2 | 0 | 1 | 0/1 (0%) | – | – | 0/1 (0%) | 0/1 (0%) | 1/1 (100%) |" in text
    assert "| act | base | 0 | 0 | – | – | – | – |" in text
    assert "## Signs in right episodes" in text
    console = Console(width=250, record=True, file=io.StringIO())
    console.print(failure_terminal(TABLE))
    assert (
        wrong.replace(" | ", " ").strip("| ").split()
        == next(line for line in console.export_text().splitlines() if line.split()[:1] == ["react"]).split()
    )


def test_foreign_names_break_neither():
    hostile = "m|x\n# Head\u2028<script>\x1b[2J" + "y" * 900
    table = failure_table([prompted(hostile, EPISODES, model="[bold]$")])
    text = failure_markdown(table)
    assert "\x1b" not in text and "<script>" not in text.replace("\\<script\\>", "") and "\u2028" not in text
    assert sum(line.startswith("#") for line in text.split("\n")) == 2
    console = Console(width=250, record=True, file=io.StringIO())
    console.print(failure_terminal(table))
    shown = console.export_text()
    assert "\x1b" not in shown and "[bold]$" in shown
