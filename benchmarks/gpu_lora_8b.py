"""How fast an 8B model trains as a LoRA on one GPU, against the published figures.

    python benchmarks/gpu_lora_8b.py [--json FILE] [--document 4096] [--labelled 1.0]

Twenty optimiser steps of the project's own trainer (packed blocks of 4,096 tokens, label-only head,
activations computed twice) on a model of Llama-3.1-8B's shape with random weights: nothing is downloaded.
Takes a few minutes on an H100 or H200. Without a GPU a tiny model takes the same way on the processor,
which shows that the script runs and says nothing about a GPU.

MFU counts the operations that the loss needs once (a LoRA: 4 a frozen weight and token, and causal
attention) over the maker's dense bfloat16 figure; the hardware does more, since activations are computed
twice.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, disable_progress_bars
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoConfig, PreTrainedTokenizerFast, TrainerCallback
from transformers.utils import logging as transformers_logging

from pipeline.recipe.models import LoraRecipe, TrainRecipe
from pipeline.rendering.tokens import IGNORE
from pipeline.training.data import Row
from pipeline.training.documents import separate_documents
from pipeline.training.packing import PackedCollator, build_blocks
from pipeline.training.plan.data import Data
from pipeline.training.plan.gpus import by_device_name
from pipeline.training.plan.memory import memory, work_of
from pipeline.training.plan.sharding import SHARDINGS
from pipeline.training.plan.speed import row_flops
from pipeline.training.plan.student import Base, Counts, build, count, inner, read_base
from pipeline.training.trainer import StudentTrainer, trainer_config

STEPS, WARM = 20, 5
CONFIG = Path(__file__).parents[1] / "recipes/configs/llama_3_1_8b.json"
PUBLISHED = (
    ("Llama-3.1 8B, every weight, 8 × H100, FSDP2 (torchtitan)", 5762, "33–39% MFU"),
    ("7B, every weight, one H200, all activations twice (KempnerForge)", 10471, "57.8% MFU"),
    ("Llama-2 7B, LoRA, FP8, packed (NeMo)", 24824, ""),
    ("Llama-3.1 8B, LoRA, one A6000 (torchtune)", 4699, ""),
)
"""Tokens a second and GPU, as their authors print them; other models, GPUs and precisions than here."""


@dataclass(frozen=True)
class Size:
    """A model, and the blocks that it is trained on."""

    base: Base
    block: int
    lora: LoraRecipe


class Clock(TrainerCallback):
    """Notes when each optimiser step begins and ends."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.begun = 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.begun = now()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.seconds.append(now() - self.begun)


def now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def size() -> Size:
    if torch.cuda.is_available():
        return Size(read_base("Llama-3.1-8B", CONFIG), 4096, LoraRecipe(rank=16, alpha=32))
    tiny = AutoConfig.for_model(
        "llama", vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
    )  # fmt: skip
    return Size(Base(tiny, "a tiny Llama"), 256, LoraRecipe(rank=4, alpha=8))


def rows(vocabulary: int, block: int, document: int, labelled: float) -> list[Row]:
    """Rows of random tokens that fill one block a step exactly; the last tokens of each are labels."""
    chance = random.Random(0)
    made: list[Row] = []
    for number in range(STEPS * (block // document)):
        ids = [chance.randrange(2, vocabulary) for _ in range(document)]
        first = document - round(labelled * document)
        made.append(Row(f"row-{number}", ids, [IGNORE] * first + ids[first:]))
    return made


def tokenizer() -> Any:
    """The trainer asks for one and never uses it: the rows are ids already."""
    words = Tokenizer(WordLevel({"<pad>": 0, "<eos>": 1}, unk_token="<pad>"))
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")


def train(one: Size, recipe: TrainRecipe, data: list[Row], folder: str) -> list[float]:
    """Train; the seconds of each step."""
    cuda = torch.cuda.is_available()
    with torch.device("cuda" if cuda else "cpu"):
        model = build(one.base, dtype=torch.bfloat16 if cuda else torch.float32, lora=one.lora)
    config = trainer_config(
        recipe, Path(folder), "benchmark", bf16=cuda, parameters=model.num_parameters(), evaluates=False
    )
    clock = Clock()
    trainer = StudentTrainer(
        label_only=True,
        model=model,
        args=config,
        train_dataset=Dataset.from_list(build_blocks(data, one.block, 0, packing=True)),
        data_collator=PackedCollator(documents=separate_documents(inner(model))),
        processing_class=tokenizer(),
        callbacks=[clock],
    )
    trainer.train()
    return clock.seconds


def peak_of(name: str, told: float | None) -> float | None:
    """Dense bfloat16 FLOP/s of a GPU: as told, or its maker's figure."""
    if told is not None:
        return told * 1e12
    known = by_device_name(name)
    return known.flops if known else None


def measure(document: int | None, labelled: float, told: float | None) -> dict[str, Any]:
    one = size()
    length = min(document or one.block, one.block)
    recipe = TrainRecipe(
        lora=one.lora, batch_size=1, max_steps=STEPS, max_length=one.block, activation_checkpointing=True
    )
    made = rows(one.base.config.vocab_size, one.block, length, labelled)
    with tempfile.TemporaryDirectory() as folder:
        seconds = train(one, recipe, made, folder)
    counts = count(one.base, one.lora)
    rate = one.block / statistics.median(seconds[WARM:])
    data = Data(STEPS, float(one.block), float(length), labelled, "random rows")
    result: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "processor",
        "model": one.base.name,
        "parameters": counts.total,
        "block": one.block,
        "document": length,
        "labelled": labelled,
        "steps": len(seconds),
        "tokens_per_second": round(rate, 1),
    }
    if torch.cuda.is_available():
        result |= on_gpu(one, counts, recipe, data, rate, peak_of(result["device"], told))
    return result


def on_gpu(
    one: Size, counts: Counts, recipe: TrainRecipe, data: Data, rate: float, peak: float | None
) -> dict[str, Any]:
    needed = row_flops(one.base, counts, recipe, data, checkpointing=False) / data.tokens
    work = work_of(recipe, SHARDINGS["none"], labelled=data.labelled, checkpointing=True)
    planned = memory(one.base, counts, recipe, work, SHARDINGS["none"], 1)
    return {
        "mfu": None if peak is None else round(rate * needed / peak, 3),
        "peak_tflops": None if peak is None else peak / 1e12,
        "peak_memory_gb": round(torch.cuda.max_memory_allocated() / 1e9, 2),
        "planned_memory_gb": round(planned.tensors / 1e9, 2),
        "ratio": round(torch.cuda.max_memory_allocated() / planned.tensors, 3),
    }


def show(result: dict[str, Any]) -> None:
    for key, value in result.items():
        print(f"{key:20} {value}")
    if result["device"] == "processor":
        print("\nNo GPU here: a tiny model has shown that the script runs. This says nothing about a GPU.")
        return
    print("\npublished, tokens/s and GPU")
    for name, rate, note in PUBLISHED:
        print(f"{rate:8,}  {name}{f', {note}' if note else ''}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--document", type=int, help="tokens of a row; by default one fills a block")
    parser.add_argument("--labelled", type=float, default=1.0, help="share of labels among tokens")
    parser.add_argument("--peak-tflops", type=float, help="of a GPU that is not known by name")
    options = parser.parse_args()
    disable_progress_bars()
    transformers_logging.set_verbosity_error()
    result = measure(options.document, options.labelled, options.peak_tflops)
    show(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
