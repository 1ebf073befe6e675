"""Who plays: how an entry's model is found, and that a student is asked as it was trained."""

import json
from pathlib import Path

import pytest

from pipeline.environments.registry import load_environment
from pipeline.errors import ModelError, RecipeError
from pipeline.evaluation.play import Entrant, check_prompt, entrants
from pipeline.methods.prompts import spec_for
from pipeline.methods.registry import load_method
from pipeline.recipe.models import EntryRecipe, EnvironmentRecipe, MethodRecipe, ModelRecipe, Recipe
from pipeline.rendering.digest import spec_digest

ATLAS = load_environment(EnvironmentRecipe(name="atlas", family="questions"))


def recipe(model: str = "student", **sections) -> Recipe:
    return Recipe.model_validate(
        {
            "name": "r",
            "environment": {"name": "atlas"},
            "models": {"base": {"address": "somewhere", "batch_size": 7}},
            "train": {"model": "base"},
            "evaluate": {"entries": [{"model": model, "method": {"name": "react", "shots": 0}}]},
            **sections,
        }
    )


def checkpoint(folder: Path, **stamp: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "staract.json").write_text(json.dumps(stamp))
    return folder


def test_a_student_is_the_checkpoint_of_the_methods_style_run_as_its_base_is(tmp_path):
    folder = checkpoint(tmp_path / "r" / "react", style="react")
    (found,) = entrants(recipe(), tmp_path)
    assert found.recipe == ModelRecipe(address=str(folder), batch_size=7)
    assert (found.kind, found.base) == ("fine-tuned", "base")


def test_a_model_of_the_recipe_is_only_prompted(tmp_path):
    (found,) = entrants(recipe("base"), tmp_path)
    assert (found.kind, found.recipe.address) == ("prompted", "somewhere")


def test_a_checkpoint_by_its_folder_is_fine_tuned_too(tmp_path):
    folder = checkpoint(tmp_path / "elsewhere", style="react")
    (found,) = entrants(recipe("base", models={"base": {"address": str(folder)}}), tmp_path)
    assert found.kind == "fine-tuned"


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(ModelError, match=r"run `staract train` first"):
        entrants(recipe(), tmp_path)
    with pytest.raises(RecipeError, match="no train section"):
        entrants(recipe(train=None), tmp_path)
    with pytest.raises(RecipeError, match="no evaluate section"):
        entrants(recipe(evaluate=None), tmp_path)


def entrant(method: MethodRecipe, **stamp: str) -> Entrant:
    trained = {"renderer": "text", "style": "react", "spec_digest": spec_digest(spec_for(ATLAS, "react", 0))}
    return Entrant(EntryRecipe(model="m", method=method), ModelRecipe(address="m"), {**trained, **stamp}, "")


def test_a_student_asked_as_it_was_trained_passes():
    asked = MethodRecipe(name="react", shots=0)
    check_prompt(entrant(asked), load_method(asked), ATLAS, asked)


@pytest.mark.parametrize(
    ("asked", "stamp", "key"),
    [
        (MethodRecipe(name="react", shots=0, renderer="chat"), {}, "renderer"),
        (MethodRecipe(name="act", shots=0), {}, "style"),
        (MethodRecipe(name="react", shots=0), {"spec_digest": "0123"}, "spec_digest"),
    ],
)
def test_a_student_asked_otherwise_is_refused(asked, stamp, key):
    with pytest.raises(ModelError, match=f"trained with {key} "):
        check_prompt(entrant(asked, **stamp), load_method(asked), ATLAS, asked)


def test_a_model_that_is_only_prompted_may_be_asked_in_any_way():
    asked = MethodRecipe(name="act")
    player = Entrant(EntryRecipe(model="m", method=asked), ModelRecipe(address="m"), {}, "")
    check_prompt(player, load_method(asked), ATLAS, asked)


def test_the_expert_is_scripted_whatever_the_recipe_calls_it(tmp_path):
    (found,) = entrants(
        recipe("oracle", models={"oracle": {"address": "expert"}, "base": {"address": "b"}}), tmp_path
    )
    assert found.kind == "scripted"
