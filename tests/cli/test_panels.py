"""The panels that a recipe asks for by split, by name, or by a file."""

import json

import pytest

from pipeline.bootstrap.rules import Excluded
from pipeline.cli.panels import check_unseen, panel_tasks
from pipeline.environments.registry import load_environment
from pipeline.environments.scienceworld.environment import ScienceWorldEnvironment
from pipeline.errors import RecipeError, StoreError
from pipeline.recipe.models import EnvironmentRecipe, PanelRecipe
from pipeline.rollout.panels import panel_names, recipe_panel
from pipeline.trajectories.pairs import Pair, write_pairs
from pipeline.trajectories.panels import check_disjoint, save_panel
from tests.bootstrap.making import make_trajectory

ATLAS = load_environment(EnvironmentRecipe(name="atlas"))


def test_a_named_panel_is_drawn_as_the_environment_says():
    assert recipe_panel(ATLAS, PanelRecipe(name="test100")) == recipe_panel(
        ATLAS, PanelRecipe(split="test", size=100)
    )
    with pytest.raises(RecipeError, match=r"'react500' is neither .* atlas \(dev100"):
        recipe_panel(ATLAS, PanelRecipe(name="react500"))


def test_a_saved_panel_and_a_list_of_ids_come_back_in_their_order(tmp_path):
    drawn = recipe_panel(ATLAS, PanelRecipe(split="test", size=7, seed=3))
    save_panel(tmp_path / "panel.json", drawn)
    assert recipe_panel(ATLAS, PanelRecipe(file=str(tmp_path / "panel.json"))).tasks == drawn.tasks
    (tmp_path / "ids.json").write_text(json.dumps(drawn.ids[::-1]))
    wanted = PanelRecipe(file=str(tmp_path / "ids.json"), split="test")
    assert recipe_panel(ATLAS, wanted).ids == drawn.ids[::-1]
    assert [task.id for task in panel_tasks(ATLAS, str(tmp_path / "panel.json"))] == drawn.ids


@pytest.mark.parametrize(
    ("content", "split", "complaint"),
    [
        ('["a"]', None, "panel.split says whose"),
        ("[1]", "test", "JSON list of strings"),
        ('["nobody"]', "test", "'nobody' is not the id of a task of split 'test'"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused(tmp_path, content, split, complaint):
    (tmp_path / "ids.json").write_text(content)
    with pytest.raises(RecipeError, match=complaint):
        recipe_panel(ATLAS, PanelRecipe(file=str(tmp_path / "ids.json"), split=split))


def test_a_file_that_is_no_panel_is_named(tmp_path):
    (tmp_path / "p.json").write_text('{"split": "test"}')
    with pytest.raises(StoreError, match=r"p\.json is not a panel"):
        recipe_panel(ATLAS, PanelRecipe(file=str(tmp_path / "p.json")))


def test_a_panel_that_the_environment_lists_task_by_task():
    world = ScienceWorldEnvironment(kinds=["7-1", "4-4"])
    panel = recipe_panel(world, PanelRecipe(name="test_first10"))
    assert (panel.split, len(panel)) == ("test", 20)
    assert len(recipe_panel(world, PanelRecipe(name="train_sampled", size=6))) == 6
    assert {"test", "test_first10", "train_sampled"} <= set(panel_names(world))
    with pytest.raises(RecipeError, match=r"neither a file nor a panel of scienceworld \(dev, dev_sampled"):
        recipe_panel(world, PanelRecipe(name="react500"))


def test_training_on_another_variation_of_the_same_words_is_no_leak():
    world = ScienceWorldEnvironment(kinds=["4-4", "7-1", "9-1"])
    train = recipe_panel(world, PanelRecipe(name="train_sampled"))
    test = recipe_panel(world, PanelRecipe(name="test_first10"))
    check_disjoint(train, test)
    assert Excluded.of([test]).holds(test.tasks[0]) and not any(map(Excluded.of([test]).holds, train.tasks))


def test_pairs_of_another_run_may_hold_no_task_of_the_panel(tmp_path):
    task = recipe_panel(ATLAS, PanelRecipe(split="train", size=1)).tasks[0]
    half = make_trajectory(1, task=task)
    write_pairs(tmp_path / "pairs.jsonl", [Pair(chosen=half, rejected=half, shared=0)])
    check_unseen(recipe_panel(ATLAS, PanelRecipe(split="test", size=5)), tmp_path / "selected.jsonl")
    with pytest.raises(StoreError, match="held out for the evaluation"):
        check_unseen(recipe_panel(ATLAS, PanelRecipe(split="train", size=5)), tmp_path / "selected.jsonl")
