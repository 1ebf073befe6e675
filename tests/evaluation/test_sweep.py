"""Checkpoints found, played in order, and compared: success against training steps."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from pipeline.errors import RecipeError, TrainingError
from pipeline.evaluation.entrants import Entrant, Found
from pipeline.evaluation.rows import Group
from pipeline.evaluation.sweep import (
    Checkpoint,
    Player,
    Point,
    Sweep,
    build_sweep,
    find_checkpoints,
    mark_best,
    players,
)
from pipeline.evaluation.sweep_figures import draw_sweep, no_effect_lines, sweep_sheet, write_sweep
from pipeline.evaluation.tables import to_terminal
from pipeline.recipe.models import EntryRecipe, MethodRecipe, ModelRecipe, Recipe
from pipeline.trajectories.schema import Outcome
from tests.evaluation.builders import episode, make_panel, make_task, verdicts

TASKS = [make_task(number) for number in range(4)]
PANEL = make_panel(TASKS)


def recipe(*methods: str, base: str = "somewhere", **sections: object) -> Recipe:
    entries = [{"model": "student", "method": {"name": name, "shots": 0}} for name in methods]
    return Recipe.model_validate(
        {
            "name": "r",
            "environment": {"name": "atlas"},
            "models": {"base": {"address": base, "batch_size": 7}},
            "train": {"model": "base"},
            "evaluate": {
                "resamples": 99,
                "entries": [*entries, {"model": "base", "method": {"name": "react"}}],
            },
            **sections,
        }
    )


def saved(folder: Path, *steps: int, style: str = "react", weights: str = "w") -> Path:
    """Intermediate checkpoints as training keeps them."""
    for step in steps:
        checkpoint = folder / f"checkpoint-{step}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "model.safetensors").write_text(f"{weights}{step}")
        (checkpoint / "optimizer.pt").write_text("big")
        (checkpoint / "whole").touch()
    (folder / "identity.json").write_text(json.dumps({"style": style, "renderer": "text"}))
    return folder


def finished(folder: Path, style: str = "react", **log: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_text("finished")
    (folder / "staract.json").write_text(json.dumps({"style": style}))
    (folder / "train.json").write_text(json.dumps({"steps": [{"step": 8}, {"step": 9}], **log}))
    return folder


def test_checkpoints_are_found_by_step_and_torn_ones_passed_over(tmp_path: Path) -> None:
    steps = saved(tmp_path / "act.steps", 10, 2, style="act")
    (steps / "checkpoint-12").mkdir()
    (steps / "checkpoint-12" / "model.safetensors").write_text("half")
    (steps / "final").mkdir()
    finished(tmp_path / "react")
    finished(tmp_path / "cot", style="cot", best_step=4)
    finished(tmp_path / "react.start")
    finished(tmp_path / ".react.x" / "new")
    found, torn = find_checkpoints(tmp_path)
    assert [(one.name, one.step, one.trained["style"]) for one in found] == [
        ("act.steps/checkpoint-2", 2, "act"),
        ("cot", 4, "cot"),
        ("react", 9, "react"),
        ("act.steps/checkpoint-10", 10, "act"),
    ]
    assert torn == [steps / "checkpoint-12"]
    assert find_checkpoints(tmp_path / "react")[0][0].name == "react"


def test_the_weights_alone_tell_checkpoints_apart(tmp_path: Path) -> None:
    saved(tmp_path / "one", 2, 3)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    (tmp_path / "two" / "checkpoint-2" / "optimizer.pt").write_text("other")
    (tmp_path / "two" / "checkpoint-3" / "model.safetensors").write_text("other")
    one, two = (
        [found.trained["weights"] for found in find_checkpoints(tmp_path / name)[0]]
        for name in ("one", "two")
    )
    assert one[0] == two[0]
    assert len({*one, *two}) == 3
    named = [found.name for found in find_checkpoints(tmp_path)[0]]
    assert named == ["one/checkpoint-2", "one/checkpoint-3", "two/checkpoint-3"], "the copy is not played too"


def kept(folder: Path, *steps: int, style: str = "react") -> Path:
    """Checkpoints as ``train.keep_checkpoints`` keeps them: each says itself how it was trained."""
    (saved(folder, *steps, style=style) / "identity.json").unlink()
    for step in steps:
        (folder / f"checkpoint-{step}" / "staract.json").write_text(json.dumps({"style": style, "seed": 3}))
    return folder


def test_kept_checkpoints_are_found_from_every_folder_that_holds_them(tmp_path: Path) -> None:
    run = tmp_path / "run"
    folder = kept(run / "react.checkpoints", 4, 12)
    kept(run / "act.checkpoints", 8, style="act")
    (folder / "checkpoint-12" / "whole").unlink()
    kept(run / ".react.new" / "react.checkpoints", 2)
    found, torn = find_checkpoints(run)
    assert [(one.name, one.step, one.trained["style"], one.trained["seed"]) for one in found] == [
        ("react.checkpoints/checkpoint-4", 4, "react", 3),
        ("act.checkpoints/checkpoint-8", 8, "act", 3),
    ]
    assert torn == [folder / "checkpoint-12"]
    assert [one.name for one in find_checkpoints(folder)[0]] == ["checkpoint-4"]
    assert [one.name for one in find_checkpoints(folder / "checkpoint-4")[0]] == ["checkpoint-4"]


def test_a_student_and_the_checkpoint_that_it_was_made_of_are_one(tmp_path: Path) -> None:
    kept(tmp_path / "react.checkpoints", 4, 9)
    student = finished(tmp_path / "react")
    assert len(find_checkpoints(tmp_path)[0]) == 3, "other weights after the same step are another model"
    (student / "model.safetensors").write_text("w9")
    (student / "config.json").write_text("{}")
    assert [one.name for one in find_checkpoints(tmp_path)[0]] == ["react.checkpoints/checkpoint-4", "react"]


def test_a_folder_without_checkpoints_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="holds no checkpoint"):
        find_checkpoints(tmp_path)
    (tmp_path / "file").touch()
    for folder in (tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(TrainingError, match=f"{folder.name}' is no folder: name one with checkpoints"):
            find_checkpoints(folder)
    (saved(tmp_path / "x", 1) / "identity.json").unlink()
    with pytest.raises(TrainingError, match=r"does not say how it was trained: .*identity\.json is missing"):
        find_checkpoints(tmp_path)


def test_each_student_entry_is_played_by_its_base_and_its_style_s_checkpoints(tmp_path: Path) -> None:
    saved(tmp_path / "react.steps", 5, 10)
    saved(tmp_path / "cot.steps", 5, style="cot")
    found, _ = find_checkpoints(tmp_path)
    who = players(recipe("react", "cot_sc", "act"), tmp_path, found)
    assert [(one.entrant.entry.method.name, one.entrant.entry.model) for one in who] == [
        ("react", "base"),
        ("react", "react.steps/checkpoint-5"),
        ("react", "react.steps/checkpoint-10"),
        ("cot_sc", "base"),
        ("cot_sc", "cot.steps/checkpoint-5"),
    ]
    model = who[1].entrant.model
    assert model.recipe == ModelRecipe(address=str(found[1].folder), batch_size=7), "run as its base is"
    assert [one.entrant.kind for one in who[:2]] == ["prompted", "fine-tuned"]


def test_a_sweep_that_has_nothing_to_play_says_why(tmp_path: Path) -> None:
    saved(tmp_path / "react.steps", 5)
    found, _ = find_checkpoints(tmp_path)
    with pytest.raises(RecipeError, match="no entry of evaluate has the model 'student'"):
        players(recipe(), tmp_path, found)
    with pytest.raises(RecipeError, match="holds checkpoints of react: no student entry"):
        players(recipe("act"), tmp_path, found)
    with pytest.raises(RecipeError, match="needs a train and an evaluate section"):
        players(recipe("react", train=None, models={}, evaluate=None), tmp_path, found)


def test_a_model_from_nothing_starts_where_training_kept_it(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    base = f"new:{tmp_path / 'config.json'}"
    saved(tmp_path / "run" / "act.steps", 5, style="act")
    found, _ = find_checkpoints(tmp_path / "run")
    assert [one.checkpoint is None for one in players(recipe("act", base=base), tmp_path, found)] == [False]
    finished(tmp_path / "run" / "act.start", style="act")
    for folder in (tmp_path / "run", tmp_path / "run" / "act.steps", found[0].folder):
        first = players(recipe("act", base=base), folder, found)[0]
        assert (first.checkpoint, first.entrant.model.recipe.address) == (
            None,
            str(tmp_path / "run" / "act.start"),
        )


def point(step: int, value: float, method: str = "react", weights: str = "w", **fields: object) -> Point:
    known = {"style": method, "checkpoint": f"checkpoint-{step}", "n": 10, "correct": 0, "errored": 0}
    interval = {"ci_low": max(0.0, value - 0.1), "ci_high": min(1.0, value + 0.1)}
    about = {"method": method, "step": step, "value": value, "weights": weights}
    return Point.model_validate({**known, **interval, **about, **fields})


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(0, 3))
def test_the_best_is_the_earliest_of_the_highest_and_never_the_base(values: list[int], before: int) -> None:
    points = [point(0, before / 3, weights="")]
    points += [point(10 * n, value / 3) for n, value in enumerate(values, 1)]
    marked = mark_best(points)
    assert [one.step for one in marked if one.best] == [10 * (values.index(max(values)) + 1)]
    assert [one.model_copy(update={"best": False}) for one in marked] == points


def test_every_method_has_its_own_best() -> None:
    marked = mark_best([point(5, 0.2, "act"), point(5, 0.9), point(10, 0.1, "act")])
    assert [(one.method, one.step) for one in marked if one.best] == [("act", 5), ("react", 5)]


def played(step: int | None) -> Player:
    entry = EntryRecipe(model=f"at-{step}" if step else "base", method=MethodRecipe(name="react"))
    found = Found(ModelRecipe(address="x"), {"weights": f"w{step}"} if step else {})
    checkpoint = Checkpoint(f"at-{step}", Path("x"), step, {"weights": f"w{step}"}) if step else None
    return Player(Entrant(entry, found), "react", checkpoint)


def swept(*patterns: str, base: str = "nnnn") -> Sweep:
    """A sweep of checkpoints whose verdicts are letters, after a base."""
    who = [played(None), *(played(10 * n) for n in range(1, len(patterns) + 1))]
    groups = [
        Group("react", one.entrant.entry.model, one.entrant.kind, verdicts(TASKS, pattern))
        for one, pattern in zip(who, (base, *patterns), strict=True)
    ]
    return build_sweep(recipe("react"), PANEL, who, groups)


def test_points_say_what_the_panel_says() -> None:
    result = swept("nnnn", "yynn", "yynn", "ynne")
    assert (result.metric, result.split, result.size) == ("accuracy", "test", 4)
    assert [(p.step, p.correct, p.n, p.errored, p.value) for p in result.points] == [
        (0, 0, 4, 0, 0.0),
        (10, 0, 4, 0, 0.0),
        (20, 2, 4, 0, 0.5),
        (30, 2, 4, 0, 0.5),
        (40, 1, 4, 1, 0.25),
    ]
    assert [p.step for p in result.points if p.best] == [20]
    assert all(p.ci_low <= p.value <= p.ci_high for p in result.points)
    # The base is not judged; where an episode failed, nothing can be said.
    assert [p.no_effect for p in result.points] == [None, True, False, False, None]
    (line,) = no_effect_lines(result)
    assert line.startswith("No effect: react × at-10 wrote the same text as the base") and "4 tasks" in line


def test_silence_is_no_sign_of_an_adapter_without_effect() -> None:
    silent = [episode(task, outcome=Outcome.CONTEXT_LIMIT, metrics={}, steps=[]) for task in TASKS]
    who = [played(None), played(10)]
    groups = [Group("react", one.entrant.entry.model, one.entrant.kind, silent) for one in who]
    assert build_sweep(recipe("react"), PANEL, who, groups).points[1].no_effect is None


def test_points_on_the_way_count_where_a_world_gives_them() -> None:
    some = [episode(task, "x", metrics={"score": 0.3}) for task in TASKS]
    groups = [Group("react", "at-10", "fine-tuned", some)]
    result = build_sweep(recipe("react"), PANEL, [played(10)], groups)
    assert (result.metric, result.points[0].value) == ("score", pytest.approx(0.3))
    assert result.points[0].no_effect is None, "no base was played"


def test_the_table_fits_eighty_columns_and_says_what_is_what() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(to_terminal([sweep_sheet(swept("nnnn", "yynn"))]))
    text = console.export_text()
    assert all(len(line) <= 80 for line in text.splitlines())
    rows = [line.split() for line in text.splitlines() if line.strip().startswith("react")]
    assert [row[:3] for row in rows] == [
        ["react", "base", "0"],
        ["react", "no", "effect"],
        ["react", "best", "20"],
    ]
    assert "measure it on others" in " ".join(text.split())


def test_files_hold_what_was_found(tmp_path: Path) -> None:
    result = swept("nnnn", "yynn")
    write_sweep(tmp_path, result)
    assert Sweep.model_validate_json((tmp_path / "sweep.json").read_bytes()) == result
    with (tmp_path / "sweep.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["step"], row["value"], row["best"]) for row in rows] == [
        ("0", "0.0", "False"),
        ("10", "0.0", "False"),
        ("20", "0.5", "True"),
    ]
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")
    assert "(sweep.png)" in (tmp_path / "sweep.md").read_text()


def test_the_picture_has_a_line_a_method_and_marks(tmp_path: Path) -> None:
    points = [
        point(0, 0.1, weights=""),
        point(5, 0.4),
        point(5, 0.2, "$act_\x1b"),
        point(9, 0.1, no_effect=True),
    ]
    result = swept("nnnn").model_copy(update={"points": mark_best(points)})
    drawn = draw_sweep(result, "svg").decode()
    for text in ("react", "best", "no effect", "training steps"):
        assert f"<!-- {text}" in drawn
    assert "\x1b" not in drawn
