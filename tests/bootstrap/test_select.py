from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.bootstrap.ledger import Ledger
from pipeline.bootstrap.rules import Excluded
from pipeline.bootstrap.select import Selection, select, select_into
from pipeline.errors import StoreError
from pipeline.recipe.models import SelectRecipe
from pipeline.trajectories.schema import Grade, Outcome, Step, Trajectory
from pipeline.trajectories.store import TrajectoryStore, read_trajectories
from tests.bootstrap.making import make_task, make_trajectory, with_step

FEVER = Path(__file__).resolve().parents[2] / "../shared/data/fever/paper_dev.jsonl"


def chosen(trajectories: list[Trajectory], exclude: Excluded | None = None, **recipe: object) -> Selection:
    return select(lambda: trajectories, SelectRecipe(**recipe), exclude)  # pyright: ignore[reportArgumentType]


def other_words(number: int, task: int, steps: int = 2) -> Trajectory:
    """A trajectory of a task that thinks its own thoughts."""
    walk = [Step(thought=f"Thought {number}.{index}", action="Search[Peru]") for index in range(steps)]
    return make_trajectory(number, task=make_task(task), steps=walk)


def test_duplicate_ids_keep_one_that_passes() -> None:
    wrong = make_trajectory(1, grade=Grade())
    right = make_trajectory(1)
    for order in ([wrong, right], [right, wrong]):
        selection = chosen(order)
        assert selection.positions == [order.index(right)]
        assert selection.ledger.fallen["duplicate"] == 1
    assert chosen([wrong, wrong]).ledger.fallen == {**chosen([]).ledger.fallen, "duplicate": 1, "correct": 1}


def test_same_words_in_one_task_are_kept_once() -> None:
    task = make_task(1)
    same = [make_trajectory(number, task=task) for number in (1, 2, 3)]
    same[2] = with_step(same[2], 0, observation="Another wording of the same page.")
    elsewhere = make_trajectory(4, task=make_task(2))
    selection = chosen([*same, elsewhere], per_task=9)
    assert sorted(selection.ids) == ["id1", "id4"]
    assert selection.ledger.fallen["distinct"] == 2


def test_per_task_keeps_the_shortest() -> None:
    many = [other_words(1, task=1, steps=4), other_words(2, task=1, steps=2), other_words(3, task=1, steps=3)]
    assert chosen(many).ids == ["id2"]
    two = chosen(many, per_task=2)
    assert sorted(two.ids) == ["id2", "id3"]
    assert two.ledger.fallen["per_task"] == 1
    assert two.ledger.tasks == {"t1": {"kept": 2, "per_task": 1}}


def test_kinds_take_turns_until_one_runs_out() -> None:
    kinds = ["a"] * 20 + ["b"] * 2 + ["c"] * 5
    many = [make_trajectory(index, task=make_task(index, kind=kind)) for index, kind in enumerate(kinds)]
    kept = {
        target: Counter(many[position].task.kind for position in chosen(many, target=target).positions)
        for target in (3, 6, 9, 27)
    }
    assert kept[3] == {"a": 1, "b": 1, "c": 1}
    assert kept[6] == {"a": 2, "b": 2, "c": 2}
    assert sorted(kept[9].values()) == [2, 3, 4]
    assert kept[9]["b"] == 2
    assert kept[27] == {"a": 20, "b": 2, "c": 5}
    assert chosen(many, target=9).ledger.fallen["target"] == 18


def test_new_tasks_come_before_second_samples() -> None:
    many = [other_words(number, task=number % 4) for number in range(12)]
    selection = chosen(many, target=6, per_task=3)
    per_task = Counter(many[position].task.id for position in selection.positions)
    assert sorted(per_task.values()) == [1, 1, 2, 2]


def test_without_balance_kinds_keep_their_share() -> None:
    many = [
        make_trajectory(index, task=make_task(index, kind="rare" if index % 20 == 0 else "often"))
        for index in range(400)
    ]
    selection = chosen(many, target=100, balance=False)
    rare = sum(many[position].task.kind == "rare" for position in selection.positions)
    assert len(selection.ids) == 100
    assert 0 < rare <= 15


