"""QLoRA for real: bitsandbytes holds the base in four bits, on the processor as well."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from pipeline.errors import ModelError, RecipeError, TrainingError
from pipeline.models.addresses import read_stamp
from pipeline.models.transformers_load import load_causal, load_quantized
from pipeline.recipe.models import LoraRecipe, TrainRecipe
from pipeline.training.adapter import load_base
from pipeline.training.identity import identity_of, require_same
from pipeline.training.plan.advice import changes
from pipeline.training.plan.data import unknown
from pipeline.training.plan.gpus import GPUS
from pipeline.training.plan.memory import Memory, memory_of, work_of
from pipeline.training.plan.plan import Machine, Plan, make_plan
from pipeline.training.plan.sharding import SHARDINGS
from pipeline.training.plan.student import Base, Counts, count, read_base
from pipeline.training.plan.table import lines
from pipeline.training.plan.trace import Activations
from tests.training.making import save_base
from tests.training.test_causal import Place, record_order

QLORA = LoraRecipe(rank=4, quantize="nf4")
CONFIGS = Path(__file__).resolve().parents[2] / "recipes" / "configs"


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base whose matrices are large enough to be packed in whole blocks."""
    return save_base(tmp_path_factory.mktemp("wide") / "tiny", width=64)


def packed(model: Any) -> list[Any]:
    return [weight for weight in model.parameters() if hasattr(weight, "quant_state")]


def held(weight: Any) -> int:
    """Bytes of a packed weight with its scales, without what is the same for all weights."""
    state = weight.quant_state
    return sum(part.untyped_storage().nbytes() for part in (weight.data, state.absmax, state.state2.absmax))


TRAIN = """batch_size: 2
packing: false
epochs: 5
learning_rate: 2e-2
save_every: 2
lora: {rank: 4, quantize: nf4}
"""


def test_an_adapter_is_trained_on_a_base_in_four_bits_and_a_stopped_run_goes_on_as_if_it_had_not(
    tmp_path: Path, wide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    load = load_quantized

    def look(*given: Any) -> Any:
        seen.append(load(*given)[0])
        return seen[-1], load(*given)[1]

    monkeypatch.setattr("pipeline.training.adapter.load_quantized", look)
    whole = Place(tmp_path / "whole", wide, train=TRAIN, count=6)
    assert whole.train() == 0
    assert len(packed(seen[0])) == 2 * 7, "every linear layer but the head"
    assert seen[0].lm_head.weight.dtype is torch.float32
    losses = [entry["loss"] for entry in whole.log()]
    assert losses[-1] < losses[0] - 0.2, "a random head can be brought to little more"
    broken = Place(tmp_path / "broken", wide, train=TRAIN, count=6)
    with monkeypatch.context() as patch:
        record_order(patch, stop_at=5)
        assert broken.train() == 130
    assert broken.train() == 0
    assert [entry["loss"] for entry in broken.log()] == losses
    first, second = (
        load_file(place.checkpoints / "react" / "adapter_model.safetensors") for place in (whole, broken)
    )
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert {tensor.dtype for tensor in first.values()} == {torch.float32}, "small steps are kept"
    assert all(tensor.any() for tensor in first.values())
    card = (whole.checkpoints / "react" / "README.md").read_text()
    assert "LoRA adapter, trained on the base in four bits" in card
    about = json.loads((whole.checkpoints / "react" / "train.json").read_text())
    base = AutoModelForCausalLM.from_pretrained(wide)
    assert about["weights"] == base.num_parameters() + sum(tensor.numel() for tensor in first.values())
    assert about["weights_per_process"] == about["weights"]
    _check_served(whole.checkpoints / "react", wide, first)


def _check_served(folder: Path, base: Path, adapter: dict[str, torch.Tensor]) -> None:
    """It is served on the base as it was before: base and product of the adapter's two matrices, by hand."""
    assert read_stamp(folder)["base"] == str(base)
    assert read_stamp(folder)["identity"]["train.lora"]["quantize"] == "nf4"
    assert json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"] == str(base)
    served, _ = load_causal(str(folder), torch.float32, "cpu")
    untouched = AutoModelForCausalLM.from_pretrained(base)
    name = "model.layers.0.mlp.up_proj"
    up, down = (adapter[f"base_model.model.{name}.lora_{side}.weight"] for side in "BA")
    wanted = untouched.get_submodule(name).weight + 32.0 / 4 * up @ down
    torch.testing.assert_close(served.get_submodule(name).weight, wanted)


def test_four_bits_are_near_what_they_stand_for(wide: Path) -> None:
    model, _ = load_quantized(str(wide), torch.float32, "cpu")
    plain, _ = load_causal(str(wide), torch.float32, "cpu")
    layer = model.model.layers[0].mlp.up_proj
    state = layer.weight.quant_state
    assert (state.quant_type, state.nested, state.dtype) == ("nf4", True, torch.float32)
    with torch.no_grad():
        found, wanted = layer(torch.eye(64)).T, plain.model.layers[0].mlp.up_proj.weight
    error = (found - wanted).norm() / wanted.norm()
    # Sixteen levels of a normal distribution: QLoRA's appendix and signal theory say about a tenth.
    assert 0.03 < error < 0.15


def test_what_cannot_be_packed_is_refused_in_one_sentence(
    tmp_path: Path, wide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="is an adapter, which four bits would round away; merge it"):
        load_quantized(str(tmp_path), torch.float32, "cpu")
    with monkeypatch.context() as patch:
        patch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
        with pytest.raises(TrainingError, match="four bits is not split over devices; take"):
            load_base(str(wide), TrainRecipe(lora=QLORA), torch.float32)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"bitsandbytes, .* pip install 'staract\[qlora\]'"):
        load_quantized(str(wide), torch.float32, "cpu")


