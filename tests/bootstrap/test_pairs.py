from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pipeline.bootstrap.pair_ledger import PairLedger
from pipeline.bootstrap.pairs import FAILURE_RULES, Match, choose_pairs, pair_into
from pipeline.bootstrap.rules import Excluded
from pipeline.errors import StoreError
from pipeline.recipe.models import ExportRecipe, PairsRecipe
from pipeline.trajectories.pairs import read_pairs
from pipeline.trajectories.schema import Grade, Outcome, Step, Task, Trajectory
from pipeline.trajectories.store import TrajectoryStore
from tests.bootstrap.making import make_task, make_trajectory, with_step

WRONG = Grade()


def walk(*words: str, seen: str = "Page {}.") -> list[Step]:
    """Steps with such thoughts, each answered by the same page, whoever asks."""
    last = len(words) - 1
    return [
        Step(
            thought=word,
            action=f"Search[{word}]" if place < last else f"Finish[{word}]",
            observation=seen.format(word),
        )
        for place, word in enumerate(words)
    ]


def success(number: int, *words: str, task: Task | None = None, **changes: Any) -> Trajectory:
    return make_trajectory(number, task=task or make_task(1), steps=walk(*words), **changes)


def failure(number: int, *words: str, task: Task | None = None, **changes: Any) -> Trajectory:
    values: dict[str, Any] = {"grade": WRONG, "answer": words[-1], **changes}
    return make_trajectory(number, task=task or make_task(1), steps=walk(*words), **values)


def store(folder: Path, trajectories: list[Trajectory], name: str = "trajectories") -> TrajectoryStore:
    path = folder / f"{name}.jsonl"
    path.unlink(missing_ok=True)
    with TrajectoryStore(path) as opened:
        for trajectory in trajectories:
            opened.append(trajectory)
    return TrajectoryStore(path)


def chosen(folder: Path, trajectories: list[Trajectory], **recipe: Any) -> tuple[list[Match], PairLedger]:
    return choose_pairs([store(folder, trajectories)], PairsRecipe(**recipe))


def told(matches: list[Match]) -> list[tuple[str, str, int]]:
    return [(match.chosen.id, match.rejected.id, match.shared) for match in matches]


def test_a_pair_begins_where_the_two_part(tmp_path: Path) -> None:
    good, bad = success(1, "a", "b", "c"), failure(2, "a", "x", "y", "z")
    matches, ledger = chosen(tmp_path, [bad, good])
    assert told(matches) == [("id1", "id2", 1)]
    assert (ledger.seen, ledger.tasks, ledger.pairs, ledger.tasks_paired) == (2, 1, 1, 1)
    assert (ledger.successes, ledger.failures) == ({"chosen": 1}, {"paired": 1})


def test_a_thought_alone_makes_a_difference(tmp_path: Path) -> None:
    good, bad = success(1, "a", "b"), failure(2, "a", "c")
    other = with_step(bad, 0, thought="a, I say")
    assert told(chosen(tmp_path, [good, other])[0]) == [("id1", "id2", 0)]
    spaced = with_step(bad, 0, thought=" a\n")
    assert told(chosen(tmp_path, [good, spaced])[0]) == [("id1", "id2", 1)]


def test_the_same_words_in_another_world_are_no_beginning(tmp_path: Path) -> None:
    good, bad = success(1, "a", "b"), failure(2, "a", "c")
    moved = with_step(bad, 0, observation="Another page.")
    matches, ledger = chosen(tmp_path, [good, moved])
    assert (matches, ledger.failures) == ([], {"other_world": 1})
    assert ledger.successes == {"spare": 1}
    opened = failure(2, "x", opening="You are in a kitchen.")
    assert chosen(tmp_path, [success(1, "a", opening="You are in a hall."), opened])[0] == []
    assert told(chosen(tmp_path, [success(1, "a", opening=opened.opening), opened])[0]) == [("id1", "id2", 0)]


def test_observations_after_the_parting_may_differ(tmp_path: Path) -> None:
    good, bad = success(1, "a", "b", "c"), failure(2, "a", "x", "c")
    assert told(chosen(tmp_path, [good, with_step(bad, 1, observation="Elsewhere.")])[0])[0][2] == 1


