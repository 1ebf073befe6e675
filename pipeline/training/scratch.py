"""A T5 from nothing: a tokeniser trained on the rows, a model drawn by the recipe's seed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from huggingface_hub.errors import StrictDataclassError
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration, set_seed

from pipeline.errors import StoreError, TrainingError
from pipeline.models.addresses import resolve
from pipeline.training import checkpoint
from pipeline.training.program import Job
from pipeline.training.progress import say
from pipeline.training.seq2seq_data import read_examples
from pipeline.trajectories.files import read_json

PAD, END, UNKNOWN = 0, 1, 2
SENTINELS: Final = 100
CONTROL: Final = ["<pad>", "</s>", "<unk>", *(f"<extra_id_{number}>" for number in range(SENTINELS))]
"""T5's control tokens. Padding, end and unknown have its ids as well."""
_CONTROL: Final = re.compile(r"<pad>|</s>|<unk>|<extra_id_\d+>")
_OWN: Final = ("model_type", "architectures", "pad_token_id", "eos_token_id", "decoder_start_token_id")
"""What a config says of itself and of the ids, which are decided here."""


def start(job: Job) -> tuple[Any, Any]:
    """The untrained model and its tokeniser: read from ``<style>.start``, or made and kept there.

    Every rank makes the same; the first one writes it down.

    Raises:
        TrainingError: the config or the rows are unusable, or the folder is of another recipe.
    """
    tokenizer = build_tokenizer(texts(job.rows / "train.jsonl"), _config(job).vocab_size)
    model = build_model(_config(job), len(tokenizer), job.train.seed)
    if os.environ.get("RANK", "0") == "0":
        _keep(job, model, tokenizer)
    return model, tokenizer


def texts(path: Path) -> Iterator[str]:
    """What a file's rows are made of, without control tokens; every piece once an episode.

    An input repeats the history of the one before it, which would count ten times.

    Raises:
        TrainingError: the file is missing or damaged.
    """
    for _, examples in groupby(read_examples(path), key=lambda example: example.episode):
        pieces = (piece for one in examples for piece in [*_CONTROL.split(one.input), one.target])
        yield from dict.fromkeys(piece.strip() for piece in pieces)


def build_tokenizer(pieces: Iterable[str], limit: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE with T5's control tokens, digits one by one, and an end token put last.

    Every text can be written and read back but for space around it, as with T5's own.

    Args:
        pieces: texts without control tokens.
        limit: the most entries that the vocabulary may have.

    Raises:
        TrainingError: the limit is too low for the control tokens and the bytes.
    """
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    if limit < len(CONTROL) + len(alphabet):
        raise TrainingError(
            f"vocab_size {limit} is too small: control tokens and bytes alone are "
            f"{len(CONTROL) + len(alphabet)}; raise it in the model's config"
        )
    core = Tokenizer(models.BPE())
    # A word is the same piece at the beginning of a text as in its midst.
    core.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.Prepend(" ")])
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    core.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    trainer = trainers.BpeTrainer(
        vocab_size=limit,
        min_frequency=2,
        show_progress=False,
        special_tokens=[_control(name) for name in CONTROL],
        initial_alphabet=sorted(alphabet),
    )
    core.train_from_iterator(pieces, trainer)
    core.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", END)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=_control("<pad>"),
        eos_token=_control("</s>"),
        unk_token=_control("<unk>"),
        extra_special_tokens=[_control(name) for name in CONTROL[3:]],
        clean_up_tokenization_spaces=False,
    )


def build_model(config: T5Config, vocabulary: int, seed: int) -> T5ForConditionalGeneration:
    """The model of a config, with random weights, its embedding sized to the tokeniser."""
    config.vocab_size = vocabulary
    set_seed(seed)
    model = T5ForConditionalGeneration(config)
    model.generation_config.pad_token_id = PAD
    model.generation_config.eos_token_id = END
    model.generation_config.decoder_start_token_id = PAD
    return model.eval()


def _config(job: Job) -> T5Config:
    path = Path(resolve(job.address).name)
    try:
        values = read_json(path)
        kind = values.get("model_type", "t5")
        if kind != "t5":
            raise TrainingError(f"{path}: model_type is {kind!r}; only t5 is made from nothing")
        values = {key: value for key, value in values.items() if key not in _OWN}
        ids: dict[str, Any] = {"pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": PAD}
        return T5Config(**values, **ids)
    except StoreError as error:
        raise TrainingError(f"{error}; give a T5 config") from None
    except (AttributeError, TypeError, ValueError, StrictDataclassError) as error:
        raise TrainingError(f"{path} is no T5 config: {' '.join(str(error).split())}") from None


def _control(name: str) -> AddedToken:
    return AddedToken(name, normalized=False, special=True)


def _keep(job: Job, model: Any, tokenizer: Any) -> None:
    """Write the untrained model down, whole and stamped, unless it is there already."""
    wanted = {key: value for key, value in job.identity.items() if not key.startswith("train.")}
    wanted |= {"train.seed": job.train.seed, "train.lora": None}
    if checkpoint.finished(job.start, wanted):
        return
    with checkpoint.new_folder(job.start) as fresh:
        model.save_pretrained(fresh)
        tokenizer.save_pretrained(fresh)
        checkpoint.describe(fresh, tokenizer, wanted, {"rows": 0}, job.train.seed)
    size = sum(weight.numel() for weight in model.parameters())
    say(f"{job.start}: a new model of {size:,} weights, {len(tokenizer):,} words")
