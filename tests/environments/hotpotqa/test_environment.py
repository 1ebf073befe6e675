import json
import random
from collections import Counter
from pathlib import Path

import pytest

from pipeline.environments.base import Environment
from pipeline.environments.hotpotqa import HotpotQAEnvironment
from pipeline.environments.registry import _check_options
from pipeline.environments.wiki.duplicates import duplicates
from pipeline.errors import EnvironmentFault, FormatError, RecipeError
from pipeline.recipe.models import EnvironmentRecipe
from pipeline.trajectories.panels import draw_panel
from tests.environments.hotpotqa.data import QUESTIONS, write

SHARED = Path(__file__).resolve().parents[3] / "../shared/data/hotpotqa"
FORMS = ["official", "hub_json", "hub_jsonl", "hub_parquet"]


def shared(name):
    if not (SHARED / name).is_file():
        pytest.skip("no shared folder beside the repository")
    return str(SHARED / name)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_tasks(tmp_path, form):
    environment = HotpotQAEnvironment(data=str(write(tmp_path, form)))
    first, second, third = environment.tasks("dev")
    assert first.model_dump() == {
        "id": "hotpotqa-aa1",
        "environment": "hotpotqa",
        "family": "",
        "split": "dev",
        "kind": "bridge",
        "instruction": QUESTIONS[0]["question"],
        "gold": ["Norway"],
        "meta": {"level": "hard", "supporting_facts": [["Blue Clock & Co.", 0], ["Tern City", 5]]},
    }
    assert (second.kind, second.gold, second.meta["level"]) == ("comparison", ["yes"], "easy")
    assert third.instruction == "Who built the wall?"
    assert third.gold == ["Rodri\u0301guez"]


def test_the_simplified_file_is_known_by_positions(tmp_path):
    path = str(write(tmp_path, "simplified"))
    assert [task.id for task in HotpotQAEnvironment(data=path).tasks("dev")] == [
        "hotpotqa-dev-0",
        "hotpotqa-dev-1",
        "hotpotqa-dev-2",
    ]
    (task, *_) = HotpotQAEnvironment(data={"train": path}).tasks("train")
    assert (task.id, task.meta, task.kind) == ("hotpotqa-train-0", {}, "bridge")
    assert HotpotQAEnvironment(data=path).expert(task, 0) is None


def test_the_test_file_has_no_answers(tmp_path):
    environment = HotpotQAEnvironment(data={"test": str(write(tmp_path, "test"))})
    (task, *_) = environment.tasks("test")
    assert (task.gold, task.kind, task.meta) == ([], "", {})
    assert environment.expert(task, 0) is None
    episode = environment.episode(task)
    assert episode.step("Search[Oslo]").text == "Oslo is a city."
    episode.step("Finish[Norway]")
    assert not episode.grade().correct


@pytest.mark.parametrize("form", FORMS)
def test_the_contexts_are_the_wiki(tmp_path, form):
    environment = HotpotQAEnvironment(data=str(write(tmp_path, form)), shown=2)
    episode = environment.episode(next(environment.tasks("dev")))
    assert episode.reset() == ""
    # The title's entity is read, and of two paragraphs of the same title one is the page.
    assert episode.step("Search[Blue Clock & Co.]").text == (
        "Blue Clock & Co. is a shop. It stands in Tern City."
    )
    assert episode.step("Search[oslo]").text == "Oslo is a city."
    assert episode.step("Search[Empty]").text.startswith("Could not find Empty.")
    assert episode.step("Search[Tern City]").text == "Tern City is a port. It is old."
    assert episode.step("Lookup[Norway]").text == "(Result 1 / 1) The city lies in Norway."


def test_it_keeps_the_protocol(tmp_path):
    environment = HotpotQAEnvironment(data=str(write(tmp_path, "official")))
    assert isinstance(environment, Environment)
    assert (environment.name, environment.family, environment.label, environment.max_steps) == (
        "hotpotqa",
        "",
        "Question",
        7,
    )
    assert not environment.blocking
    assert environment.normalise("The  Norway.") == "norway"
    with pytest.raises(RecipeError, match="its options are: data, hold_out, wiki, wording, shown"):
        _check_options(EnvironmentRecipe(name="hotpotqa"), HotpotQAEnvironment)


def test_the_version_names_data_wiki_and_wording(tmp_path):
    path = str(write(tmp_path, "official"))
    versions = [
        HotpotQAEnvironment(data=path, **options).version
        for options in ({}, {"wording": "react2022"}, {"shown": 3}, {"hold_out": 1})
    ]
    versions.append(HotpotQAEnvironment(data=str(write(tmp_path, "hub_jsonl"))).version)
    assert len(set(versions)) == 5
    assert versions[0] == HotpotQAEnvironment(data={"dev": path}).version
    assert versions[0].startswith("1-")