def test_one_that_only_goes_on_parts_nowhere(tmp_path: Path) -> None:
    good = success(1, "a", "b")
    longer = good.model_copy(
        update={"id": "id2", "grade": WRONG, "steps": [*good.steps, Step(thought="t", action="Finish[x]")]}
    )
    assert chosen(tmp_path, [good, longer])[1].failures == {"other_world": 1}


def test_a_failure_takes_the_success_that_it_follows_longest(tmp_path: Path) -> None:
    goods = [success(1, "z", "b"), success(2, "a", "b", "c"), success(3, "a", "c")]
    matches, ledger = chosen(tmp_path, [*goods, failure(4, "a", "b", "x")])
    assert told(matches) == [("id2", "id4", 2)]
    assert ledger.successes == {"chosen": 1, "spare": 2}


def test_tasks_that_lack_a_half_are_counted(tmp_path: Path) -> None:
    one, two = make_task(1), make_task(2)
    _, ledger = chosen(tmp_path, [success(1, "a", task=one), failure(2, "b", task=two)])
    assert (ledger.successes, ledger.failures) == ({"no_failure": 1}, {"no_success": 1})
    # The same id with other content is another task.
    other = make_task(1, instruction="Another question?")
    assert chosen(tmp_path, [success(1, "a", task=one), failure(2, "b", task=other)])[0] == []


@pytest.mark.parametrize("outcome", [Outcome.STEP_LIMIT, Outcome.CONTEXT_LIMIT])
def test_a_limit_is_the_agents_own_failure(tmp_path: Path, outcome: Outcome) -> None:
    lost = failure(2, "b", outcome=outcome, answer=None)
    assert len(chosen(tmp_path, [success(1, "a"), lost])[0]) == 1


BAD = failure(2, "x", "y")
NOT_LEARNT = {
    "provenance": BAD.model_copy(update={"versions": {}}),
    "own_fault": BAD.model_copy(update={"outcome": Outcome.ENVIRONMENT_ERROR}),
    "readable": with_step(BAD, 0, action=" "),
    "uncut": with_step(BAD, 1, stop_reason="length"),
    "no_verdict": with_step(BAD, 0, observation="Episode finished, reward = 0"),
    "no_leak": BAD.model_copy(update={"task": make_task(9)}),
}


@pytest.mark.parametrize("rule", FAILURE_RULES)
def test_every_rule_for_failures_takes_its_own(tmp_path: Path, rule: str) -> None:
    bad = NOT_LEARNT[rule]
    trajectories = [success(1, "a", task=bad.task), bad]
    held_out = Excluded.of(others=["t9"])
    matches, ledger = choose_pairs([store(tmp_path, trajectories)], PairsRecipe(), held_out)
    assert (matches, ledger.failures) == ([], {rule: 1})


@pytest.mark.parametrize("outcome", [Outcome.MODEL_ERROR, Outcome.ENVIRONMENT_ERROR, Outcome.FORMAT_ERROR])
def test_what_was_not_the_agents_words_is_no_failure(tmp_path: Path, outcome: Outcome) -> None:
    bad = failure(2, "x", outcome=outcome)
    assert chosen(tmp_path, [success(1, "a"), bad])[1].failures == {"own_fault": 1}


def test_a_success_passes_the_rules_of_the_selection(tmp_path: Path) -> None:
    dirty = with_step(success(1, "a", "b"), 0, flags=["hallucinated_observation"])
    _, ledger = chosen(tmp_path, [dirty, failure(2, "x")])
    assert (ledger.successes, ledger.failures) == ({"nothing_invented": 1}, {"no_success": 1})
    long = [success(1, "a", "b", "c"), failure(2, "x")]
    _, ledger = choose_pairs([store(tmp_path, long)], PairsRecipe(), max_steps=2)
    assert ledger.successes == {"max_steps": 1}


def test_what_failed_in_the_same_words_counts_once(tmp_path: Path) -> None:
    many = [success(1, "a"), failure(2, "x", "y"), failure(3, "x", "y"), failure(4, "z")]
    matches, ledger = chosen(tmp_path, many, per_task=9)
    assert sorted(match.rejected.id for match in matches) == ["id2", "id4"]
    assert ledger.failures == {"distinct": 1, "paired": 2}


