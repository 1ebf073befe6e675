from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import RecipeError, StoreError
from pipeline.recipe.models import PanelRecipe
from pipeline.trajectories.panels import (
    Panel,
    check_disjoint,
    draw_panel,
    load_panel,
    named_panel,
    normal_text,
    save_panel,
)
from pipeline.trajectories.schema import Task
from tests.trajectories.making import task

TASKS = [task(f"t{number}", kind="bridge" if number % 10 else "yesno") for number in range(100)]


def draw(
    size: int | None, seed: int = 0, tasks: list[Task] | None = None, exclude: set[str] | None = None
) -> Panel:
    recipe = PanelRecipe(split="train", size=size, seed=seed)
    return draw_panel(TASKS if tasks is None else tasks, recipe, exclude or set())


@given(order=st.permutations(TASKS[:20]), size=st.integers(1, 20), seed=st.integers(0, 3))
def test_drawing_depends_on_seed_and_tasks_alone(order: list[Task], size: int, seed: int) -> None:
    panel = draw(size, seed, order)
    assert panel == draw(size, seed, TASKS[:20])
    assert panel.ids == draw(20, seed, order).ids[:size]
    assert len(set(panel.ids)) == len(panel) == size


def test_kinds_come_in_turn_until_one_runs_out() -> None:
    kinds = Counter(one.kind for one in draw(12).tasks)
    assert kinds == {"bridge": 6, "yesno": 6}
    assert Counter(one.kind for one in draw(50).tasks) == {"bridge": 40, "yesno": 10}


def test_seeds_differ_and_the_digest_tells() -> None:
    assert draw(10, 1).ids != draw(10, 2).ids
    assert draw(10, 1).digest == draw(10, 1).digest != draw(10, 2).digest


def test_all_by_default_and_more_than_there_are() -> None:
    assert sorted(draw(None).ids) == sorted(one.id for one in TASKS)
    with pytest.raises(RecipeError, match="asks for 101 tasks of split 'train', but there are only 100"):
        draw(101)


def test_other_splits_and_excluded_tasks_are_left_out() -> None:
    tasks = [*TASKS[:5], task("dev", split="dev")]
    assert set(draw(None, tasks=tasks, exclude={"t0", "  do T1!"}).ids) == {"t2", "t3", "t4"}


def test_tasks_of_one_instruction_are_different_tasks() -> None:
    tasks = [task("a", instruction="same"), task("b", instruction="same"), task("a", instruction="same")]
    assert sorted(draw(None, tasks=tasks).ids) == ["a", "b"]


def test_overlap_is_refused_by_id_and_by_text() -> None:
    first = draw(None, tasks=[task("a", instruction="Where is \u00c9vora?"), task("b")])
    check_disjoint(first, draw(None, tasks=[task("c")]))
    with pytest.raises(StoreError, match="task 'b' is in both panels"):
        check_disjoint(first, draw(None, tasks=[task("c"), task("b", instruction="other")]))
    with pytest.raises(StoreError, match="task 'z' asks the same as task 'a'"):
        check_disjoint(first, draw(None, tasks=[task("z", instruction="  WHERE is\u2028 e\u0301vora")]))


def test_normal_text() -> None:
    assert normal_text(" \uff21 well-known_\tNAME\u2019s Stra\u00dfe?! ") == "a well known name s strasse"


def test_a_panel_is_saved_and_given_its_tasks_again(tmp_path: Path) -> None:
    path, panel = tmp_path / "panel.json", draw(7)
    save_panel(path, panel)
    loaded = load_panel(path)
    assert loaded == panel
    assert loaded.ids == panel.ids
    with pytest.raises(StoreError, match="attach its tasks"):
        _ = loaded.tasks
    assert loaded.attach(TASKS).tasks == panel.tasks


def test_attaching_other_tasks_is_refused() -> None:
    panel = draw(None, tasks=TASKS[:3])
    with pytest.raises(StoreError, match=r"'t[02]' is not among"):
        panel.attach(TASKS[1:2])
    with pytest.raises(StoreError, match="'t1' is no longer the same problem"):
        panel.attach([TASKS[0], task("t1", gold=["new"]), TASKS[2]])


