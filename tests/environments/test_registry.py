from importlib.metadata import EntryPoint

import pytest

from pipeline.environments import registry
from pipeline.environments.base import Environment
from pipeline.environments.registry import environment_names, load_environment
from pipeline.errors import EnvironmentFault, RecipeError
from pipeline.recipe.models import EnvironmentRecipe


def test_the_embedded_environment_is_found_and_keeps_the_protocol():
    assert "atlas" in environment_names()
    environment = load_environment(EnvironmentRecipe(name="atlas", family="claims", kinds=["REFUTES"]))
    assert isinstance(environment, Environment)
    assert environment.label == "Claim"
    assert {task.kind for task in environment.tasks("dev")} == {"REFUTES"}


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(RecipeError, match=r"'altas' is not an environment; known are: .*atlas"):
        load_environment(EnvironmentRecipe(name="altas"))


def test_an_unknown_option_is_refused():
    with pytest.raises(RecipeError, match=r"options of 'atlas': .*'path'"):
        load_environment(EnvironmentRecipe(name="atlas", options={"path": "x"}))


def test_a_fixed_argument_cannot_be_an_option():
    with pytest.raises(RecipeError, match="options of 'atlas'"):
        load_environment(EnvironmentRecipe(name="atlas", options={"family": "claims"}))


def test_code_that_cannot_be_imported_is_the_environments_fault(monkeypatch):
    broken = EntryPoint("broken", "no_such_module_at_all:Thing", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [broken])
    assert environment_names() == ["broken"]
    with pytest.raises(EnvironmentFault, match="'broken' cannot be loaded"):
        load_environment(EnvironmentRecipe(name="broken"))