def test_students_of_before_are_still_those_of_the_same_recipe(tmp_path: Path) -> None:
    def noted(lora: LoraRecipe) -> Any:
        return identity_of(TrainRecipe(lora=lora), "base", "react", {}, tmp_path)

    before = noted(LoraRecipe(rank=4))
    assert before["train.lora"].pop("quantize") is None
    require_same(tmp_path, before, noted(LoraRecipe(rank=4)))
    with pytest.raises(TrainingError, match=r"changed: train\.lora"):
        require_same(tmp_path, before, noted(QLORA))


def test_the_plan_counts_packed_weights_as_they_lie_in_memory(wide: Path) -> None:
    model, _ = load_quantized(str(wide), torch.bfloat16, "cpu")
    really = sum(held(weight) for weight in packed(model))
    others = [weight for weight in model.parameters() if not hasattr(weight, "quant_state")]
    really += sum(weight.untyped_storage().nbytes() for weight in others)
    base = Base(model.config, "wide")
    counts = replace(count(base, QLORA), trained=0, total=count(base, None).total)
    work = replace(_work(TrainRecipe(lora=QLORA)), half=True)
    found = memory_of(counts, Activations(0, 0), work, SHARDINGS["none"], 1, 2)
    assert found.weights == pytest.approx(really, rel=0.02)
    # One matrix at a time is unpacked into bfloat16: 64 × 128 is the largest.
    assert found.gathered == 2 * 64 * 128


def _work(train: TrainRecipe) -> Any:
    return work_of(train, SHARDINGS["none"], labelled=0.4, checkpointing=True)


def test_what_an_8b_takes_in_four_bits() -> None:
    counts = count(read_base("Llama-3.1-8B", CONFIGS / "llama_3_1_8b.json"), QLORA)
    # By hand: 32 layers of 2 × 4096² + 2 × 4096 × 1024 + 3 × 4096 × 14336 weights at 0.5159 bytes; two
    # tables of 128,256 × 4096, and norms, in bfloat16; the adapter in float32.
    linear = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    rest = 2 * 128_256 * 4096 + 65 * 4096
    assert (counts.linear, counts.matrix) == (linear, 4096 * 14336)
    work = replace(_work(TrainRecipe(lora=QLORA)), half=True)
    found = memory_of(counts, Activations(0, 0), work, SHARDINGS["none"], 1, 2)
    assert found.weights == linear * (0.5 + 1 / 64 + 4 / 16384) + 2 * rest + 4 * counts.trained
    assert found.gathered == 2 * 4096 * 14336


def _plan(lora: LoraRecipe | None, sharding: str = "none", gpus: int = 1) -> Plan:
    """A plan that nobody has traced."""
    base = read_base("Llama-3.1-8B", CONFIGS / "llama_3_1_8b.json")
    train = TrainRecipe(lora=lora, batch_size=2, max_length=64)
    machine = Machine(GPUS["4090"], gpus, SHARDINGS[sharding])
    counts = Counts(total=9, trained=1, embedding=1, head=1, body=6, encoder=0, layer=3, rest=3)
    nothing = Memory(0, 0, 0, 0, 0, 0, 0, 0)
    return Plan(base, train, machine, unknown(train, None), counts, True, nothing, 1.0)


def test_four_bits_are_advised_last_and_are_not_split() -> None:
    assert [change.words for change in changes(_plan(LoraRecipe()))][-2:] == [
        "train.lora.quantize=nf4",
        "train.lora.quantize=nf4 train.batch_size=1 train.accumulation=2",
    ]
    words = [change.words for change in changes(_plan(None, "zero3", 2))]
    assert "train.lora.rank=16 train.lora.quantize=nf4 train.accelerate=ddp" in words
    assert [change.words for change in changes(_plan(QLORA, "ddp", 2))] == [
        "train.batch_size=1 train.accumulation=2"
    ]
    split = _plan(QLORA, "zero3", 2)
    with pytest.raises(RecipeError, match="four bits is not split by zero3"):
        make_plan(split.base, split.train, split.data, split.machine)
    assert any("LoRA of rank 4, base in 4 bits" in line for line in lines(_plan(QLORA), "tiny"))
