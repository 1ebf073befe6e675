from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from pipeline.models.addresses import load_tokenizer, read_stamp, tokenizer_hash
from pipeline.models.transformers_load import load_seq2seq
from pipeline.rendering.seq2seq_ids import ids_of
from pipeline.training.scratch import CONTROL, build_tokenizer, texts
from tests.training.making_seq2seq import Place, rows, save_rows

PIECES = ["open door to kitchen", "go to kitchen", "Score: 12; the thermometer reads 104"] * 3


@pytest.fixture(scope="module")
def words() -> PreTrainedTokenizerFast:
    return build_tokenizer(PIECES, 500)


def test_control_tokens_have_their_roles(words: PreTrainedTokenizerFast) -> None:
    assert (words.pad_token_id, words.eos_token_id, words.unk_token_id) == (0, 1, 2)
    for number in (0, 10, 99):
        [found] = words.encode(f"<extra_id_{number}>", add_special_tokens=False)
        assert words.convert_ids_to_tokens(found) == f"<extra_id_{number}>"
    assert words("open door").input_ids[-1] == 1, "the end is put last"
    assert len(words) <= 500


@given(st.text(max_size=40))
def test_every_text_is_read_back_but_for_space_around_it(words: PreTrainedTokenizerFast, text: str) -> None:
    text = text.replace("<", "").strip()
    ids = words.encode(text, add_special_tokens=False)
    assert words.decode(ids, skip_special_tokens=True) == text
    assert not set(ids) & set(range(len(CONTROL))), "nothing is unknown or control"


def test_digits_stand_alone_and_a_first_word_is_the_same_piece_as_a_later_one(
    words: PreTrainedTokenizerFast,
) -> None:
    pieces = words.tokenize("Score: 12; reads 104")
    assert [piece for piece in pieces if any(letter.isdigit() for letter in piece)] == list("12104")
    first = ids_of(words, "open door")[:-1]
    assert ids_of(words, "go to open door")[-len(first) - 1 : -1] == first


def test_the_same_texts_give_the_same_tokeniser_also_when_read_back(
    words: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    assert tokenizer_hash(build_tokenizer(iter(PIECES), 500)) == tokenizer_hash(words)
    words.save_pretrained(tmp_path)
    assert tokenizer_hash(load_tokenizer(tmp_path)) == tokenizer_hash(words)


def test_control_tokens_are_no_text_and_an_episodes_history_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    save_rows(path, rows(2))
    pieces = list(texts(path))
    assert not [piece for piece in pieces if "</s>" in piece or "<extra_id" in piece]
    assert pieces.count("look around (+0) --> N/A |") == 2, "once in each of two episodes"
    assert pieces.count("open door to kitchen") == 1


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"vocab_size": 300}, "vocab_size 300 is too small"),
        ({"model_type": "llama"}, "only t5 is made from nothing"),
        ({"num_heads": "many"}, "is no T5 config"),
    ],
)
def test_a_config_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, object], complaint: str
) -> None:
    place = Place(tmp_path, count=2, **changes)
    assert place.train() == 2
    assert complaint in capsys.readouterr().err
    assert not place.folder.exists()


def test_the_untrained_model_is_a_whole_checkpoint_of_its_own(tmp_path: Path) -> None:
    place = Place(tmp_path, "max_steps: 1\nseed: 3", count=2)
    assert place.train() == 0
    start = place.folder.with_name("act.start")
    stamp = read_stamp(start)
    assert (stamp["style"], stamp["renderer"], stamp["spec_digest"]) == ("act", "swift", "digest-act")
    one, tokenizer = load_seq2seq(str(start), torch.float32, "cpu")
    assert one.config.vocab_size == len(tokenizer) <= 520, "the config's is an upper bound"
    assert stamp["seed"] == 3
    # Another run with the same seed starts from the same weights; one with another seed does not.
    again, other = Place(tmp_path / "b", "max_steps: 1\nseed: 3", count=2), Place(tmp_path / "c", count=2)
    assert again.train() == 0
    assert other.train("train.max_steps=1") == 0
    two, _ = load_seq2seq(str(again.folder.with_name("act.start")), torch.float32, "cpu")
    three, _ = load_seq2seq(str(other.folder.with_name("act.start")), torch.float32, "cpu")
    assert torch.equal(one.shared.weight, two.shared.weight)
    assert not torch.equal(one.shared.weight, three.shared.weight)
