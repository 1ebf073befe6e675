"""The recipes of the repository: each loads, says how it is run, and fits the others."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from pipeline.environments.fever import FeverEnvironment
from pipeline.environments.hotpotqa import HotpotQAEnvironment
from pipeline.environments.scienceworld.environment import ScienceWorldEnvironment
from pipeline.environments.scienceworld.names import GOLD_STEPS
from pipeline.methods.registry import method_names
from pipeline.recipe.load import load_recipe
from pipeline.training.layout import accumulation

ROOT = Path(__file__).parents[2]
PATHS = sorted(
    path for path in (ROOT / "recipes").rglob("*.yaml") if path.parent.name not in ("accelerate", "ray")
)
WIKI = ("hotpotqa", "fever")
SUITE = [
    "dpo_8b", "evaluate_figure2", "evaluate_figure3", "evaluate_table1", "sft_act_8b", "sft_cot_8b",
    "sft_react_8b_full", "sft_react_8b_lora", "sft_standard_8b", "teacher_3000",
]  # fmt: skip
PROMPTED = ["standard", "cot", "cot_sc", "act", "react", "react_then_cot_sc", "cot_sc_then_react"]
STEPS = {"hotpotqa": 7, "fever": 5}


def called(path):
    return f"{path.parent.name}/{path.stem}"


@cache
def recipe(name, *overrides):
    return load_recipe(ROOT / "recipes" / f"{name}.yaml", ["data=x", *overrides])


def header(path):
    """The comment that a recipe opens with, unwrapped, and the command on its first line."""
    lines = path.read_text(encoding="utf-8").split("\n")
    comment = [line.removeprefix("#").strip() for line in lines[: lines.index(next(filter(is_key, lines)))]]
    return " ".join(comment), comment[0]


def is_key(line):
    return bool(line) and not line.startswith("#")


def methods(loaded):
    entries = loaded.evaluate.entries if loaded.evaluate else []
    own = [loaded.generate.method] if loaded.generate else []
    return [*own, *(entry.method for entry in entries)]


@pytest.mark.parametrize("path", PATHS, ids=called)
def test_a_recipe_loads_and_opens_with_its_command(path):
    loaded = recipe(called(path))
    assert loaded.description
    assert loaded.environment.name == path.parent.name
    assert header(path)[1].startswith(f"staract run recipes/{called(path)}.yaml")
    assert {method.name for method in methods(loaded)} <= set(method_names())


@pytest.mark.parametrize("path", PATHS, ids=called)
def test_a_recipe_that_needs_data_refers_to_it_everywhere(path):
    loaded = load_recipe(path, ["data=somewhere"])
    assert ("data=<" in header(path)[1]) == ("somewhere" in loaded.environment.model_dump_json())
    assert "${" not in loaded.model_dump_json()


def test_no_two_recipes_share_a_run():
    names = Counter(recipe(called(path)).name for path in PATHS)
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("world", WIKI)
def test_a_wiki_environment_has_the_whole_suite(world):
    found = [path.stem for path in PATHS if path.parent.name == world]
    assert [name for name in found if name != "offline_sample"] == SUITE


@pytest.mark.parametrize("world", WIKI)
def test_the_teacher_stops_at_its_target_and_exports_every_style(world):
    teacher = recipe(f"{world}/teacher_3000")
    assert (teacher.generate.until, teacher.generate.per_task, teacher.generate.samples) == (3000, 1, 4)
    assert (teacher.generate.panel.split, teacher.select.target) == ("train", 3000)
    assert set(teacher.export.styles) == {"standard", "cot", "act", "react"}
    assert set(teacher.environment.options["data"]) == {"train", "dev"}


@pytest.mark.parametrize("name", [name for name in SUITE if name.startswith("sft_")])
@pytest.mark.parametrize("world", WIKI)
def test_a_student_is_trained_as_in_the_paper(world, name):
    student, teacher = recipe(f"{world}/{name}"), recipe(f"{world}/teacher_3000")
    [style] = student.train.styles
    assert style == name.split("_")[1]
    assert student.train.run == teacher.name
    assert style in teacher.export.styles
    assert student.train.rows_a_step == 64
    assert [accumulation(student.train, devices) for devices in (1, 2, 4, 8, 16)] == [16, 8, 4, 2, 1]
    # An adapter fits on every GPU, the whole model with its optimiser on none.
    wanted = "ddp" if student.train.lora else "zero3"
    assert f" train.accelerate={wanted}" in header(ROOT / "recipes" / world / f"{name}.yaml")[1]
    assert not student.train.packing
    assert student.train.max_steps == (4000 if style in ("react", "act") else 2000)
    assert (student.train.lora is not None) == name.endswith("_lora")
    [entry] = student.evaluate.entries
    # A dataset of raw text trains the text renderer, and no exemplar is shown.
    assert teacher.export.format == entry.method.renderer == "text"
    assert (entry.model, entry.method.name, entry.method.shots) == ("student", style, 0)


@pytest.mark.parametrize("world", WIKI)
def test_pairs_correct_the_student_of_the_suite(world):
    loaded, student = recipe(f"{world}/dpo_8b"), recipe(f"{world}/sft_react_8b_lora")
    teacher = recipe(f"{world}/teacher_3000")
    assert loaded.models[loaded.train.model].address == f"checkpoints/{student.name}/react"
    assert loaded.generate.model == loaded.train.model
    assert loaded.generate.samples > 1
    assert loaded.generate.method.temperature > 0
    assert (loaded.export.pairs.runs, loaded.export.format) == ([teacher.name], teacher.export.format)
    assert loaded.select.exclude == teacher.select.exclude
    assert (loaded.train.lora, loaded.train.dpo.beta) == (student.train.lora, 0.1)
    assert [accumulation(loaded.train, devices) for devices in (1, 2, 4, 8, 16)] == [16, 8, 4, 2, 1]


def test_the_small_pairs_correct_the_quickstarts_student():
    loaded, student = recipe("atlas/dpo"), recipe("atlas/quickstart")
    assert loaded.models["sft"].address == f"checkpoints/{student.name}/react"
    assert loaded.evaluate.panel == student.evaluate.panel
    assert loaded.export.format == student.export.format


@pytest.mark.parametrize("path", [path for path in PATHS if path.parent.name in WIKI], ids=called)
def test_agents_have_the_steps_of_the_paper(path):
    if path.stem == "offline_sample":
        pytest.skip("a sample of its own")
    loaded = recipe(called(path))
    limits = {
        method.max_steps
        for method in methods(loaded)
        if method.name in ("act", "react", "react_then_cot_sc", "cot_sc_then_react")
    }
    assert limits <= {STEPS[path.parent.name]}
    if loaded.evaluate:
        assert loaded.evaluate.panel.name == "react500"


@pytest.mark.parametrize("table", ["evaluate_table1", "evaluate_figure2"])
@pytest.mark.parametrize("world", WIKI)
def test_hybrids_can_reuse_the_episodes_of_their_parts(world, table):
    loaded = recipe(f"{world}/{table}")
    found = {entry.method.name: entry.method for entry in loaded.evaluate.entries}
    assert set(found) <= set(PROMPTED)
    for hybrid in ("react_then_cot_sc", "cot_sc_then_react"):
        assert found[hybrid].model_copy(update={"name": "react"}).model_dump(exclude={"vote"}) == found[
            "react"
        ].model_dump(exclude={"vote"})
        assert found[hybrid].vote == found["cot_sc"].vote
    assert (found["cot_sc"].vote.samples, found["cot_sc"].vote.temperature) == (21, 0.7)


@pytest.mark.parametrize("table", ["evaluate_table1", "evaluate_figure2"])
@pytest.mark.parametrize("world", WIKI)
def test_one_override_turns_a_comparison_to_chat(world, table):
    loaded = recipe(f"{world}/{table}", "evaluate.entries.0.method.renderer=chat")
    assert {entry.method.renderer for entry in loaded.evaluate.entries} == {"chat"}


@pytest.mark.parametrize("world", WIKI)
def test_table_1_has_every_prompting_method_once(world):
    loaded = recipe(f"{world}/evaluate_table1")
    assert [entry.method.name for entry in loaded.evaluate.entries] == PROMPTED


@pytest.mark.parametrize("world", WIKI)
def test_figure_3_has_every_size_method_and_kind_and_finds_the_students(world):
    loaded = recipe(f"{world}/evaluate_figure3")
    entries = [(entry.model, entry.method.name, entry.method.shots) for entry in loaded.evaluate.entries]
    assert entries == [
        entry
        for size in ("small", "medium", "large")
        for entry in [
            *((size, style, None) for style in ("standard", "cot", "act", "react")),
            *((f"{size}_{style}", style, 0) for style in ("standard", "cot", "act", "react")),
        ]
    ]
    trained = {f"{world}/{name}": recipe(f"{world}/{name}") for name in SUITE if name.startswith("sft_")}
    full = [student for student in trained.values() if not student.train.lora]
    assert {loaded.models[f"large_{style}"].address for style in ("standard", "cot", "act", "react")} == {
        f"checkpoints/{student.name}/{student.train.styles[0]}" for student in full
    }
    assert {student.models["base"].address for student in full} == {loaded.models["large"].address}


@pytest.mark.parametrize("path", PATHS, ids=called)
def test_overrides_in_a_header_are_keys_of_the_recipe(path):
    text = re.sub(r"<[^>]*>", "'1'", header(path)[0])
    told = re.findall(r"(?<!\S)([a-z_]+(?:\.\w+)+=\S+?)[).,;:]*(?=\s|$)", text)
    assert recipe(called(path), *told)


def test_the_page_about_wikis_names_recipes_and_panels_that_are_there():
    text = (ROOT / "docs" / "wiki.md").read_text(encoding="utf-8")
    told = re.findall(r"recipes/([a-z]+/\w+)\.yaml", text)
    assert {"hotpotqa/offline_sample", "hotpotqa/teacher_3000", "hotpotqa/evaluate_table1"} <= set(told)
    assert set(told) <= {called(path) for path in PATHS}
    assert {name for name in SUITE if f"`{name}`" not in text and f"/{name}." not in text} == set()
    panels = {**HotpotQAEnvironment.panels, **FeverEnvironment.panels}
    assert set(re.findall(r"\{name: (\w+)\}", text)) == set(panels)


@pytest.mark.parametrize("name", ["t5_large", "flan_t5_large"])
def test_swift_is_trained_as_published(name):
    loaded = recipe(f"scienceworld/{name}")
    train = loaded.train
    assert loaded.models[train.model].address.split("/")[1] == name.replace("_", "-")
    assert (train.learning_rate, train.adam_epsilon, train.epochs, train.seed) == (1e-4, 1e-6, 8, 42)
    assert (train.rows_a_step, train.batch_size) == (32, 8)
    assert [accumulation(train, devices) for devices in (1, 2, 4)] == [4, 2, 1]
    assert accumulation(recipe(f"scienceworld/{name}", "train.batch_size=4").train, 8) == 1
    assert (train.max_length, train.target_length) == (1024, 16)
    assert (train.save_every, train.stop_on, train.patience) == (100, "loss", 20)
    gold = recipe("scienceworld/gold")
    assert train.run == gold.name
    # A move limit of 100, as published.
    assert "max_steps" not in loaded.environment.options
    [entry] = loaded.evaluate.entries
    assert (entry.model, entry.method.name, loaded.evaluate.panel.name) == (
        "student",
        "swift",
        "test_first10",
    )
    assert (entry.method.swift.history, entry.method.swift.beams) == (gold.export.history, 5)


def test_swifts_data_is_made_as_published():
    gold = recipe("scienceworld/gold")
    assert (gold.export.format, gold.export.history, gold.export.skip_first) == ("swift", 10, True)
    # A development loss needs rows to be taken on.
    assert gold.export.dev_fraction > 0
    assert (gold.generate.model, gold.generate.method.name) == ("expert", "act")
    split, ids = ScienceWorldEnvironment.listed[gold.generate.panel.name]
    assert (split, len(ids) <= gold.select.target) == ("train", True)
    # Gold paths need more than the customary 100 moves.
    assert gold.environment.options["max_steps"] == GOLD_STEPS


def test_swiftsage_finds_the_student_of_its_header():
    loaded = recipe("scienceworld/swiftsage")
    student = recipe("scienceworld/flan_t5_large")
    both, alone = loaded.evaluate.entries
    assert (both.method.name, both.method.swift.model, alone.method.name) == ("swiftsage", "swift", "swift")
    assert loaded.models[alone.model].address == f"checkpoints/{student.name}/act"
    assert loaded.models[both.model].address.startswith("openai:")
    # As published: a wait takes eleven moves.
    assert loaded.environment.options["max_steps"] == both.method.max_steps == 300
    assert both.method.swift.history == alone.method.swift.history
    assert alone.method.swift == student.evaluate.entries[0].method.swift
    plain = recipe("scienceworld/swiftsage", "evaluate.entries.0.method.switch.rule=paper")
    assert plain.evaluate.entries[0].method.switch.rule == "paper"


def test_the_baselines_of_scienceworld():
    loaded = recipe("scienceworld/baselines")
    entries = [(entry.model, entry.method.name) for entry in loaded.evaluate.entries]
    assert entries == [("model", "react"), ("model", "act"), ("expert", "random_valid"), ("expert", "act")]
    text = recipe("scienceworld/baselines", "evaluate.entries.0.method.renderer=text")
    assert {entry.method.renderer for entry in text.evaluate.entries[:2]} == {"text"}
    assert loaded.environment.options["max_steps"] == GOLD_STEPS


def test_panels_that_recipes_name_are_there():
    named = {
        panel.name
        for path in PATHS
        if path.parent.name == "scienceworld"
        for part in (recipe(called(path)).generate, recipe(called(path)).evaluate)
        if part and (panel := part.panel).name
    }
    assert named <= set(ScienceWorldEnvironment.listed) | set(ScienceWorldEnvironment.panels)
    assert "test_first10" in named


def test_the_page_about_scienceworld_names_recipes_and_panels_that_are_there():
    text = (ROOT / "docs" / "scienceworld.md").read_text(encoding="utf-8")
    told = set(re.findall(r"recipes/([a-z]+/\w+)\.yaml", text))
    assert told == {called(path) for path in PATHS if path.parent.name == "scienceworld"}
    panels = set(ScienceWorldEnvironment.listed) | set(ScienceWorldEnvironment.panels)
    assert set(re.findall(r"evaluate\.panel\.name=(\w+)", text)) <= panels
