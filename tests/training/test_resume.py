"""Exact resume: a run that was interrupted ends as the same run uninterrupted, bit for bit.

``test_causal`` stops a padded run of all weights in its second epoch; ``test_seq2seq`` one of an
encoder-decoder. Here are the other ways to train, the other places to stop, and what damages a checkpoint.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.errors import TrainingError
from pipeline.training.steps import is_whole, saving
from pipeline.training.trainer import StudentTrainer
from tests.training.making import save_base
from tests.training.test_causal import Place, record_order

KEYS = ("step", "loss", "grad_norm", "learning_rate")
COMMON = "batch_size: 1\naccumulation: 2\nepochs: 3\nlearning_rate: 1e-2\nsave_every: 2\n"
LORA = "lora: {rank: 4, dropout: 0.2}\n"


@pytest.fixture(scope="module")
def dropping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base that drops attention weights while it trains."""
    folder = save_base(tmp_path_factory.mktemp("dropping") / "tiny")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "attention_dropout": 0.2}))
    return folder


def losses(place: Place) -> list[list[Any]]:
    return [[entry[key] for key in KEYS] for entry in place.log()]


def weights(place: Place) -> bytes:
    [path] = (place.checkpoints / "react").glob("*.safetensors")
    return path.read_bytes()


def orders(place: Place, patch: pytest.MonkeyPatch, stops: list[int]) -> list[list[int]]:
    """The batches of a run that is stopped at some steps, in the order trained."""
    seen: list[list[int]] = []
    for stop in [*stops, None]:
        with patch.context() as inner:
            part = record_order(inner, stop_at=stop)
            assert place.train() == (0 if stop is None else 130)
        seen += part
    return seen


