import json

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from pipeline.errors import ModelError
from pipeline.models.addresses import load_tokenizer
from pipeline.models.transformers_load import load_causal, pick_device, pick_dtype
from tests.models.transformers_tiny import byte_tokenizer, write_model


@pytest.fixture
def adapter(tmp_path):
    """A base model and an adapter of random weights beside it."""
    base = write_model(tmp_path / "base")
    model = AutoModelForCausalLM.from_pretrained(base)
    model.name_or_path = str(base)
    torch.manual_seed(1)
    settings = LoraConfig(
        r=4, target_modules=["q_proj", "up_proj"], init_lora_weights=False, base_model_name_or_path=str(base)
    )
    get_peft_model(model, settings).save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


def change(adapter, edit):
    path = adapter / "adapter_model.safetensors"
    save_file(edit(load_file(path)), path)


def logits(model):
    with torch.inference_mode():
        return model(torch.arange(10)[None]).logits


def test_an_adapter_is_merged_in_memory(adapter):
    merged, tokenizer = load_causal(str(adapter), torch.float32, "cpu")
    base, _ = load_causal(str(adapter.parent / "base"), torch.float32, "cpu")
    weights = load_file(adapter / "adapter_model.safetensors")
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_{}.weight"
    delta = weights[name.format("B")] @ weights[name.format("A")] * (8 / 4)
    own, merged_own = (m.model.layers[0].self_attn.q_proj.weight for m in (base, merged))
    torch.testing.assert_close(merged_own, own + delta)
    assert not torch.allclose(logits(merged), logits(base))
    assert not merged.training
    assert tokenizer.eos_token == "<eos>"


def test_an_adapter_may_bring_its_own_tokeniser_and_name_its_base_in_the_stamp(adapter):
    config = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": None}))
    with pytest.raises(ModelError, match="no base model"):
        load_causal(str(adapter), torch.float32, "cpu")
    (adapter / "staract.json").write_text(json.dumps({"base": str(adapter.parent / "base")}))
    own = byte_tokenizer()
    own.chat_template = "mine"
    own.save_pretrained(adapter)
    assert load_causal(str(adapter), torch.float32, "cpu")[1].chat_template == "mine"


@pytest.mark.parametrize(
    "edit",
    [
        lambda weights: {key: torch.zeros_like(value) for key, value in weights.items()},
        lambda weights: {key: value * (".lora_B." not in key) for key, value in weights.items()},
        lambda weights: {},
        lambda weights: {key: torch.empty(0) for key in weights},
        lambda weights: {"other." + key: value for key, value in weights.items()},
        lambda weights: {key.replace("layers.", "blocks."): value for key, value in weights.items()},
    ],
    ids=["zeros", "zero B", "none", "empty", "prefix", "names"],
)
def test_r10_l01_an_adapter_without_effect_is_refused(adapter, edit):
    change(adapter, edit)
    with pytest.raises(ModelError, match="adapter has no effect"):
        load_causal(str(adapter), torch.float32, "cpu")


def test_other_broken_adapters_are_one_sentence(adapter):
    path = adapter / "adapter_model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:40])
    with pytest.raises(ModelError, match="cannot be read"):
        load_causal(str(adapter), torch.float32, "cpu")
    path.unlink()
    with pytest.raises(ModelError, match="holds no adapter_model"):
        load_causal(str(adapter), torch.float32, "cpu")
    path.write_bytes(whole)
    change(adapter, lambda weights: {k: v[:, :3].contiguous() for k, v in weights.items()})
    with pytest.raises(ModelError, match="does not fit") as caught:
        load_causal(str(adapter), torch.float32, "cpu")
    assert "\n" not in str(caught.value)
    (adapter / "adapter_config.json").write_text("{")
    with pytest.raises(ModelError, match="unreadable"):
        load_causal(str(adapter), torch.float32, "cpu")


def test_a_damaged_model_is_one_sentence(tmp_path):
    folder = write_model(tmp_path)
    (folder / "model.safetensors").write_bytes(b"\0" * 30)
    with pytest.raises(ModelError, match="cannot be loaded") as caught:
        load_causal(str(folder), torch.float32, "cpu")
    assert "\n" not in str(caught.value)


def test_pickled_weights_are_never_read(tmp_path):
    folder = write_model(tmp_path)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_causal(str(folder), torch.float32, "cpu")


def test_precision_and_place(monkeypatch):
    assert pick_dtype("float32") is torch.float32
    assert pick_dtype("bfloat16") is torch.bfloat16
    with pytest.raises(ModelError, match="'int8'"):
        pick_dtype("int8")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    assert pick_dtype() is torch.float32
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    assert pick_dtype() is torch.bfloat16
    assert pick_device("auto") == torch.device("cpu")
    with pytest.raises(ModelError, match="'warp'"):
        pick_device("warp")


def test_the_tokeniser_of_a_full_model_is_its_own(tmp_path):
    folder = write_model(tmp_path)
    _, tokenizer = load_causal(str(folder), torch.float32, "cpu")
    assert tokenizer.get_vocab() == load_tokenizer(folder).get_vocab()
