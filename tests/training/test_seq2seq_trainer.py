from __future__ import annotations

from array import array
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import T5Config, T5ForConditionalGeneration

from pipeline.recipe.models import TrainRecipe
from pipeline.rendering.tokens import IGNORE
from pipeline.training import evenly
from pipeline.training.evenly import LengthSampler
from pipeline.training.seq2seq_data import EncodedExample, Seq2SeqCollator
from pipeline.training.seq2seq_trainer import ExampleTrainer, seq2seq_config, summed_loss


def some_rows(count: int) -> list[EncodedExample]:
    """Pairs of unequal lengths."""
    return [
        EncodedExample(
            array("i", [(7 * n + place) % 40 + 3 for place in range(5 + 3 * (n % 5))] + [1]),
            array("i", [(5 * n + place) % 40 + 3 for place in range(1 + n % 4)] + [1]),
        )
        for n in range(count)
    ]


def make_t5(seed: int = 0) -> T5ForConditionalGeneration:
    torch.manual_seed(seed)
    config = T5Config(
        vocab_size=50,
        d_model=16,
        d_ff=32,
        d_kv=4,
        num_layers=1,
        num_heads=2,
        dropout_rate=0.0,
        decoder_start_token_id=0,
    )
    return T5ForConditionalGeneration(config)


def make_trainer(
    folder: Path, rows: list[EncodedExample], dev: list[EncodedExample] | None = None, **settings: Any
) -> ExampleTrainer:
    recipe = TrainRecipe(**{"learning_rate": 1e-2, "warmup": 0, "dtype": "float32", **settings})
    return ExampleTrainer(
        model=make_t5(),
        args=seq2seq_config(recipe, folder, "trial", bf16=False, parameters=1, evaluates=dev is not None),
        train_dataset=rows,
        eval_dataset=dev,
        data_collator=Seq2SeqCollator(0, 0),
    )


def true_loss(model: Any, rows: list[EncodedExample]) -> float:
    """The mean loss of a label, row by row, by the model's own reckoning without padding."""
    total = labels = 0.0
    with torch.no_grad():
        for row in rows:
            target = torch.tensor([row.target.tolist()])
            loss = model(input_ids=torch.tensor([row.source.tolist()]), labels=target).loss
            total += float(loss) * target.numel()
            labels += target.numel()
    return total / labels


def test_the_loss_is_the_models_own_over_all_labels_of_the_step(tmp_path: Path) -> None:
    # T01: T5 ignores the number of labels, so its own loss would be a mean of means.
    rows = some_rows(8)
    wanted = true_loss(make_t5().eval(), rows)
    for batch, accumulation in ((8, 1), (2, 4), (1, 8)):
        trainer = make_trainer(tmp_path, rows, batch_size=batch, accumulation=accumulation, max_steps=1)
        trainer.train()
        [step] = [entry for entry in trainer.state.log_history if "loss" in entry]
        assert step["loss"] == pytest.approx(wanted, rel=1e-5)
        assert step["labelled_tokens"] == sum(len(row.target) for row in rows)


def test_evaluation_is_the_mean_over_exactly_the_rows(tmp_path: Path) -> None:
    dev = some_rows(7)
    trainer = make_trainer(tmp_path, some_rows(4), dev, batch_size=3)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(true_loss(make_t5().eval(), dev), rel=1e-5)


def test_ranks_take_equally_many_batches_that_hold_each_row_once(tmp_path: Path) -> None:
    # T02: rows that fill up the last batch of a rank must not count.
    dev = some_rows(7)
    trainer = make_trainer(tmp_path, some_rows(4), dev, batch_size=3)
    collate = trainer.data_collator
    places = [list(evenly.shares(dev, 3, rank, 2, trainer.row_length)) for rank in range(2)]
    shares = [[collate(batch) for batch in batches] for batches in places]
    assert [len(share) for share in shares] == [2, 2]
    labels = [row[row != IGNORE].tolist() for share in shares for batch in share for row in batch["labels"]]
    assert sorted(label for label in labels if label) == sorted(row.target.tolist() for row in dev)


def test_a_batch_without_labels_has_no_loss() -> None:
    outputs = SimpleNamespace(logits=torch.randn(2, 3, 9))
    assert float(summed_loss(outputs, torch.full((2, 3), IGNORE))) == 0.0


@given(st.lists(st.integers(1, 99), min_size=1, max_size=80), st.integers(1, 9), st.integers(0, 3))
def test_every_row_comes_once_an_epoch(lengths: list[int], step: int, epoch: int) -> None:
    order = list(LengthSampler(lengths, step, 0, lambda: epoch))
    assert sorted(order) == list(range(len(lengths)))
    assert order == list(LengthSampler(lengths, step, 0, lambda: epoch))


def test_rows_of_a_step_are_of_like_length_and_epochs_and_seeds_differ() -> None:
    lengths = [(37 * n) % 101 for n in range(64)]
    order = list(LengthSampler(lengths, 8, 0, lambda: 0))
    for start in range(0, 64, 8):
        step = [lengths[row] for row in order[start : start + 8]]
        assert max(step) - min(step) < 25
        assert all(one >= two for one, two in pairwise(step)), "and so are those of a micro-batch"
    assert order != list(LengthSampler(lengths, 8, 0, lambda: 1))
    assert order != list(LengthSampler(lengths, 8, 1, lambda: 0))


def test_adam_takes_the_recipes_epsilon(tmp_path: Path) -> None:
    assert make_trainer(tmp_path, some_rows(2), adam_epsilon=1e-6).args.adam_epsilon == 1e-6
