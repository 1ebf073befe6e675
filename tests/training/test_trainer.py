from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset

from pipeline.errors import TrainingError
from pipeline.recipe.models import TrainRecipe
from pipeline.rendering.tokens import IGNORE
from pipeline.training.data import Row
from pipeline.training.documents import separate_documents
from pipeline.training.packing import PackedCollator, PaddedCollator, build_blocks
from pipeline.training.trainer import StudentTrainer, trainer_config
from tests.training.making import make_model, make_tokenizer


def some_rows(count: int) -> list[Row]:
    """Rows of unequal length with unequally many labels."""
    made: list[Row] = []
    for number in range(count):
        ids = [(7 * number + 3 * place) % 300 + 5 for place in range(6 + 5 * (number % 4))]
        labels = [token if place % (2 + number % 3) == 1 else IGNORE for place, token in enumerate(ids)]
        made.append(Row(str(number), ids, labels))
    return made


def trained(folder: Path, rows: list[Row], label_only: bool = True, **settings: Any) -> list[dict[str, Any]]:
    """The log of a few steps on the rows, in their given order."""
    settings = {"learning_rate": 1e-2, "warmup": 0, "dtype": "float32", **settings}
    recipe = TrainRecipe(**settings)
    model = make_model(400)
    collator = PackedCollator(documents=separate_documents(model)) if recipe.packing else PaddedCollator(0)
    config = trainer_config(recipe, folder, "trial", bf16=False, parameters=1, evaluates=False)
    config.train_sampling_strategy = "sequential"
    trainer = StudentTrainer(
        label_only=label_only,
        model=model,
        args=config,
        train_dataset=Dataset.from_list(build_blocks(rows, 512, 0, packing=False)),
        data_collator=collator,
        processing_class=make_tokenizer(),
    )
    trainer.train()
    return [entry for entry in trainer.state.log_history if "loss" in entry]


def test_loss_and_gradient_norm_do_not_depend_on_accumulation_or_padding(tmp_path: Path) -> None:
    rows = some_rows(16)
    whole = trained(tmp_path, rows, batch_size=8)
    split = trained(tmp_path, rows, batch_size=2, accumulation=4)
    padded = trained(tmp_path, rows, batch_size=8, packing=False)
    plain = trained(tmp_path, rows, label_only=False, batch_size=8)
    assert len(whole) == 2
    for other in (split, padded, plain):
        for one, two in zip(whole, other, strict=True):
            assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
            assert two["grad_norm"] == pytest.approx(one["grad_norm"], rel=1e-4)
            assert two["labelled_tokens"] == one["labelled_tokens"]


def test_each_label_weighs_the_same_in_a_step(tmp_path: Path) -> None:
    # T14: a mean of means would over-weight the short micro-batch.
    rows = [Row("few", [5] * 4, [IGNORE, 6, IGNORE, IGNORE]), Row("many", [7] * 30, [IGNORE] + [8] * 29)]
    model = make_model(400)
    sums = []
    with torch.no_grad():
        for row in rows:
            logits = model(torch.tensor([row.ids])).logits[0, :-1]
            sums.append(
                torch.nn.functional.cross_entropy(logits, torch.tensor(row.labels[1:]), reduction="sum")
            )
    [step] = trained(tmp_path, rows, batch_size=1, accumulation=2)
    assert step["loss"] == pytest.approx(float(sum(sums)) / 30, rel=1e-5)
    assert (100 * 1.0 + 10 * 2.0) / 110 == pytest.approx(1.090909, rel=1e-6)


def test_a_micro_batch_without_labels_adds_nothing(tmp_path: Path) -> None:
    rows = some_rows(2)
    silent = Row("silent", [9, 9, 9], [IGNORE] * 3)
    [alone] = trained(tmp_path, rows, batch_size=1, accumulation=2)
    [with_silent] = trained(tmp_path, [*rows, silent], batch_size=1, accumulation=3)
    assert with_silent["loss"] == pytest.approx(alone["loss"], rel=1e-5)
    assert with_silent["grad_norm"] == pytest.approx(alone["grad_norm"], rel=1e-4)


def test_an_unknown_schedule_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"recipe cannot be used.*zigzag"):
        trainer_config(
            TrainRecipe(schedule="zigzag"), tmp_path, "x", bf16=False, parameters=1, evaluates=False
        )


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path) -> None:
    from transformers import TrainerControl, TrainerState

    from pipeline.training.progress import ProgressCallback

    config = trainer_config(TrainRecipe(), tmp_path, "x", bf16=False, parameters=1, evaluates=False)
    with pytest.raises(TrainingError, match="loss is nan at step 3"):
        ProgressCallback().on_log(
            config, TrainerState(global_step=3), TrainerControl(), {"loss": float("nan")}
        )
