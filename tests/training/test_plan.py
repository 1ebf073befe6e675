"""Counting, splitting and timing: by hand, against known sizes, and against torch's own counting."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from pipeline.errors import ModelError, RecipeError
from pipeline.recipe.models import DpoRecipe, LoraRecipe, TrainRecipe
from pipeline.training.launch import config_file
from pipeline.training.plan.data import Data, told, unknown
from pipeline.training.plan.gpus import GPUS, find_gpu
from pipeline.training.plan.memory import FRAGMENTATION, checkpoints, memory_of, work_of
from pipeline.training.plan.sharding import SHARDINGS, read_accelerate
from pipeline.training.plan.speed import row_flops
from pipeline.training.plan.student import Base, Counts, build, count, read_base
from pipeline.training.plan.trace import Activations, Work, kernels, trace

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "recipes" / "configs"
COUNTS = Counts(total=1000, trained=1000, embedding=200, head=200, body=600, encoder=0, layer=300, rest=400)
PASS = Activations(peak=5000, growing=6000)
FULL = work_of(TrainRecipe(), SHARDINGS["none"], labelled=0.4, checkpointing=False)
HALF = work_of(TrainRecipe(), SHARDINGS["zero3"], labelled=0.4, checkpointing=False)


@lru_cache
def benchmark() -> Any:
    spec = importlib.util.spec_from_file_location("memory_model", ROOT / "benchmarks" / "memory_model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def tiny(**values: Any) -> Base:
    return benchmark().llama(64, 2, 500, **values)


@pytest.mark.parametrize(
    ("name", "total", "bare"),
    [
        # Llama 3.1: embedding and head 128256 × 4096 each; 32 × (2 × 4096² + 2 × 4096 × 1024 +
        # 3 × 4096 × 14336 + 2 × 4096) + 4096.
        ("llama_3_1_8b", 8_030_261_248, 8_030_261_248 - 128_256 * 4096),
        ("t5_large", 737_668_096, 737_668_096 - 32_128 * 1024),
        ("qwen3_8b", 8_190_735_360, 8_190_735_360 - 151_936 * 4096),
    ],
)
def test_known_models_have_their_known_sizes(name: str, total: int, bare: int) -> None:
    counts = count(read_base("x", CONFIGS / f"{name}.json"), None)
    assert (counts.total, counts.total - counts.embedding) == (total, bare)
    assert counts.trained == total


def test_an_adapter_is_on_every_linear_layer_but_the_head() -> None:
    base = tiny()
    whole, adapted = count(base, None), count(base, LoraRecipe(rank=4))
    # Width 64, key-value width 32, inner width 192: rank × (in + out) a matrix.
    layer = 4 * (2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 192))
    assert adapted.trained == 2 * layer
    assert adapted.total == whole.total + adapted.trained
    assert (adapted.body, adapted.head) == (whole.body, whole.head)


def test_one_gpu_keeps_float32_weights_gradients_and_two_moments() -> None:
    found = memory_of(COUNTS, PASS, FULL, SHARDINGS["none"], 1, passes=2)
    assert (found.weights, found.gradients, found.optimizer) == (4000, 4000, 8000)
    assert (found.activations, found.communication, found.gathered) == (5000, 0, 0)
    assert found.reserve == pytest.approx(1e9 + FRAGMENTATION * 21000)
    # With one pass a step gradients come while activations go: 6000 is the worst moment of both.
    once = memory_of(COUNTS, PASS, FULL, SHARDINGS["none"], 1, passes=1)
    assert once.gradients + once.activations == 6000


def test_data_parallel_sends_a_copy_of_the_gradients() -> None:
    found = memory_of(COUNTS, PASS, FULL, SHARDINGS["ddp"], 4, passes=2)
    assert (found.weights, found.gradients, found.optimizer, found.communication) == (4000, 4000, 8000, 4000)
    assert found.reserve == pytest.approx(2e9 + FRAGMENTATION * found.tensors)


def test_zero_splits_by_stage() -> None:
    two = memory_of(COUNTS, PASS, HALF, SHARDINGS["zero2"], 4, 1)
    assert (two.weights, two.gradients, two.optimizer) == (2000, 500, 3000)
    three = memory_of(COUNTS, PASS, HALF, SHARDINGS["zero3"], 4, 1)
    assert (three.weights, three.gradients, three.optimizer, three.gathered) == (500, 500, 3000, 2000)
    away = memory_of(COUNTS, PASS, HALF, SHARDINGS["zero3_offload"], 4, 1)
    assert (away.weights, away.gradients, away.optimizer) == (0, 0, 0)
    # Master weights, moments and float32 gradients, 16 bytes a weight, and the weights themselves.
    assert away.host == 16 * 1000 + 2 * 1000


def test_fsdp_keeps_float32_shards_and_gathers_blocks() -> None:
    found = memory_of(COUNTS, PASS, HALF, SHARDINGS["fsdp2"], 4, 1)
    assert (found.weights, found.gradients, found.optimizer) == (1000, 1000, 2000)
    assert found.gathered == 2 * (400 + 2 * 300)


def test_frozen_weights_are_held_in_half() -> None:
    adapted = replace(COUNTS, trained=10)
    work = work_of(TrainRecipe(lora=LoraRecipe()), SHARDINGS["none"], labelled=0.4, checkpointing=False)
    found = memory_of(adapted, PASS, work, SHARDINGS["none"], 1, 2)
    assert (found.weights, found.gradients, found.optimizer) == (4 * 10 + 2 * 990, 40, 80)


@given(
    trained=st.integers(1, 10**11),
    frozen=st.integers(0, 10**11),
    gpus=st.integers(2, 512),
    more=st.integers(1, 512),
    kind=st.sampled_from(["zero2", "zero3", "zero3_offload", "fsdp2"]),
)
def test_more_gpus_never_need_more_memory_each(
    trained: int, frozen: int, gpus: int, more: int, kind: str
) -> None:
    total = trained + frozen
    counts = Counts(total, trained, total // 10, total // 10, total // 2, 0, total // 40, total // 5)
    few, many = (memory_of(counts, PASS, HALF, SHARDINGS[kind], n, 2) for n in (gpus, gpus + more))
    assert many.total <= few.total * (1 + 1e-12)


@settings(max_examples=5, deadline=None)
@given(length=st.integers(16, 200), more=st.integers(1, 100), batch=st.integers(1, 3))
def test_longer_rows_and_more_of_them_never_need_less(length: int, more: int, batch: int) -> None:
    work = replace(FULL, batch=batch, length=length)
    here = trace(TINY, work)
    for other in (replace(work, length=length + more), replace(work, batch=batch + 1)):
        there = trace(TINY, other)
        assert there.peak >= here.peak
        assert there.growing >= here.growing


TINY = tiny()


def test_checkpointing_spares_memory() -> None:
    work = replace(FULL, batch=4, length=512)
    assert trace(TINY, replace(work, checkpointing=True)).peak < 0.7 * trace(TINY, work).peak


@pytest.mark.parametrize("kind", ["packed", "examples", "adapter", "preference", "preferring adapter"])
def test_the_prediction_is_within_15_percent_of_what_torch_allocates(kind: str) -> None:
    module = benchmark()
    plain: Work = module.PLAIN
    halves = replace(plain, batch=4, packing=False, preference=True)
    case = {
        "packed": module.Case("", module.llama(96, 3, 2000), plain),
        "examples": module.Case("", module.t5(96, 2, 2000), replace(plain, packing=False)),
        "adapter": module.Case(
            "", module.llama(96, 3, 2000), replace(plain, lora=LoraRecipe(), half=True, autocast=True)
        ),
        "preference": module.Case("", module.llama(96, 3, 2000), halves),
        "preferring adapter": module.Case(
            "", module.llama(96, 3, 2000), replace(halves, lora=LoraRecipe(), half=True, autocast=True)
        ),
    }[kind]
    real = module.measured(case)
    assert module.predicted(case) == pytest.approx(real, rel=0.15)


@pytest.mark.parametrize(
    "train", [TrainRecipe(label_only_head=False), TrainRecipe(label_only_head=False, lora=LoraRecipe(rank=1))]
)
def test_the_formula_counts_the_operations_that_torch_counts(train: TrainRecipe) -> None:
    base, length = benchmark().llama(256, 4, 2000), 64
    model = base_model(base, train.lora)
    ids = torch.zeros(1, length, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    data = Data(1, length, length, 1.0, "")
    said = row_flops(base, count(base, train.lora), train, data, checkpointing=False)
    assert said == pytest.approx(counter.get_total_flops(), rel=0.08)


@pytest.mark.parametrize("lora", [None, LoraRecipe(rank=1)])
def test_the_formula_counts_the_operations_of_a_pair(lora: LoraRecipe | None) -> None:
    base, length = benchmark().llama(256, 4, 2000), 64
    model = base_model(base, lora)
    ids = torch.zeros(2, length, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        with torch.no_grad():
            model(input_ids=ids, use_cache=False)
    train = TrainRecipe(label_only_head=False, lora=lora, dpo=DpoRecipe())
    said = row_flops(
        base, count(base, lora), train, Data(1, 2 * length, length, 1.0, ""), checkpointing=False
    )
    assert said == pytest.approx(counter.get_total_flops(), rel=0.08)


def test_a_copy_to_compare_with_is_split_as_the_weights_are() -> None:
    train = TrainRecipe(dpo=DpoRecipe())
    copies = {}
    for name in ("none", "ddp", "zero2", "zero3", "zero3_offload", "fsdp2"):
        work = work_of(train, SHARDINGS[name], labelled=0.4, checkpointing=False)
        copies[name] = memory_of(COUNTS, PASS, work, SHARDINGS[name], 4, 1).reference
    # A thousand weights in float32, or in bfloat16, whole or in quarters.
    assert copies == {
        "none": 4000,
        "ddp": 4000,
        "zero2": 2000,
        "zero3": 500,
        "zero3_offload": 500,
        "fsdp2": 1000,
    }
    adapter = work_of(
        train.model_copy(update={"lora": LoraRecipe()}), SHARDINGS["none"], labelled=0.4, checkpointing=False
    )
    assert memory_of(COUNTS, PASS, adapter, SHARDINGS["none"], 1, 1).reference == 0


def base_model(base: Base, lora: LoraRecipe | None) -> Any:
    return build(base, lora=lora)


def test_the_formula_counts_the_operations_of_an_encoder_decoder() -> None:
    base, train = benchmark().t5(256, 3, 2000), TrainRecipe(target_length=8)
    source, target = torch.zeros(1, 64, dtype=torch.long), torch.zeros(1, 8, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        model = base_model(base, None)
        model(input_ids=source, decoder_input_ids=target, use_cache=False).logits.sum().backward()
    data = Data(1, 72, 72, 1.0, "")
    said = row_flops(base, count(base, None), train, data, checkpointing=False)
    assert said == pytest.approx(counter.get_total_flops(), rel=0.08)


def test_the_published_speed_of_an_8b_model_is_within_reach() -> None:
    """Llama 3.1 8B, every weight, rows of 8,192 on H100s: 5,762 tokens/s a GPU (torchtitan)."""
    base = read_base("x", CONFIGS / "llama_3_1_8b.json")
    train = TrainRecipe(max_length=8192, label_only_head=False)
    counts = count(base, None)
    flops = row_flops(base, counts, train, Data(1, 8192, 8192, 1.0, ""), checkpointing=False)
    by_hand = 6 * (8_030_261_248 - 128_256 * 4096) + 6 * 32 * 4096 * 8192
    assert flops / 8192 == pytest.approx(by_hand, rel=1e-9)
    assert 0.25 < 5762 * flops / 8192 / GPUS["h100"].flops < 0.45


def test_rows_become_blocks_where_they_are_packed() -> None:
    packed = told(TrainRecipe(max_length=1000), rows=950, per_row=100, labelled=0.5)
    assert (packed.units, packed.tokens, packed.document) == (100, 950, 100)
    apart = told(TrainRecipe(max_length=1000, packing=False), rows=950, per_row=2000, labelled=None)
    assert (apart.units, apart.tokens) == (950, 1000)
    assert unknown(TrainRecipe(max_length=1000), None).units is None
    pairs = TrainRecipe(max_length=1000, packing=False, dpo=DpoRecipe())
    found = told(pairs, rows=950, per_row=100, labelled=None)
    assert (found.units, found.tokens, found.document) == (950, 200, 100)
    assert (unknown(pairs, None).tokens, unknown(pairs, None).document) == (2000, 1000)


def test_a_gpu_has_a_name_or_figures() -> None:
    assert find_gpu("H100") == GPUS["h100"]
    assert find_gpu("h100", memory=40).memory == 40e9
    assert find_gpu("", 10, 20).flops == 20e12
    with pytest.raises(RecipeError, match="none of b200"):
        find_gpu("h1000")
    with pytest.raises(RecipeError, match="say which GPU"):
        find_gpu("", memory=40)


def test_the_files_of_accelerate_say_the_sharding(tmp_path: Path) -> None:
    for name in ("zero2", "zero3"):
        split, processes = read_accelerate(config_file(name, ROOT / "recipes" / "atlas" / "x.yaml"))
        assert split == SHARDINGS[name]
        assert processes == 8
    path = tmp_path / "away.yaml"
    path.write_text(
        "distributed_type: DEEPSPEED\nnum_processes: 8\n"
        "deepspeed_config: {zero_stage: 3, offload_optimizer_device: cpu, offload_param_device: none}\n"
    )
    split, processes = read_accelerate(path)
    assert (split.offload_optimizer, split.offload_weights, processes) == (True, False, 8)
    for text in (
        "a: [",
        "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 1}",
        "num_processes: many",
    ):
        path.write_text(text)
        with pytest.raises(RecipeError, match=r"away\.yaml"):
            read_accelerate(path)


@pytest.mark.parametrize(
    "text", ["{}", "[]", '{"model_type": "nothing"}', '{"model_type": "llama", "hidden_size": "x"}']
)
def test_a_config_that_is_none_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ModelError, match="config") as failed:
        count(read_base("x", path), None)
    assert "\n" not in str(failed.value)


def test_fused_attention_is_used_only_inside_of_the_mode() -> None:
    q = torch.randn(1, 2, 4, 8, requires_grad=True)
    plain = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    with kernels(gpu=True):
        fused = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    assert torch.allclose(plain, fused, atol=1e-6)


@pytest.mark.parametrize("asked", [True, False])
def test_a_plan_computes_activations_twice_where_the_recipe_says_so(asked: bool) -> None:
    counts = Counts(9_000, 9_000, 10, 10, 8_000, 0, 10, 10)
    assert checkpoints(counts, TrainRecipe(activation_checkpointing=asked)) is asked
    assert not checkpoints(counts, TrainRecipe())
    assert checkpoints(replace(counts, total=2_000_000_000), TrainRecipe())
