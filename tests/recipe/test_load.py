"""Recipes: what is read, what is refused, and how the refusal reads."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import RecipeError
from pipeline.recipe.load import load_recipe
from pipeline.recipe.models import Recipe

GOOD = """\
name: trial
environment: {name: atlas, family: questions}
models:
  small: {address: "openai:m@http://127.0.0.1:1"}
generate:
  model: small
  method: {name: react}
  panel: {split: train, size: 3}
train:
  model: small
  learning_rate: 1e-5
evaluate:
  entries:
    - model: small
      method: {name: react, shots: 2}
"""


def recipe(tmp_path: Path, text: str = GOOD, *overrides: str) -> Recipe:
    path = tmp_path / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return load_recipe(path, overrides)


def refusal(tmp_path: Path, text: str = GOOD, *overrides: str) -> str:
    with pytest.raises(RecipeError) as caught:
        recipe(tmp_path, text, *overrides)
    return str(caught.value).replace(str(tmp_path), "…")


def test_scientific_notation_is_a_number(tmp_path):
    assert recipe(tmp_path).train.learning_rate == 1e-5
    assert recipe(tmp_path, GOOD, "train.learning_rate=3e-4").train.learning_rate == 3e-4


def test_overrides_reach_nested_keys_and_list_items(tmp_path):
    loaded = recipe(tmp_path, GOOD, "name=other", "evaluate.entries.0.method.shots=0", "train.lora={rank: 4}")
    assert loaded.name == "other"
    assert loaded.evaluate.entries[0].method.shots == 0
    assert loaded.train.lora.rank == 4


def test_an_override_may_empty_a_stage(tmp_path):
    assert recipe(tmp_path, GOOD, "train=null").train is None


def test_a_resolved_recipe_is_a_recipe(tmp_path):
    first = recipe(tmp_path)
    path = tmp_path / "again.json"
    path.write_text(first.model_dump_json(), encoding="utf-8")
    assert load_recipe(path) == first


def test_unknown_key_names_the_line_and_the_likely_key(tmp_path):
    text = refusal(tmp_path, GOOD.replace("learning_rate", "lerning_rate"))
    assert (
        text
        == "…/recipe.yaml:11: 'train.lerning_rate' is not a key of a recipe (did you mean 'learning_rate'?)."
    )


def test_unknown_key_far_from_any_lists_the_known_ones(tmp_path):
    text = refusal(tmp_path, GOOD.replace("shots: 2", "zzz: 2"))
    assert "known here: name, renderer, shots" in text


def test_wrong_type_names_the_line_and_the_value(tmp_path):
    text = refusal(tmp_path, GOOD.replace("shots: 2", "shots: many"))
    assert text.startswith("…/recipe.yaml:15: 'evaluate.entries.0.method.shots' is 'many', but: ")


def test_missing_key(tmp_path):
    assert "'environment' is missing" in refusal(tmp_path, "name: x\n")


def test_unknown_model_names_where_and_what_is_known(tmp_path):
    text = refusal(tmp_path, GOOD.replace("- model: small", "- model: smal"))
    assert "evaluate.entries.0.model: 'smal' is not one of models (expert, small, student, untrained)" in text


def test_a_wrong_override_is_blamed_on_the_override(tmp_path):
    assert refusal(tmp_path, GOOD, "train.epochs=minus").startswith("override 'train.epochs=minus': ")


@pytest.mark.parametrize("override", ["train", "=3", " =3"])
def test_an_override_needs_a_key_and_a_value(tmp_path, override):
    assert "is not of the form key=value" in refusal(tmp_path, GOOD, override)


def test_an_override_of_a_list_item_that_is_not_there(tmp_path):
    assert "cannot be applied" in refusal(tmp_path, GOOD, "evaluate.entries.7.model=small")


@pytest.mark.parametrize("text", ["a: [1", "\tname: x", "- a\n- b\n", "just words", "a: ${oc.env:HOME}"])
def test_what_is_not_a_recipe(tmp_path, text):
    assert "recipe.yaml" in refusal(tmp_path, text)


def test_secrets_are_not_resolved_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("STARACT_TEST_SECRET", "swordfish")
    text = refusal(tmp_path, GOOD.replace("name: trial", "name: ${oc.env:STARACT_TEST_SECRET}"))
    assert "swordfish" not in text


def test_interpolation_within_the_recipe_works(tmp_path):
    assert recipe(tmp_path, GOOD + "seed: ${generate.panel.size}\n").seed == 3


def test_an_unresolvable_interpolation(tmp_path):
    assert "recipe.yaml" in refusal(tmp_path, GOOD + "seed: ${nowhere.at.all}\n")


def test_missing_file_and_binary_file(tmp_path):
    with pytest.raises(RecipeError, match="no such recipe"):
        load_recipe(tmp_path / "none.yaml")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecipeError, match="cannot be read"):
        load_recipe(tmp_path / "b.yaml")
    with pytest.raises(RecipeError, match="cannot be read"):
        load_recipe(tmp_path)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("any") / "r.yaml"
    path.write_text(text, encoding="utf-8", errors="replace")
    try:
        load_recipe(path)
    except RecipeError as error:
        assert str(error)


@pytest.mark.parametrize("override", [[], ["models.m.address=openai:m@https://me:hunter2@host/v1"]])
def test_a_password_in_an_address_is_refused_and_never_repeated(tmp_path, override):
    path = tmp_path / "r.yaml"
    address = "x" if override else "openai:m@https://me:hunter2@host/v1"
    path.write_text(f"name: r\nenvironment: {{name: atlas}}\nmodels: {{m: {{address: '{address}'}}}}\n")
    with pytest.raises(RecipeError, match=r"'models\.m\.address': a url with a name") as caught:
        load_recipe(path, override)
    assert "hunter2" not in str(caught.value)
