"""A tiny tokeniser, model and dataset, made on the spot: no downloads, a fraction of a second."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PLACES = ["Oslo", "Lima", "Rome", "Paris", "Quito", "Dakar", "Hanoi", "Accra"]


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level pieces with ChatML control tokens; padding is the end of text, as in many models."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        show_progress=False,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    core.train_from_iterator(
        [" ".join(PLACES) + " Thought Action Observation Search Finish capital of"] * 3, trainer
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token="<|endoftext|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>", "<|im_end|>"],
        chat_template=CHATML,
    )


def make_model(vocabulary: int, seed: int = 0, width: int = 32, layers: int = 2) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        eos_token_id=0,
        pad_token_id=0,
        bos_token_id=None,
    )
    return LlamaForCausalLM(config).eval()


def save_base(folder: Path, **settings: int) -> Path:
    tokenizer = make_tokenizer()
    make_model(len(tokenizer), **settings).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def text_rows(name: str, place: str, steps: int = 2) -> list[dict[str, object]]:
    """One episode in the text format: a row a step."""
    text = f"Question: Where is {place}?\nThought 1:"
    rows: list[dict[str, object]] = []
    for step in range(1, steps + 1):
        action = f"Search[{place}]" if step < steps else f"Finish[{place}]"
        completion = f" I look {place}.\nAction {step}: {action}\nObservation"
        about = {"id": name, "task": f"t-{name}", "kind": "k"}
        rows.append({**about, "step": step, "prompt": text, "completion": completion})
        text += completion + f" {step}: {place} is a city.\nThought {step + 1}:"
    return rows


def chat_row(name: str, place: str, steps: int = 2) -> dict[str, object]:
    messages = [{"role": "user", "content": f"Question: Where is {place}?"}]
    for step in range(1, steps + 1):
        action = f"Search[{place}]" if step < steps else f"Finish[{place}]"
        messages.append({"role": "assistant", "content": f"I look {place}.\nAction: {action}"})
        if step < steps:
            messages.append({"role": "user", "content": f"Observation: {place} is a city."})
    return {"id": name, "task": f"t-{name}", "kind": "k", "messages": messages}


def save_dataset(
    run: Path, kind: str = "text", styles: tuple[str, ...] = ("react",), count: int = 8, dev: int = 0
) -> Path:
    """A dataset folder as export writes it."""
    dataset = run / "dataset"
    for style in styles:
        (dataset / style).mkdir(parents=True)
        for name, number in (("train", count), ("dev", dev)):
            if number:
                _write_jsonl(dataset / style / f"{name}.jsonl", rows(kind, number, style))
    about = {style: {"rows": count, "spec_digest": f"digest-{style}"} for style in styles}
    renderer = "text" if kind == "text" else "chat"
    export = {"format": kind, "renderer": renderer, "renderer_version": "1", "styles": about}
    (dataset / "export.json").write_text(json.dumps(export), encoding="utf-8")
    return dataset


def rows(kind: str, count: int, style: str = "react") -> list[dict[str, object]]:
    made: list[dict[str, object]] = []
    for number in range(count):
        name, place, steps = f"{style}-{number}", PLACES[number % len(PLACES)], 1 + number % 3
        if kind == "text":
            made += text_rows(name, place, steps)
            continue
        row = chat_row(name, place, steps)
        if kind == "sharegpt":
            names = {"user": "human", "assistant": "gpt"}
            turns = row.pop("messages")
            row["conversations"] = [{"from": names[turn["role"]], "value": turn["content"]} for turn in turns]
        made.append(row)
    return made


def save_recipe(
    folder: Path, base: Path, train: str = "", styles: str = "[react]", kind: str = "text"
) -> Path:
    """A recipe file; ``train`` holds further lines of the train section."""
    lines = "".join(f"  {line.strip()}\n" for line in train.splitlines() if line.strip())
    path = folder / "recipe.yaml"
    path.write_text(
        f"name: trial\nenvironment:\n  name: atlas\nmodels:\n  base:\n    address: {base}\n"
        f"export:\n  format: {kind}\n  styles: {styles}\n"
        f"train:\n  dtype: float32\n  max_length: 256\n{lines}",
        encoding="utf-8",
    )
    return path


def _write_jsonl(path: Path, items: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items), encoding="utf-8")