@pytest.mark.parametrize(
    ("kind", "train"),
    [
        ("text", "packing: true"),
        ("text", "packing: true\n" + LORA),
        ("messages", "packing: false\n" + LORA),
    ],
)
def test_stopped_at_the_end_of_an_epoch_and_inside_the_next_nothing_changes(
    tmp_path: Path, dropping: Path, monkeypatch: pytest.MonkeyPatch, kind: str, train: str
) -> None:
    whole = Place(tmp_path / "whole", dropping, kind, COMMON + train, count=14)
    straight = orders(whole, monkeypatch, [])
    steps = len(whole.log())
    assert steps % 3 == 0
    epoch = steps // 3
    assert epoch >= 3, "there is an inside of an epoch"
    assert straight[: len(straight) // 3] != straight[len(straight) // 3 : 2 * len(straight) // 3]
    broken = Place(tmp_path / "broken", dropping, kind, COMMON + train, count=14)
    assert orders(broken, monkeypatch, [epoch, epoch + 1]) == straight
    assert losses(broken) == losses(whole)
    assert weights(broken) == weights(whole)
    # The test can fail: chance has its part in these losses.
    other = Place(tmp_path / "other", dropping, kind, COMMON + train, count=14)
    assert other.train("train.seed=1") == 0
    assert losses(other) != losses(whole)


def unmarked(folder: Path) -> None:
    (folder / "whole").unlink()


def cut(name: str) -> Callable[[Path], None]:
    def truncate(folder: Path) -> None:
        os.truncate(folder / name, (folder / name).stat().st_size // 2)

    return truncate


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


@pytest.mark.parametrize(
    "damage",
    [
        unmarked,  # killed while saving
        cut("model.safetensors"),  # after a power cut
        cut("optimizer.pt"),
        without("rng_state.pth"),
        cut("whole"),
    ],
)
def test_of_a_damaged_checkpoint_the_one_before_is_used(
    tmp_path: Path, stopped: Place, uninterrupted: Place, damage: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    place = copied(stopped, tmp_path)
    newest = place.checkpoints / "react.steps" / "checkpoint-5"
    damage(newest)
    assert place.train() == 0
    assert f"going on from {newest.with_name('checkpoint-4')}" in capsys.readouterr().out
    assert losses(place) == losses(uninterrupted)
    assert weights(place) == weights(uninterrupted)


def test_where_all_are_damaged_training_begins_again(
    tmp_path: Path, stopped: Place, uninterrupted: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place = copied(stopped, tmp_path)
    for folder in (place.checkpoints / "react.steps").glob("checkpoint-*"):
        unmarked(folder)
    assert place.train() == 0
    assert "going on" not in capsys.readouterr().out
    assert weights(place) == weights(uninterrupted)


def test_a_mark_of_an_earlier_version_counts(tmp_path: Path, stopped: Place) -> None:
    folder = copied(stopped, tmp_path).checkpoints / "react.steps" / "checkpoint-5"
    (folder / "whole").write_bytes(b"")
    assert is_whole(folder)


SMALL = COMMON + "packing: false"


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, base: Path) -> Place:
    place = Place(tmp_path_factory.mktemp("uninterrupted"), base, train=SMALL, count=5)
    assert place.train() == 0
    return place


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, base: Path) -> Place:
    """A run that was stopped at step 5 of 9; checkpoints 4 and 5 are there."""
    place = Place(tmp_path_factory.mktemp("stopped"), base, train=SMALL, count=5)
    with pytest.MonkeyPatch.context() as patch:
        record_order(patch, stop_at=5)
        assert place.train() == 130
    return place


def copied(place: Place, root: Path) -> Place:
    shutil.copytree(place.root, root, dirs_exist_ok=True)
    copy = object.__new__(Place)
    copy.root, copy.dataset, copy.recipe = root, root / "runs" / "trial" / "dataset", root / "recipe.yaml"
    return copy


def no_room_for(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """From checkpoint 4 on, no file may have more bytes: the system itself refuses to write them."""
    save = StudentTrainer._save_checkpoint
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

    def limited(self: StudentTrainer, *arguments: Any) -> None:
        if self.state.global_step >= 4:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            save(self, *arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))

    monkeypatch.setattr(StudentTrainer, "_save_checkpoint", limited)


@pytest.mark.parametrize("part", ["model.safetensors", "optimizer.pt", "tokenizer.json"])
def test_without_room_for_a_checkpoint_the_last_whole_one_stays_and_the_same_command_goes_on(
    tmp_path: Path,
    base: Path,
    stopped: Place,
    uninterrupted: Place,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    part: str,
) -> None:
    place = Place(tmp_path, base, train=SMALL, count=5)
    sizes = {
        path.name: path.stat().st_size
        for path in (stopped.checkpoints / "react.steps" / "checkpoint-4").iterdir()
    }
    with monkeypatch.context() as patch:
        no_room_for(patch, sizes[part] - 1)
        assert place.train() == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    assert "the disk is full" in error
    assert "the same command goes on" in error
    steps = place.checkpoints / "react.steps"
    assert [path.name for path in steps.glob("checkpoint-*") if is_whole(path)] == ["checkpoint-2"]
    assert place.train() == 0
    assert "going on from" in capsys.readouterr().out
    assert losses(place) == losses(uninterrupted)
    assert weights(place) == weights(uninterrupted)


def test_a_full_disk_is_said_in_one_sentence_however_a_library_says_it(tmp_path: Path) -> None:
    # /dev/full refuses every byte as a full disk does.
    def by_torch() -> None:
        torch.save({"a": torch.zeros(9000)}, "/dev/full")

    def by_python() -> None:
        with Path("/dev/full").open("w") as file:
            file.write("x")

    for write in (by_torch, by_python):
        with pytest.raises(TrainingError, match="the disk is full"), saving(tmp_path):
            write()
    with pytest.raises(RuntimeError, match="shapes do not fit"), saving(tmp_path):
        raise RuntimeError("shapes do not fit")


@pytest.mark.slow
def test_two_ranks_go_on_as_if_they_had_not_been_stopped(tmp_path: Path, dropping: Path) -> None:
    train = COMMON + "packing: false\n" + LORA
    whole = Place(tmp_path / "whole", dropping, train=train, count=12)
    broken = Place(tmp_path / "broken", dropping, train=train, count=12)
    runs = [f"{whole.root}:0", *(f"{broken.root}:{stop}" for stop in (3, 4, 0))]
    command = [sys.executable, "-m", "tests.training.forked", *runs]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    statuses = [line for line in done.stdout.splitlines() if line.startswith("statuses")]
    assert statuses == ["statuses 0 0", "statuses 130 130", "statuses 130 130", "statuses 0 0"]
    log = json.loads((broken.checkpoints / "react" / "train.json").read_text())
    assert (log["processes"], log["distributed"]) == (2, "MULTI_CPU")
    for rank in range(2):
        straight = json.loads((whole.root / f"order-0-{rank}.json").read_text())
        parts = [json.loads((broken.root / f"order-{run}-{rank}.json").read_text()) for run in (1, 2, 3)]
        assert [batch for part in parts for batch in part] == straight
        assert len(straight) == 18, "six rows an epoch for each rank"
    assert losses(broken) == losses(whole)
    assert weights(broken) == weights(whole)
