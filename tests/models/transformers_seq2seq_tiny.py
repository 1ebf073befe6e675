"""Tiny T5 models with random weights and a tokeniser trained here, written as real model folders."""

from __future__ import annotations

import asyncio
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoModelForSeq2SeqLM, PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

from pipeline.models.base import Completion, Request, Sampling
from pipeline.models.transformers_seq2seq import TransformersSeq2Seq
from pipeline.recipe.models import ModelRecipe
from pipeline.rendering.base import Segment, TextPrompt
from pipeline.rendering.swift import SwiftPrompt

SENTINELS = [f"<extra_id_{number}>" for number in range(100)]
SAYINGS = [
    "focus on the red apple", "open door to kitchen", "pick up thermometer", "go to hallway", "use stove",
    "This room is called the kitchen. In it, you see: a table. On the table is: a glass cup, a substance",
    "In your inventory, you see: an orange, a metal pot | Visited rooms: hallway, art studio, greenhouse",
    "Your task is to boil water. First, focus on the substance. Time: 10; Score: 0; Action history: (+0) -->",
    "What action should you do next? Current environment: Current inventory: move to the workshop.",
]  # fmt: skip


def word_tokenizer() -> Any:
    core = Tokenizer(models.BPE(unk_token="<unk>"))
    core.normalizer = normalizers.NFKC()
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>", *SENTINELS]
    core.train_from_iterator(SAYINGS, trainers.BpeTrainer(vocab_size=320, special_tokens=special))
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        extra_special_tokens=SENTINELS,
    )


def write_t5(folder: Path, seed: int = 0, **changes: Any) -> Path:
    """A T5 whose answers differ with the input, and end within some twenty tokens more often than not."""
    torch.manual_seed(seed)
    tokenizer = word_tokenizer()
    shape = {
        "vocab_size": len(tokenizer),
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_layers": 2,
        "num_heads": 4,
        "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 64,
        "initializer_factor": 6.0,
        "decoder_start_token_id": 0,
        **changes,
    }
    model = T5ForConditionalGeneration(T5Config(**shape))
    with torch.no_grad():
        model.shared.weight[tokenizer.eos_token_id] *= 3.0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def load(folder: Path | str, **settings: Any) -> TransformersSeq2Seq:
    torch.set_num_threads(1)
    return TransformersSeq2Seq(ModelRecipe(address=str(folder), dtype="float32", device="cpu", **settings))


def swift_text(entries: int = 2, look: str = "This room is called the kitchen.", task: str = "boil") -> str:
    past = tuple(f"go to hallway (+{number}) --> You move to the hallway." for number in range(entries))
    return SwiftPrompt(f"Your task is to {task}.", entries + 1, 7, past, look, "an orange", "hallway").text


def ask(text: str, tokens: int = 12, **more: Any) -> Request:
    stop = more.pop("stop", ())
    seed = more.pop("seed", 0)
    return Request(TextPrompt((Segment(text),), stop), Sampling(max_tokens=tokens, **more), seed=seed)


def searched(model: TransformersSeq2Seq, count: int, *requests: Request) -> list[list[Completion]]:
    async def run() -> list[list[Completion]]:
        return list(await asyncio.gather(*(model.beams(request, count) for request in requests)))

    return asyncio.run(run())


def answers(model: TransformersSeq2Seq, *requests: Request) -> list[Completion]:
    async def run() -> list[Completion]:
        return list(await asyncio.gather(*(model.generate(request) for request in requests)))

    return asyncio.run(run())


@cache
def network(folder: Path | str) -> Any:
    """The model without anything of ours around it."""
    return AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()


def reference(folder: Path | str, tokenizer: Any, text: str, count: int, tokens: int) -> list[str]:
    """What transformers' own ``generate`` finds for one input by itself, best first."""
    # One end token at the end, whether the text brings its own or not.
    whole = text.rstrip().removesuffix("</s>") + "</s>"
    ids = tokenizer(whole, return_tensors="pt", add_special_tokens=False).input_ids
    out = network(folder).generate(
        ids, num_beams=count, num_return_sequences=count, max_new_tokens=tokens, do_sample=False
    )
    return tokenizer.batch_decode(out, skip_special_tokens=True)
