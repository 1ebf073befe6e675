from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import TrainerControl, TrainerState, TrainingArguments

from pipeline.errors import ModelError, TrainingError
from pipeline.recipe.models import TrainRecipe
from pipeline.training.watch import Look, Watch, best_of, is_exhausted

losses = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=12)


def looks(values: list[float]) -> list[Look]:
    return [Look(10 * number, loss=value) for number, value in enumerate(values, 1)]


@given(losses)
def test_the_best_is_the_earliest_of_the_lowest_losses(values: list[float]) -> None:
    assert best_of(looks(values), "loss").step == 10 * (values.index(min(values)) + 1)


@given(losses, st.integers(1, 4))
def test_patience_is_checkpoints_in_a_row_without_a_better_one(values: list[float], patience: int) -> None:
    # The rule told step by step, as a person would count.
    best, waited, stopped = float("inf"), 0, False
    for value in values:
        best, waited = (value, 0) if value < best else (best, waited + 1)
        stopped = waited >= patience
    assert is_exhausted(looks(values), "loss", patience) == stopped


def test_a_higher_score_is_better_and_a_tie_keeps_the_earlier() -> None:
    seen = [Look(1, 9.0, 0.2), Look(2, 1.0, 0.5), Look(3, 0.5, 0.5)]
    assert best_of(seen, "score").step == 2
    assert best_of(seen, "loss").step == 3


class Scores:
    """Plays as written down."""

    def __init__(self, scores: dict[int, float]) -> None:
        self.scores = scores
        self.asked: list[int] = []

    def score(self, checkpoint: Path, step: int) -> float:
        self.asked.append(step)
        return self.scores[step]


RECIPE = {"save_every": 2, "stop_on": "score", "validate_on": {"method": {"name": "act"}}, "patience": 2}


def watch(folder: Path, player: Any, **changes: Any) -> Watch:
    return Watch(TrainRecipe.model_validate({**RECIPE, **changes}), folder, player, has_dev=False)


def save(folder: Path, watched: Watch, step: int, last: int = 100) -> bool:
    """A checkpoint is written; whether training is to stop."""
    checkpoint = folder / f"checkpoint-{step}"
    checkpoint.mkdir(parents=True, exist_ok=True)
    (checkpoint / "model.safetensors").write_text(str(step))
    (checkpoint / "optimizer.pt").write_text("big")
    control = TrainerControl()
    arguments = TrainingArguments(output_dir=str(folder), use_cpu=True)
    watched.on_save(arguments, TrainerState(global_step=step, max_steps=last), control)
    return control.should_training_stop


def test_the_best_weights_are_put_by_and_training_stops_in_time(tmp_path: Path) -> None:
    watched = watch(tmp_path, Scores({2: 0.1, 4: 0.4, 6: 0.4, 8: 0.3}))
    assert [save(tmp_path, watched, step) for step in (2, 4, 6, 8)] == [False, False, False, True]
    assert watched.best_folder == tmp_path / "best-4"
    assert [path.name for path in (tmp_path / "best-4").iterdir()] == ["model.safetensors"]
    assert (tmp_path / "best-4" / "model.safetensors").read_text() == "4"
    assert [path.name for path in tmp_path.glob("best-*")] == ["best-4"]
    assert [look["score"] for look in json.loads((tmp_path / "looks.json").read_text())] == [
        0.1,
        0.4,
        0.4,
        0.3,
    ]


def test_taken_up_again_it_looks_once_more_only_where_a_kill_came_between(tmp_path: Path) -> None:
    scores = {2: 0.1, 4: 0.4, 6: 0.4, 8: 0.3}
    first = watch(tmp_path, Scores(scores))
    for step in (2, 4, 6):
        save(tmp_path, first, step)
    # Killed after checkpoint 6 was noted: nothing is to be done.
    player = Scores(scores)
    again = watch(tmp_path, player)
    again.take_up(tmp_path / "checkpoint-6", TrainerState(global_step=6, max_steps=100))
    assert (player.asked, again.exhausted) == ([], False)
    assert save(tmp_path, again, 8)
    # Killed before checkpoint 6 was noted, and what came later is forgotten.
    noted = json.loads((tmp_path / "looks.json").read_text())
    (tmp_path / "looks.json").write_text(json.dumps([look for look in noted if look["step"] != 6]))
    player = Scores(scores)
    again = watch(tmp_path, player)
    again.take_up(tmp_path / "checkpoint-6", TrainerState(global_step=6, max_steps=100))
    assert player.asked == [6]
    assert [look["step"] for look in again.as_dict()["looks"]] == [2, 4, 6]


def test_a_checkpoint_that_an_interruption_wrote_is_no_look(tmp_path: Path) -> None:
    player = Scores({2: 0.1, 5: 0.1, 7: 0.9})
    watched = watch(tmp_path, player)
    assert not save(tmp_path, watched, 5)
    assert player.asked == []
    save(tmp_path, watched, 7, last=7)
    assert player.asked == [7], "the last step counts, whatever its number"


def test_a_checkpoint_that_cannot_play_ends_the_run_with_a_sentence(tmp_path: Path) -> None:
    class Broken:
        def score(self, checkpoint: Path, step: int) -> float:
            raise ModelError("the model is gone")

    with pytest.raises(TrainingError, match="checkpoint 2 could not be played: the model is gone"):
        save(tmp_path, watch(tmp_path, Broken()), 2)


def test_a_damaged_list_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "looks.json").write_text('[{"when": 3}]')
    with pytest.raises(TrainingError, match=r"looks\.json cannot be read"):
        watch(tmp_path, Scores({})).take_up(tmp_path, TrainerState(global_step=2))


def test_without_a_reason_to_look_nothing_is_done(tmp_path: Path) -> None:
    watched = watch(tmp_path, None, stop_on=None, validate_on=None)
    assert not save(tmp_path, watched, 2)
    assert (watched.as_dict(), watched.best_folder, watched.exhausted) == ({}, None, False)