def test_caps_take_first_pairs_of_tasks_before_second_ones(tmp_path: Path) -> None:
    many: list[Trajectory] = []
    for number in range(1, 6):
        task = make_task(number)
        many.append(success(number, "a", task=task))
        many += [failure(10 * number + k, f"x{k}", task=task) for k in range(3)]
    matches, ledger = chosen(tmp_path, many)
    assert len({match.rejected.task for match in matches}) == len(matches) == 5
    assert ledger.failures == {"paired": 5, "per_task": 10}
    matches, ledger = chosen(tmp_path, many, per_task=2, target=7)
    assert len({match.rejected.task for match in matches}) == 5
    assert ledger.failures == {"paired": 7, "per_task": 5, "target": 3}


words = st.lists(st.sampled_from("abc"), min_size=1, max_size=3)
episodes = st.lists(st.tuples(st.integers(1, 2), st.booleans(), words), max_size=12)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(episodes, st.randoms(use_true_random=False), st.integers(1, 3), st.integers(1, 4))
def test_the_order_of_arrival_changes_nothing_and_every_trajectory_is_counted(
    tmp_path: Path, drawn: list[tuple[int, bool, list[str]]], chance: Any, per_task: int, target: int
) -> None:
    made = [
        (success if right else failure)(number, *said, task=make_task(task))
        for number, (task, right, said) in enumerate(drawn)
    ]
    shuffled = list(made)
    chance.shuffle(shuffled)
    one, ledger = chosen(tmp_path, made, per_task=per_task, target=target)
    two, other = chosen(tmp_path, shuffled, per_task=per_task, target=target)
    assert told(one) == told(two)
    assert ledger == other
    assert ledger.seen == len(made)
    by_id = {trajectory.id: trajectory for trajectory in made}
    for better, worse, shared in told(one):
        good, bad = by_id[better], by_id[worse]
        assert good.task == bad.task
        assert (good.grade.correct, bad.grade.correct) == (True, False)
        assert good.steps[:shared] == bad.steps[:shared]
        assert good.steps[shared] != bad.steps[shared]


def test_failures_may_come_from_another_run(tmp_path: Path) -> None:
    teacher = store(tmp_path, [success(1, "a"), failure(3, "y")], "teacher")
    student = store(tmp_path, [failure(2, "x"), failure(3, "y")], "student")
    matches, ledger = choose_pairs([student, teacher], PairsRecipe(per_task=9))
    assert sorted(told(matches)) == [("id1", "id2", 0), ("id1", "id3", 0)]
    assert ledger.failures == {"duplicate": 1, "paired": 2}
    assert {match.rejected.store for match in matches} == {0}
    assert {match.chosen.store for match in matches} == {1}


def test_pairs_are_written_whole_and_read_back(tmp_path: Path) -> None:
    good, bad = success(1, "a", "b"), failure(2, "a", "c\ud800\u2028")
    ledger = pair_into(tmp_path, [store(tmp_path, [good, bad])], PairsRecipe())
    [pair] = read_pairs(tmp_path / "pairs.jsonl")
    assert (pair.chosen, pair.shared, pair.id) == (good, 1, "id1-id2")
    assert pair.rejected.steps[1].thought == "c\ufffd\u2028"
    assert json.loads((tmp_path / "pairs.json").read_text()) == ledger.model_dump()
    assert any("1 pairs of 1 tasks" in line for line in ledger.lines())


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_text('\n{"chosen": 1}\n', encoding="utf-8")
    with pytest.raises(StoreError, match=r"pairs\.jsonl, line 2 is no pair"):
        list(read_pairs(tmp_path / "pairs.jsonl"))


def test_the_ledger_must_add_up() -> None:
    with pytest.raises(ValidationError, match="does not add up"):
        PairLedger(seen=2, tasks=1, pairs=0, tasks_paired=0, successes={"spare": 1}, failures={})


@pytest.mark.parametrize("kind", ["swift", "sharegpt"])
def test_formats_without_pairs_are_refused(kind: str) -> None:
    with pytest.raises(ValidationError, match="pairs are not written"):
        ExportRecipe.model_validate({"format": kind, "pairs": {}})
    with pytest.raises(ValidationError, match="no name of a run"):
        PairsRecipe(runs=["../elsewhere"])
