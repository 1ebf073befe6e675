from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from pipeline.errors import ContextLimitError, FormatError, TrainingError
from pipeline.rendering.seq2seq_ids import encode_source, ids_of
from pipeline.rendering.tokens import IGNORE
from pipeline.training.scratch import build_tokenizer
from pipeline.training.seq2seq_data import Seq2SeqCollator, load_examples, read_examples
from tests.training.making import make_tokenizer
from tests.training.making_seq2seq import prompt, rows, save_rows


@pytest.fixture(scope="module")
def words() -> PreTrainedTokenizerFast:
    return build_tokenizer([str(row[key]) for row in rows(6) for key in ("input", "target")] * 2, 520)


@given(st.text(max_size=60))
def test_one_end_token_and_it_is_the_last(words: PreTrainedTokenizerFast, text: str) -> None:
    # T17: neither none nor two, whether the text ends with one or the tokeniser adds one.
    text = text.replace("<", "")
    for written in (text, f"{text} </s> ", f"{text}</s></s>"):
        ids = ids_of(words, written)
        assert ids.count(words.eos_token_id) == 1
        assert ids[-1] == words.eos_token_id


def test_separators_stay_and_only_the_last_is_the_end(words: PreTrainedTokenizerFast) -> None:
    ids = ids_of(words, prompt("kitchen", 2).text)
    names = words.convert_ids_to_tokens(ids)
    assert names.count("</s>") == 8
    assert names[-2:] != ["</s>", "</s>"]
    assert [name for name in names if name.startswith("<extra_id")] == ["<extra_id_10>", "<extra_id_9>"]
    assert ids_of(words, "a \ud800 b") == ids_of(words, "a \ufffd b"), "a lone surrogate is replaced"


def test_a_long_source_keeps_the_task_the_newest_entry_and_the_question(
    words: PreTrainedTokenizerFast,
) -> None:
    text = prompt("kitchen", 2).text
    whole = len(ids_of(words, text))
    cut = encode_source(words, text, whole - 1)
    assert len(cut) < whole
    kept = words.decode(cut)
    assert "go to the kitchen" in kept
    assert "open door to kitchen (+0)" in kept
    assert "look around (+0)" not in kept
    assert "What action should you do next?" in kept
    assert encode_source(words, text, whole) == ids_of(words, text)
    with pytest.raises(ContextLimitError):
        encode_source(words, text, 10)


def test_a_tokeniser_without_an_end_is_refused() -> None:
    endless = make_tokenizer()
    endless.eos_token = None
    with pytest.raises(FormatError, match="no end token"):
        ids_of(endless, "x")


def test_rows_are_cut_dropped_and_counted(words: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    items = rows(2)
    items.append({**items[0], "step": 8, "target": "wait " * 9})
    items.append({**items[0], "step": 9, "target": "  "})
    long = prompt("kitchen", 2)
    items.append({**items[0], "step": 10, "input": long.text.replace("orange", "orange " * 80)})
    items.append({**items[0], "step": 11, "input": long.text.replace("Your task", "Your task " * 80)})
    save_rows(path, items)
    limit = max(len(ids_of(words, str(row["input"]))) for row in rows(2))
    loaded, report = load_examples(path, words, limit, 8)
    assert (report.rows_read, report.rows_kept) == (8, 5)
    assert (report.targets_too_long, report.rows_unlabelled, report.rows_too_long) == (1, 1, 1)
    assert (report.rows_cut, report.entries_left_out) == (1, 1)
    assert report.characters_left_out > 0
    assert report.longest_source <= limit
    assert report.tokens == sum(len(row.source) + len(row.target) for row in loaded)
    assert "rows dropped for a target that is too long: 1" in report.lines()
    for encoded, row in zip(loaded, items[:4], strict=False):
        assert words.decode(encoded.target[:-1].tolist()) == row["target"]
        assert encoded.source.tolist() == encode_source(words, str(row["input"]), limit), "as it is served"


def test_padding_is_masked_by_length_and_the_decoder_starts_from_the_start(
    words: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    save_rows(tmp_path / "train.jsonl", rows(1))
    loaded, _ = load_examples(tmp_path / "train.jsonl", words, 400, 16)
    batch = Seq2SeqCollator(pad=0, start=0)(loaded)
    for index, row in enumerate(loaded):
        size, wide = len(row.source), batch["input_ids"].shape[1]
        assert batch["attention_mask"][index].tolist() == [1] * size + [0] * (wide - size)
        labels = batch["labels"][index]
        assert labels[labels != IGNORE].tolist() == row.target.tolist()
        decoder = batch["decoder_input_ids"][index]
        assert decoder[0] == 0
        assert torch.equal(decoder[1:][: len(row.target) - 1], labels[: len(row.target) - 1])


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{torn", "line 1 is not JSON"),
        ('{"id": "a", "step": 1, "prompt": "x"}', "not of the format 'swift'"),
        ('{"id": "a", "step": 1, "input": 3, "target": "x"}', "must be texts"),
        ("[]", "not of the format 'swift'"),
    ],
)
def test_a_bad_row_is_one_sentence(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(TrainingError, match=complaint):
        list(read_examples(path))


def test_nothing_to_train_on_says_why(words: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    save_rows(tmp_path / "train.jsonl", rows(1))
    with pytest.raises(TrainingError, match=r"no row to train on: 2 read.*train\.target_length = 2"):
        load_examples(tmp_path / "train.jsonl", words, 400, 2)
    with pytest.raises(TrainingError, match="export the dataset again"):
        load_examples(tmp_path / "none.jsonl", words, 400, 16)