def test_held_out_tasks_do_not_depend_on_the_order(tmp_path):
    rows = [{"_id": str(number), "question": f"Is it {number}?", "answer": "yes"} for number in range(50)]
    splits = []
    for name in ("one", "two"):
        (tmp_path / name).write_text(json.dumps(rows))
        environment = HotpotQAEnvironment(data=str(tmp_path / name), hold_out=20)
        splits.append([{task.id for task in environment.tasks(split)} for split in ("train", "test")])
        assert all(task.split == "test" for task in environment.tasks("test"))
        random.Random(1).shuffle(rows)
    assert splits[0] == splits[1]
    train, test = splits[0]
    assert (len(train), len(test), len(train & test)) == (30, 20, 0)
    with pytest.raises(RecipeError, match="has no split 'dev', only train, test"):
        environment.tasks("dev")
    smaller = HotpotQAEnvironment(data=str(tmp_path / "one"), hold_out=5)
    assert {task.id for task in smaller.tasks("test")} < test


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": ""}, "names no data: give the path of a file"),
        ({"data": {}}, "names no data"),
        ({"data": {"validation": "x"}}, "'validation' is no split: they are train, dev and test"),
        ({"data": {"dev": 7}}, "data.dev: 7 is not a path"),
        ({"data": {"dev": "x"}, "hold_out": 3}, "hold_out divides one file"),
        ({"hold_out": -1}, "hold_out: -1 is not a number of tasks"),
        ({"hold_out": True}, "hold_out: True is not a number of tasks"),
        ({"kinds": ["riddle"]}, "'riddle' is not a kind of hotpotqa; known are: bridge, comparison"),
        ({"family": "questions"}, "hotpotqa has no families"),
        ({"shown": 0}, "shown: 0 is not a number"),
        ({"wording": "new"}, "'new' is not a wording"),
        ({"wiki": "local"}, "wiki.backend is one of: contexts, local, live, none"),
        ({"wiki": {"backend": "web"}}, "wiki.backend is one of"),
        ({"wiki": {"backend": "contexts", "folder": "x"}}, "'folder' is not a key of backend 'contexts'"),
        (
            {"wiki": {"backend": "live", "agent": "x"}},
            "'agent' is not a key of backend 'live'; known are: cache, offline, user_agent, url",
        ),
        ({"wiki": {"backend": "live", "offline": "yes"}}, "wiki.offline: 'yes' is not true or false"),
        ({"wiki": {"backend": "local"}}, "wiki.folder is missing"),
        ({"wiki": {"backend": "local", "folder": " "}}, "wiki.folder is empty"),
    ],
)
def test_wrong_options_are_refused(tmp_path, options, message):
    options = {"data": str(write(tmp_path, "official")), **options}
    with pytest.raises(RecipeError, match=message):
        HotpotQAEnvironment(**options)


def test_data_that_is_not_there_or_not_enough(tmp_path):
    with pytest.raises(EnvironmentFault, match="there is no data file at"):
        HotpotQAEnvironment(data=str(tmp_path / "none.json"))
    path = str(write(tmp_path, "official"))
    with pytest.raises(RecipeError, match="has no split 'train', only dev"):
        HotpotQAEnvironment(data=path).tasks("train")
    with pytest.raises(RecipeError, match="3 of 3 tasks leave none to train on"):
        list(HotpotQAEnvironment(data=path, hold_out=3).tasks("test"))
    bare = HotpotQAEnvironment(data=str(write(tmp_path, "simplified")))
    task = next(bare.tasks("dev"))
    with pytest.raises(EnvironmentFault, match="the data has no context paragraphs"):
        bare.episode(task)
    unsearched = HotpotQAEnvironment(data=str(write(tmp_path, "simplified")), wiki={"backend": "none"})
    episode = unsearched.episode(task)
    with pytest.raises(EnvironmentFault, match="nothing can be searched with"):
        episode.step("Search[Oslo]")
    episode.step("Finish[norway]")
    assert episode.grade().correct


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"claim": "x"}, "'question' is None, not a text"),
        ({"question": 3}, "'question' is 3, not a text"),
        ({"question": "x", "answer": ["a"]}, "'answer' is .*, not a text"),
        ({"question": "x", "supporting_facts": [["a"]]}, "supporting_facts holds"),
        (
            {"question": "x", "supporting_facts": [["a", "0"]]},
            "supporting sentence is '0', not a whole number",
        ),
        ({"question": "x", "supporting_facts": {"title": ["a"], "sent_id": []}}, "1 titles, but 0 times"),
        ({"question": "x", "_id": "a"}, "the id of task 'hotpotqa-a' stands in the data twice"),
    ],
)
def test_a_broken_row_is_named(tmp_path, row, message):
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps({"question": "y", "_id": "a"}) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(FormatError, match=message) as caught:
        list(HotpotQAEnvironment(data=str(path)).tasks("dev"))
    assert f"{path}, line 2" in str(caught.value)


def test_kinds(tmp_path):
    environment = HotpotQAEnvironment("", ["comparison"], data=str(write(tmp_path, "official")))
    assert [task.id for task in environment.tasks("dev")] == ["hotpotqa-bb2"]


def test_the_published_panel():
    environment = HotpotQAEnvironment(data=shared("dev_simplified.json"))
    panel = draw_panel(environment.tasks("dev"), environment.panels["react500"])
    positions = [int(name.rsplit("-", 1)[1]) for name in panel.ids]
    assert positions[:5] == [3687, 6238, 5388, 3522, 3824]
    assert (positions[-1], len(set(positions))) == (4082, 500)
    assert Counter(task.kind for task in panel.tasks) == {"bridge": 396, "comparison": 104}


def test_no_question_of_the_development_set_is_asked_twice():
    environment = HotpotQAEnvironment(data=shared("dev_simplified.json"))
    report = duplicates(environment.tasks("dev"))
    assert report.tasks == 7405
    assert (report.contradictory, len(report.repeated)) == ((), report.tasks - report.texts)
