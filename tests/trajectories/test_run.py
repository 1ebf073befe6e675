from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import StoreError
from pipeline.recipe.models import Recipe
from pipeline.trajectories.run import open_run, recipe_digest

BASE: dict[str, Any] = {
    "name": "trial",
    "environment": {"name": "atlas", "kinds": ["bridge2"]},
    "models": {"base": {"address": "some/model"}},
    "generate": {"method": {"name": "react"}, "panel": {"split": "train", "size": 10}},
    "select": {"target": 5},
}
GENERATE = ("models", "generate")


def recipe(**changes: Any) -> Recipe:
    return Recipe.model_validate({**BASE, **changes})


def test_the_folder_and_its_recipe(tmp_path: Path) -> None:
    run = open_run(tmp_path, recipe())
    assert run.folder == tmp_path / "trial"
    assert Recipe.model_validate(json.loads(run.recipe_file.read_text())) == recipe() == run.recipe
    names = {
        path.name
        for path in (
            run.trajectories,
            run.selected,
            run.ledger,
            run.dataset,
            run.evaluation,
            run.report,
            run.logs,
        )
    }
    assert names == {
        "trajectories.jsonl",
        "selected.jsonl",
        "ledger.json",
        "dataset",
        "evaluation",
        "report",
        "logs",
    }
    assert {path.name for path in run.folder.iterdir()} == {"recipe.json"}


def test_the_same_recipe_is_welcome_and_writes_nothing(tmp_path: Path) -> None:
    file = open_run(tmp_path, recipe()).recipe_file
    before = file.stat().st_mtime_ns
    open_run(tmp_path, recipe())
    open_run(tmp_path, recipe(), GENERATE)
    assert file.stat().st_mtime_ns == before


def test_a_changed_recipe_is_refused_naming_its_keys(tmp_path: Path) -> None:
    open_run(tmp_path, recipe())
    changed = recipe(
        environment={"name": "atlas", "kinds": ["bridge3"]},
        models={"base": {"address": "some/model", "dtype": "float32"}, "new": {"address": "x"}},
        generate={"method": {"name": "act"}, "panel": {"split": "train", "size": 10}},
        select={"target": 6},
    )
    with pytest.raises(StoreError) as caught:
        open_run(tmp_path, changed)
    said = str(caught.value).partition("changed: ")[2].partition(". Put")[0]
    assert said.split(", ") == [
        "environment.kinds.0",
        "models.base.dtype",
        "models.new",
        "generate.method.name",
        "select.target",
    ]
    assert json.loads((tmp_path / "trial" / "recipe.json").read_text())["select"]["target"] == 5


def test_parts_that_are_not_asked_for_may_change(tmp_path: Path) -> None:
    open_run(tmp_path, recipe(), GENERATE)
    run = open_run(tmp_path, recipe(select={"target": 9}, description="new"), GENERATE)
    stored = json.loads(run.recipe_file.read_text())
    assert "select" not in stored
    assert stored["description"] == "new"
    assert Recipe.model_validate(stored).generate == recipe().generate
    open_run(tmp_path, recipe(select={"target": 9}), ("select",))
    with pytest.raises(StoreError, match=r"select\.target"):
        open_run(tmp_path, recipe(), ("select",))


def test_one_model_can_be_asked_for(tmp_path: Path) -> None:
    open_run(tmp_path, recipe(), ("models.base", "generate"))
    more = {**BASE["models"], "other": {"address": "y"}}
    open_run(tmp_path, recipe(models=more), ("models.base", "models.other"))
    with pytest.raises(StoreError, match=r"changed: models\.base\.address\."):
        open_run(tmp_path, recipe(models={"base": {"address": "z"}}), ("models.base",))


def test_stages_that_start_afresh_record_without_comparing(tmp_path: Path) -> None:
    open_run(tmp_path, recipe())
    run = open_run(tmp_path, recipe(select={"target": 7}), GENERATE, redo=("select",))
    assert json.loads(run.recipe_file.read_text())["select"]["target"] == 7


@pytest.mark.parametrize(("key", "value"), [("seed", 1), ("environment", {"name": "other"})])
def test_seed_and_environment_always_count(tmp_path: Path, key: str, value: Any) -> None:
    open_run(tmp_path, recipe())
    with pytest.raises(StoreError, match=f"changed: {key}"):
        open_run(tmp_path, recipe(**{key: value}), ())


@pytest.mark.parametrize("text", ["[]", "{"])
def test_a_folder_with_something_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "trial").mkdir()
    (tmp_path / "trial" / "recipe.json").write_text(text)
    with pytest.raises(StoreError, match=r"recipe\.json is not"):
        open_run(tmp_path, recipe())


def test_the_digest_follows_the_resolved_recipe() -> None:
    assert recipe_digest(recipe()) == recipe_digest(recipe(seed=0)) != recipe_digest(recipe(seed=1))


def test_a_run_made_before_a_key_existed_goes_on_with_the_keys_default(tmp_path: Path) -> None:
    run = open_run(tmp_path, recipe(), GENERATE)
    recorded = json.loads(run.recipe_file.read_text())
    del (
        recorded["generate"]["per_task"],
        recorded["models"]["base"]["stream"],
        recorded["generate"]["method"]["vote"],
    )
    run.recipe_file.write_text(json.dumps(recorded))
    open_run(tmp_path, recipe(), GENERATE)
    vote = {"method": {"name": "react", "vote": {"samples": 3}}, "panel": BASE["generate"]["panel"]}
    with pytest.raises(StoreError, match=r"changed: generate\.method\.vote\.samples"):
        open_run(tmp_path, recipe(generate=vote), GENERATE)


def test_targets_budgets_and_prices_may_change_in_the_middle_of_a_run(tmp_path: Path) -> None:
    open_run(tmp_path, recipe(), GENERATE)
    more = {**BASE["generate"], "until": 9, "samples": 4, "max_cost": 3.0, "concurrency": 2}
    priced = {"base": {"address": "some/model", "price_per_million": [1.0, 2.0], "timeout": 5}}
    run = open_run(tmp_path, recipe(generate=more, models=priced), GENERATE)
    assert json.loads(run.recipe_file.read_text())["generate"]["until"] == 9
    with pytest.raises(StoreError, match=r"changed: models\.base\.address\."):
        open_run(tmp_path, recipe(models={"base": {"address": "another"}}), GENERATE)