@pytest.mark.parametrize(
    "text", ["[]", '{"split": "train"}', "{", '{"split": "no", "seed": 0, "digest": "", "tasks": []}']
)
def test_files_that_are_no_panels(tmp_path: Path, text: str) -> None:
    path = tmp_path / "panel.json"
    path.write_text(text)
    with pytest.raises(StoreError, match=r"panel\.json is not"):
        load_panel(path)


def test_a_panel_changed_by_hand_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "panel.json"
    save_panel(path, draw(3))
    content = json.loads(path.read_text())
    del content["tasks"][0]
    path.write_text(json.dumps(content))
    with pytest.raises(StoreError, match="changed by hand"):
        load_panel(path)


def numbered(count: int, split: str = "dev") -> list[Task]:
    return [
        Task(id=f"q{n}", environment="e", split=split, kind=str(n % 3), instruction=f"question {n}")
        for n in range(count)
    ]


def test_a_shuffled_panel_is_the_published_sample():
    """The ReAct paper's sample: the first positions as the public notebooks print them."""
    wanted = PanelRecipe(split="dev", size=500, seed=233, draw="shuffled", among=7405)
    ids = draw_panel(numbered(9999), wanted).ids
    assert ids[:5] == ["q3687", "q6238", "q5388", "q3522", "q3824"]
    assert ids[499] == "q4082"
    assert len(set(ids)) == 500 and max(int(name[1:]) for name in ids) < 7405


@given(st.integers(1, 40), st.integers(0, 5), st.integers(1, 40))
def test_a_shuffled_panel_permutes_the_first_positions_and_its_beginning_is_a_smaller_one(count, seed, size):
    tasks = numbered(count)
    whole = draw_panel(tasks, PanelRecipe(split="dev", seed=seed, draw="shuffled")).ids
    assert sorted(whole) == sorted(task.id for task in tasks)
    part = PanelRecipe(split="dev", size=min(size, count), seed=seed, draw="shuffled")
    assert draw_panel(tasks, part).ids == whole[: min(size, count)]


def test_a_published_sample_refuses_another_file():
    wanted = PanelRecipe(split="dev", size=5, draw="shuffled", among=7405)
    with pytest.raises(RecipeError, match=r"first 7405 tasks .* only 300.*complete file"):
        draw_panel(numbered(300), wanted)


def test_a_panel_of_ids_keeps_their_order_and_refuses_strangers_and_doubles():
    assert named_panel("dev", numbered(9), ["q7", "q2"], "mine.json").ids == ["q7", "q2"]
    with pytest.raises(RecipeError, match=r"mine.json: 'q9' is not the id"):
        named_panel("dev", numbered(9), ["q9"], "mine.json")
    with pytest.raises(RecipeError, match=r"mine.json: task 'q1' is listed more than once"):
        named_panel("dev", numbered(9), ["q1", "q1"], "mine.json")


@pytest.mark.parametrize(
    ("values", "complaint"),
    [({}, "needs a split"), ({"size": 3}, "needs a split"), ({"name": "a", "file": "b"}, "not both")],
)
def test_a_panel_is_said_in_one_way(values, complaint):
    with pytest.raises(ValueError, match=complaint):
        PanelRecipe(**values)


def test_the_same_words_about_another_world_are_another_problem() -> None:
    def world(name: str, split: str, problem: str) -> Task:
        return task(name, split=split, instruction="Find a plant.", meta={"problem": problem})

    one, other, twin = (
        world("a", "train", "plant 1"),
        world("b", "test", "plant 2"),
        world("c", "test", "Plant 1"),
    )
    assert one.content_hash != other.content_hash

    def panel(chosen: Task) -> Panel:
        return named_panel(chosen.split, [chosen], [chosen.id], "list")  # type: ignore[arg-type]

    check_disjoint(panel(one), panel(other))
    with pytest.raises(StoreError, match="'c' asks the same as task 'a'"):
        check_disjoint(panel(one), panel(twin))
    assert not draw_panel([one], PanelRecipe(split="train"), exclude={"plant 1"}).ids
