"""Who plays: how an entry's model is found, and that a student is asked as it was trained."""

import json
from pathlib import Path

import pytest

from pipeline.environments.registry import load_environment
from pipeline.errors import ModelError, RecipeError
from pipeline.evaluation.entrants import Found, check_prompt, entrants
from pipeline.methods.prompts import spec_for
from pipeline.methods.registry import load_method
from pipeline.recipe.models import EnvironmentRecipe, MethodRecipe, ModelRecipe, Recipe
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
    assert found.model.recipe == ModelRecipe(address=str(folder), batch_size=7)
    assert (found.kind, found.model.base) == ("fine-tuned", "base")


def test_a_model_of_the_recipe_is_only_prompted(tmp_path):
    (found,) = entrants(recipe("base"), tmp_path)
    assert (found.kind, found.model.recipe.address) == ("prompted", "somewhere")


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


def student(**stamp: str) -> Found:
    trained = {"renderer": "text", "style": "react", "spec_digest": spec_digest(spec_for(ATLAS, "react", 0))}
    return Found(ModelRecipe(address="m"), {**trained, **stamp})


def test_a_student_asked_as_it_was_trained_passes():
    asked = MethodRecipe(name="react", shots=0)
    check_prompt(student(), load_method(asked), ATLAS, asked)


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
        check_prompt(student(**stamp), load_method(asked), ATLAS, asked)


def test_a_model_that_is_only_prompted_may_be_asked_in_any_way():
    asked = MethodRecipe(name="act")
    check_prompt(Found(ModelRecipe(address="m"), {}), load_method(asked), ATLAS, asked)


def test_the_expert_is_scripted_whatever_the_recipe_calls_it(tmp_path):
    (found,) = entrants(
        recipe("oracle", models={"oracle": {"address": "expert"}, "base": {"address": "b"}}), tmp_path
    )
    assert found.kind == "scripted"


def test_swiftsage_has_two_models_and_the_trained_one_makes_it_fine_tuned(tmp_path):
    folder = checkpoint(tmp_path / "r" / "act", style="act", renderer="swift")
    asked = {"model": "base", "method": {"name": "swiftsage", "swift": {"model": "student"}}}
    (found,) = entrants(recipe(evaluate={"entries": [asked]}), tmp_path)
    assert (found.model.recipe.address, found.kind) == ("somewhere", "fine-tuned")
    assert found.swift is not None and found.swift.recipe == ModelRecipe(address=str(folder), batch_size=7)


def test_what_a_student_started_from_is_a_baseline(tmp_path):
    checkpoint(tmp_path / "r" / "act.start", style="act", renderer="swift")
    entries = [{"model": "untrained", "method": {"name": "swift"}}]
    (found,) = entrants(recipe(evaluate={"entries": entries}), tmp_path)
    assert (found.kind, found.model.base) == ("prompted", "base")
    entries = [{"model": "untrained", "method": {"name": "react"}}]
    with pytest.raises(ModelError, match=r"react\.start: there is no untrained start here"):
        entrants(recipe(evaluate={"entries": entries}), tmp_path)


def test_random_actions_are_a_baseline_whoever_sits_there(tmp_path):
    (found,) = entrants(
        recipe(evaluate={"entries": [{"model": "expert", "method": {"name": "random_valid"}}]}), tmp_path
    )
    assert found.kind == "prompted"


def test_swift_is_asked_as_its_rows_were_made():
    asked = MethodRecipe(name="swift")
    method = load_method(asked)
    trained = method.trained_as(ATLAS)
    check_prompt(Found(ModelRecipe(address="m"), trained), method, ATLAS, asked)
    with pytest.raises(ModelError, match="trained with renderer 'text'"):
        check_prompt(student(), method, ATLAS, asked)
    shorter = {**trained, "history": 5}
    with pytest.raises(ModelError, match="trained with history 5 but asked with 10"):
        check_prompt(Found(ModelRecipe(address="m"), shorter), method, ATLAS, asked)
