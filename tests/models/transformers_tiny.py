"""Tiny causal models with random weights, and a byte tokeniser, written as real model folders."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from pipeline.models.base import Completion, Request, Sampling
from pipeline.models.transformers_causal import TransformersCausal
from pipeline.recipe.models import ModelRecipe
from pipeline.rendering.base import Segment, TextPrompt

SHAPE = {
    "vocab_size": 258,
    "hidden_size": 48,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "initializer_range": 0.6,
    "eos_token_id": 256,
    "bos_token_id": None,
    "pad_token_id": 256,
}


def byte_tokenizer() -> Any:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: index for index, letter in enumerate(alphabet)}
    core = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(["<eos>", "<mark>"])
    template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    return PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<eos>", pad_token="<eos>", chat_template=template
    )


def write_model(folder: Path, kind: str = "llama", seed: int = 0, **changes: Any) -> Path:
    torch.manual_seed(seed)
    config = AutoConfig.for_model(kind, **{**SHAPE, **changes})
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


def load(folder: Path | str, **settings: Any) -> TransformersCausal:
    torch.set_num_threads(1)
    return TransformersCausal(ModelRecipe(address=str(folder), dtype="float32", device="cpu", **settings))


def ask(
    text: str, shared: str = "", tokens: int = 20, session: str = "", stop: tuple[str, ...] = (), **more: Any
) -> Request:
    segments = (Segment(shared, shared=True), Segment(text)) if shared else (Segment(text),)
    sampling = Sampling(max_tokens=tokens, temperature=more.get("temperature", 0), top_p=more.get("top_p", 1))
    return Request(TextPrompt(segments, stop), sampling, session, more.get("seed", 0))


def answers(model: TransformersCausal, *requests: Request, close: bool = False) -> list[Completion]:
    async def run() -> list[Completion]:
        found = await asyncio.gather(*(model.generate(request) for request in requests))
        if close:
            await model.close()
        return list(found)

    return asyncio.run(run())


def reference(folder: Path | str, tokenizer: Any, text: str, tokens: int) -> str:
    """What transformers' own greedy ``generate`` writes."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False)
    new = tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)
    # A character cut by the budget is left out of answers.
    return new.rstrip("\ufffd")
