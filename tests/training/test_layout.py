"""How many processes there are, on which machines, and how a step is split over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipeline.errors import RecipeError
from pipeline.recipe.load import load_recipe
from pipeline.recipe.models import TrainRecipe
from pipeline.training import layout
from pipeline.training.identity import identity_of, require_same
from pipeline.training.layout import accumulation, processes_and_options
from pipeline.training.trainer import common_arguments

RECIPE = """\
name: trial
environment: {name: atlas}
models: {base: {address: somewhere}}
train: {model: base, rows_a_step: 64}
"""


def section(**keys: Any) -> TrainRecipe:
    return TrainRecipe.model_validate(keys)


@given(st.integers(1, 512), st.integers(1, 64), st.integers(1, 64))
@example(64, 4, 8)
@example(64, 4, 32)
@example(64, 4, 3)
@example(1, 1, 1)
def test_a_step_holds_exactly_the_rows_asked_for_or_is_refused(rows: int, size: int, processes: int) -> None:
    recipe = section(rows_a_step=rows, batch_size=size)
    if rows % (size * processes) == 0:
        assert accumulation(recipe, processes) * size * processes == rows
        return
    with pytest.raises(RecipeError, match=r"^train\.rows_a_step: ") as refused:
        accumulation(recipe, processes)
    # What the error says to set is obeyed, one thing after the other, until it does.
    advice = str(refused.value).rpartition("; set train.")[2].split("=")
    number = int(advice[1])
    if advice[0] == "processes":
        assert rows % number == 0
        assert number < processes
    else:
        assert advice[0] == "batch_size"
        assert number < size
        fitting = recipe.model_copy(update={"batch_size": number})
        assert accumulation(fitting, processes) * number * processes == rows


def test_the_papers_batch_on_any_number_of_devices() -> None:
    paper = section(rows_a_step=64, batch_size=4)
    assert [accumulation(paper, devices) for devices in (1, 2, 4, 8, 16)] == [16, 8, 4, 2, 1]
    with pytest.raises(RecipeError, match=r"64 rows .* batch_size 4 on 32 devices; set train\.batch_size=2$"):
        accumulation(paper, 32)
    with pytest.raises(RecipeError, match=r"on 6 devices; set train\.processes=4$"):
        accumulation(paper, 6)


def test_without_it_accumulation_is_what_the_recipe_says() -> None:
    assert accumulation(section(), 7) == 1
    assert accumulation(section(accumulation=3), 7) == 3


@pytest.mark.parametrize("stated", [1, 2])
def test_a_step_has_one_size(stated: int) -> None:
    with pytest.raises(ValidationError, match="rows_a_step decides the accumulation"):
        section(rows_a_step=64, accumulation=stated)


def test_a_recorded_recipe_is_read_again() -> None:
    for recipe in (section(rows_a_step=64), section(accumulation=2), section()):
        assert TrainRecipe.model_validate(recipe.model_dump(mode="json")) == recipe


def test_the_trainers_arguments_follow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for ranks, passes in (("1", 16), ("8", 2)):
        monkeypatch.setenv("WORLD_SIZE", ranks)
        made = common_arguments(section(rows_a_step=64), tmp_path, "x", bf16=False, evaluates=False)
        assert made["per_device_train_batch_size"] * made["gradient_accumulation_steps"] * int(ranks) == 64
        assert made["gradient_accumulation_steps"] == passes


def noted(tmp_path: Path, **keys: Any) -> dict[str, Any]:
    return identity_of(section(**keys), "base", "react", {"renderer": "chat"}, tmp_path)


def test_a_student_is_the_same_however_its_steps_were_split(tmp_path: Path) -> None:
    one = noted(tmp_path, rows_a_step=64, batch_size=4)
    other = noted(tmp_path, rows_a_step=64, batch_size=2, processes=16, accelerate="zero3")
    require_same(tmp_path, one, other)
    with pytest.raises(Exception, match=r"train\.rows_a_step"):
        require_same(tmp_path, one, noted(tmp_path, rows_a_step=32))
    with pytest.raises(Exception, match=r"train\.batch_size"):
        require_same(tmp_path, noted(tmp_path, batch_size=4), noted(tmp_path, batch_size=2))


def test_a_student_from_before_the_key_is_still_known(tmp_path: Path) -> None:
    before = noted(tmp_path, batch_size=2, accumulation=4)
    del before["train.rows_a_step"]
    require_same(tmp_path, before, noted(tmp_path, batch_size=2, accumulation=4))
    with pytest.raises(Exception, match=r"train\.rows_a_step"):
        require_same(tmp_path, before, noted(tmp_path, rows_a_step=8))


def test_the_short_form_of_a_launch_is_an_override(tmp_path: Path) -> None:
    path = tmp_path / "trial.yaml"
    path.write_text(RECIPE)
    for written in ("accelerate=zero3", " accelerate =zero3", "train.accelerate=zero3"):
        train = load_recipe(path, [written]).train
        assert train is not None
        assert train.accelerate == "zero3"
    with pytest.raises(RecipeError, match=r"^override 'train\.accelerate=\[8\]'"):
        load_recipe(path, ["accelerate=[8]"])
    with pytest.raises(RecipeError, match="'accelerate' is not of the form key=value"):
        load_recipe(path, ["accelerate"])


def config(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text)
    return path


def started(folder: Path, text: str, gpus: int, wanted: int | None = None, **variables: str) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "gpus", lambda: gpus)
        processes, options = processes_and_options(config(folder, text), wanted, variables)
    assert options[:2] == ["--num_processes", str(processes)]
    return options[1:2] + options[2:]


DDP = "distributed_type: MULTI_GPU\n"
TWO_MACHINES = "distributed_type: DEEPSPEED\nnum_machines: 2\n"
HERE = {"NODE_RANK": "1", "MASTER_ADDR": "first"}
THERE = ["--machine_rank", "1", "--main_process_ip", "first"]


@pytest.mark.parametrize(
    ("text", "gpus", "wanted", "processes"),
    [
        (DDP, 8, None, 8),
        (DDP + "num_processes: -1", 4, None, 4),
        (DDP + "num_processes: 4", 8, None, 4),
        (DDP + "num_processes: 8", 4, 4, 4),
        (DDP + "use_cpu: true\nnum_processes: 2", 0, None, 2),
        ("distributed_type: DEEPSPEED\nnum_processes: 2", 0, None, 2),
        ("distributed_type: DEEPSPEED", 0, 2, 2),
        ("distributed_type: 'NO'", 8, None, 1),
        ("distributed_type: NO", 8, None, 1),
    ],
)
def test_processes_are_what_is_asked_for_else_what_the_file_says_else_every_gpu(
    tmp_path: Path, text: str, gpus: int, wanted: int | None, processes: int
) -> None:
    assert started(tmp_path, text, gpus, wanted) == [str(processes)]


def test_each_machine_says_which_it_is(tmp_path: Path) -> None:
    assert started(tmp_path, TWO_MACHINES, 4, **HERE) == ["8", *THERE]
    # What the file says is for the machines that it names; a machine carries its share.
    stated = TWO_MACHINES + "num_processes: 16"
    assert started(tmp_path, stated, 8, **HERE) == ["16", *THERE]
    more = started(tmp_path, stated, 8, NNODES="4", MASTER_PORT="4000", **HERE)
    assert more == ["32", "--num_machines", "4", *THERE, "--main_process_port", "4000"]
    # On a single machine the cluster's variables mean nothing.
    assert started(tmp_path, DDP, 8, NNODES="4", **HERE) == ["8"]


@pytest.mark.parametrize(
    ("text", "gpus", "wanted", "variables", "message"),
    [
        (DDP + "num_processes: 8", 2, None, {}, r"8 processes .* GPUs here are 2; set train\.processes=2$"),
        (TWO_MACHINES + "num_processes: 16", 4, None, HERE, r"set train\.processes=8$"),
        (DDP + "num_processes: 8", 0, None, {}, "this machine has none; accelerate=cpu2 does without"),
        ("distributed_type: DEEPSPEED", 0, None, {}, "this machine has none"),
        ("distributed_type: FSDP\nuse_cpu: true", 0, 2, {}, "accelerate would run FSDP otherwise"),
        ("distributed_type: MULTI_CPU", 0, None, {}, "accelerate would run MULTI_CPU otherwise"),
        ("distributed_type: 'NO'", 8, 2, {}, "2 processes cannot be shared by 1 machines of type NO"),
        (TWO_MACHINES, 4, 7, HERE, "7 processes cannot be shared by 2 machines"),
        (TWO_MACHINES, 4, None, {"NODE_RANK": "1"}, "MASTER_ADDR is missing"),
        (TWO_MACHINES, 4, None, {"MASTER_ADDR": "first"}, "NODE_RANK is missing"),
        (TWO_MACHINES, 4, None, {**HERE, "NNODES": "0"}, "NNODES is '0'"),
        (TWO_MACHINES, 4, None, {**HERE, "NNODES": "two"}, "NNODES is 'two'"),
        (DDP + "num_processes: all", 4, None, {}, "num_processes is 'all', but should be a whole number"),
        (DDP + "num_machines: 0", 4, None, {}, "num_machines is 0"),
        ("- a list", 4, None, {}, "a mapping of keys"),
        ("a: [", 4, None, {}, "cannot be read"),
    ],
)
def test_what_cannot_be_started_is_refused_in_one_sentence(
    tmp_path: Path, text: str, gpus: int, wanted: int | None, variables: dict[str, str], message: str
) -> None:
    with pytest.raises(RecipeError, match=message) as refused:
        started(tmp_path, text, gpus, wanted, **variables)
    assert "\n" not in str(refused.value)