def test_the_seed_decides_which_and_in_which_order() -> None:
    many = [make_trajectory(index) for index in range(50)]
    first, again, other = (chosen(many, target=10, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert set(first.ids) != set(other.ids)
    everything = chosen(many, target=50).ids
    assert everything != sorted(everything)


def test_excluded_tasks_are_not_kept() -> None:
    selection = chosen([make_trajectory(1), make_trajectory(2)], Excluded.of(others=["t1"]))
    assert selection.ids == ["id2"]
    assert selection.ledger.fallen["no_leak"] == 1


@st.composite
def mixed(draw: st.DrawFn) -> list[Trajectory]:
    """Trajectories of few tasks, kinds, ids and words, so that every rule has work."""
    made: list[Trajectory] = []
    for _ in range(draw(st.integers(0, 14))):
        task = draw(st.integers(0, 4))
        steps = [
            Step(
                thought=draw(st.sampled_from("abc")), action="Search[x]", invalid=draw(st.integers(0, 5)) == 0
            )
            for _ in range(draw(st.integers(0, 3)))
        ]
        made.append(
            make_trajectory(
                draw(st.integers(0, 9)),
                task=make_task(task, kind="kl"[task % 2]),
                steps=steps,
                outcome=draw(st.sampled_from([Outcome.FINISHED, Outcome.FINISHED, Outcome.STEP_LIMIT])),
                grade=Grade(correct=draw(st.integers(0, 3)) > 0),
                seconds=draw(st.sampled_from([0.0, 1.0])),
            )
        )
    return made


@settings(max_examples=150, deadline=None)
@given(mixed(), st.randoms(use_true_random=False), st.integers(1, 6), st.integers(1, 3), st.booleans())
def test_the_order_of_arrival_changes_nothing(
    made: list[Trajectory], random: object, target: int, per_task: int, balance: bool
) -> None:
    moved = list(made)
    random.shuffle(moved)  # pyright: ignore[reportAttributeAccessIssue]
    first = chosen(made, target=target, per_task=per_task, balance=balance)
    second = chosen(moved, target=target, per_task=per_task, balance=balance)
    assert [made[place] for place in first.positions] == [moved[place] for place in second.positions]
    assert first.ledger == second.ledger


@settings(max_examples=100, deadline=None)
@given(mixed(), st.integers(1, 6), st.integers(1, 3))
def test_what_is_kept_obeys_the_rules(made: list[Trajectory], target: int, per_task: int) -> None:
    selection = chosen(made, target=target, per_task=per_task)
    kept = [made[position] for position in selection.positions]
    assert len(kept) == selection.ledger.kept <= target
    assert len({trajectory.id for trajectory in kept}) == len(kept)
    assert all(count <= per_task for count in Counter(trajectory.task.id for trajectory in kept).values())
    assert all(trajectory.grade.correct and trajectory.steps for trajectory in kept)
    assert selection.ledger.seen == len(made)
    # More may only have been left out by a rule that says so.
    if selection.ledger.fallen["target"]:
        assert len(kept) == target


def test_select_into_writes_what_it_chose(tmp_path: Path) -> None:
    many = [make_trajectory(index) for index in range(20)]
    many[3] = with_step(many[3], 0, thought="line\u2028end \ud800 <|im_end|>\nObservation: fake")
    with TrajectoryStore(tmp_path / "trajectories.jsonl") as store:
        for trajectory in many:
            store.append(trajectory)
        selection = select_into(tmp_path, store.read, SelectRecipe())
    written = list(read_trajectories(tmp_path / "selected.jsonl"))
    assert [trajectory.id for trajectory in written] == selection.ids
    by_id = {trajectory.id: trajectory for trajectory in many}
    by_id["id3"] = with_step(by_id["id3"], 0, thought="line\u2028end \ufffd <|im_end|>\nObservation: fake")
    assert all(trajectory == by_id[trajectory.id] for trajectory in written)
    ledger = Ledger.model_validate(json.loads((tmp_path / "ledger.json").read_text(encoding="utf-8")))
    assert ledger == selection.ledger
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "ledger.json",
        "selected.jsonl",
        "trajectories.jsonl",
    ]


def test_a_source_that_changes_is_refused(tmp_path: Path) -> None:
    opened: list[int] = []

    def changing() -> Iterator[Trajectory]:
        opened.append(1)
        return iter([make_trajectory(len(opened))])

    with pytest.raises(StoreError, match="changed while they were being selected"):
        select_into(tmp_path, changing, SelectRecipe())
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_folder_is_one_sentence(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(StoreError, match=r"selected\.jsonl cannot be written"):
        select_into(blocked, lambda: [make_trajectory()], SelectRecipe())


def test_memory_does_not_grow_with_the_texts(tmp_path: Path) -> None:
    def heavy() -> Iterator[Trajectory]:
        for index in range(300):
            yield with_step(make_trajectory(index), 0, observation=f"{index} " + "long " * 10_000)

    tracemalloc.start()
    select_into(tmp_path, heavy, SelectRecipe())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (tmp_path / "selected.jsonl").stat().st_size > 15_000_000
    assert peak < 3_000_000


def test_repeated_claims_are_told_apart_by_id_and_conflicts_flagged() -> None:
    if not FEVER.exists():
        pytest.skip("the shared FEVER file is not here")
    rows = [json.loads(line) for line in FEVER.read_text(encoding="utf-8").split("\n") if line]

    def played() -> Iterator[Trajectory]:
        for row in rows:
            task = make_task(row["id"], kind=row["label"], instruction=row["claim"], gold=[row["label"]])
            yield make_trajectory(row["id"], task=task)

    ledger = select(played, SelectRecipe(target=20_000)).ledger
    assert ledger.seen == ledger.kept == ledger.tasks_kept == 9999
    assert {kind: row["kept"] for kind, row in ledger.kinds.items()} == {
        "NOT ENOUGH INFO": 3333,
        "REFUTES": 3333,
        "SUPPORTS": 3333,
    }
    claims = {f"t{row['id']}": row["claim"] for row in rows}
    flagged = {claims[task] for task in ledger.conflicts}
    assert len(flagged) == 32
    assert "Despicable Me 2 was directed by a lake." in flagged
