"""Merging a LoRA student into its base: one whole model, proved to write what the two together write.

The sums are made in float32 and rounded once, to the precision that the base is kept in. Then the
written folder is loaded as any model is, and its logits are compared with those of the base with the
adapter beside it, computed apart from the merge. Only one model is in memory at a time.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, Final

import torch
from peft import PeftModel

from pipeline.errors import TrainingError
from pipeline.models.addresses import first_line, load_tokenizer, local_folder, read_stamp
from pipeline.models.folders import ADAPTER, base_address, whole_base
from pipeline.models.transformers_load import load_causal
from pipeline.rendering.tokens import stop_token
from pipeline.training.agreement import Agreement, Ids, compare, row_logits
from pipeline.training.checkpoint import describe, new_folder, serve_stop
from pipeline.training.data import encode_episodes
from pipeline.training.identity import sha256
from pipeline.training.merge_card import write_merge_card
from pipeline.training.rows import read_episodes, read_export
from pipeline.trajectories.files import read_json, write_json

PROOF: Final = "merge.json"
"""The file that says how well the merged model agrees."""
DTYPES: Final = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
ROWS: Final = 4
LENGTH: Final = 128
"""Tokens of a row that are compared: logits of a large vocabulary take a gigabyte soon."""
SHARD: Final = "5GB"
"""The largest file of weights; more of them come with an index."""
PROMPTS: Final = (
    "Question: Which river flows through the capital of Austria?\nThought 1: The capital is Vienna.",
    "Question: Are Lima and Quito in the same country?\nThought 1: I look for Lima.\nAction 1: Search[Lima]",
    "Observation 1: Gdańsk (population 486,022; 262 km²) lies on the Baltic coast.\nThought 2: So the answer",
    "The quick check of a model needs plain words, numbers such as 3.14159, and an end.\n\n1. First,",
)
"""What is compared where there are no rows: our own."""


def merge(
    checkpoint: Path,
    out: Path,
    *,
    dtype: str = "auto",
    dataset: Path | None = None,
    say: Callable[[str], None] = print,
) -> Agreement:
    """Write an adapter of ours and its base as one model.

    Args:
        checkpoint: the folder of a LoRA student.
        out: the folder to write; it appears whole or not at all.
        dtype: ``float32``, ``float16`` or ``bfloat16``; ``auto`` is what the base is kept in.
        dataset: a dataset as exported, whose first rows in the student's style are compared; by default
            fixed prompts are.
        say: is told what is done.

    Raises:
        TrainingError: the checkpoint is no adapter of ours; ``out`` is there already or cannot be written;
            or the merged model writes something else than adapter and base do.
        ModelError: the base or the adapter cannot be loaded, or the adapter has no effect.
    """
    _refuse(checkpoint, out)
    weights = _dtype(checkpoint, dtype)
    rows = _rows(checkpoint, dataset)
    say(f"merge: {checkpoint} into {base_address(checkpoint)}, in {_name(weights)}")
    # This loads the adapter as it is served, with every check of its weights and its stamp.
    model, tokenizer = load_causal(str(checkpoint), torch.float32, "cpu")
    with new_folder(out) as fresh:
        _write(model.to(weights), tokenizer, fresh, checkpoint)
        del model
        stamp = _stamp(fresh, checkpoint, tokenizer, weights)
        agreement = _prove(checkpoint, fresh, rows, weights)
        say(f"merge: {agreement}")
        if not agreement.holds:
            raise TrainingError(_refusal(checkpoint, agreement, weights))
        write_json(fresh / PROOF, asdict(agreement))
        write_merge_card(fresh, out.name, stamp, agreement)
    return agreement


def _refuse(checkpoint: Path, out: Path) -> None:
    if not (checkpoint / ADAPTER).is_file():
        raise TrainingError(f"{checkpoint} is no adapter (no {ADAPTER}): there is nothing to merge")
    if not read_stamp(checkpoint).get("identity"):
        raise TrainingError(
            f"{checkpoint} does not say how it was trained: only students of `staract train` are merged"
        )
    if out.exists() or out.is_symlink():
        raise TrainingError(f"{out} is there already: name another folder, or move it away")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _dtype(checkpoint: Path, wanted: str) -> torch.dtype:
    """The precision to write: the one asked for, or what the base's config names, or float32."""
    if wanted != "auto":
        if wanted not in DTYPES:
            raise TrainingError(f"dtype {wanted!r} is none of auto, {', '.join(DTYPES)}")
        return DTYPES[wanted]
    path = whole_base(checkpoint) / "config.json"
    config = read_json(path)
    # The second name is what the first was called in older files.
    return DTYPES.get(config.get("dtype") or config.get("torch_dtype") or "", torch.float32)


def _rows(checkpoint: Path, dataset: Path | None) -> list[Ids]:
    """The ids of a handful of rows: the dataset's first, or the fixed prompts."""
    own = (checkpoint / "tokenizer_config.json").is_file()
    tokenizer = load_tokenizer(checkpoint if own else local_folder(base_address(checkpoint)))
    if dataset is None:
        return [tokenizer(text).input_ids[:LENGTH] for text in PROMPTS]
    path = dataset / read_stamp(checkpoint)["style"] / "train.jsonl"
    episodes = islice(read_episodes(path, read_export(dataset).format), ROWS)
    encoded, _ = encode_episodes(episodes, tokenizer, 1 << 20)
    if not encoded:
        raise TrainingError(f"{path} holds no row to compare: name another dataset, or none")
    # The end of a row holds the model's own words.
    return [row.ids[-LENGTH:] for row in encoded]


def _write(model: Any, tokenizer: Any, folder: Path, checkpoint: Path) -> None:
    """Write what transformers and vLLM load: weights, configs, tokeniser with its template."""
    if read_stamp(checkpoint).get("renderer") != "text":
        serve_stop(model, stop_token(tokenizer))
    try:
        model.save_pretrained(folder, max_shard_size=SHARD)
        tokenizer.save_pretrained(folder)
    except ValueError as error:
        raise TrainingError(
            f"the base of {checkpoint} cannot be saved again ({first_line(error)}); mend its configs"
        ) from error
    for name in ("config.json", "tokenizer_config.json"):
        _forget_code(folder / name)
    if (checkpoint / "train.json").is_file():
        shutil.copyfile(checkpoint / "train.json", folder / "train.json")


def _forget_code(path: Path) -> None:
    """Leave out where a model's own code would be: none was run, and none lies here."""
    content = read_json(path)
    if content.pop("auto_map", None) is not None:
        write_json(path, content)


def _stamp(folder: Path, checkpoint: Path, tokenizer: Any, weights: torch.dtype) -> dict[str, Any]:
    """Write the stamp of a model that says whose merged form it is."""
    trained = read_stamp(checkpoint)
    merged = {"adapter": sha256(checkpoint / "adapter_model.safetensors"), "dtype": _name(weights)}
    counts = {key: trained[key] for key in ("rows", "tokens", "labelled_tokens") if key in trained}
    wanted = {**trained["identity"], "merged": merged}
    return describe(folder, tokenizer, wanted, counts, trained.get("seed", 0))


def _prove(checkpoint: Path, folder: Path, rows: Sequence[Ids], weights: torch.dtype) -> Agreement:
    """Compare the folder as it lies on disk with the base and the adapter beside it, all in float32."""
    adapted, base = _apart(checkpoint, rows)
    model, _ = load_causal(str(folder), torch.float32, "cpu")
    return compare(adapted, base, row_logits(model, rows), weights)


def _apart(checkpoint: Path, rows: Sequence[Ids]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The logits of the base with its adapter, not merged, and of the base alone."""
    base, _ = load_causal(base_address(checkpoint), torch.float32, "cpu")
    plain = row_logits(base, rows)
    adapted: Any = PeftModel.from_pretrained(
        base, str(checkpoint), use_safetensors=True, local_files_only=True
    ).eval()
    return row_logits(adapted, rows), plain


def _refusal(checkpoint: Path, agreement: Agreement, weights: torch.dtype) -> str:
    found = f"the merged model is not {checkpoint} with its base ({agreement})"
    if weights is torch.float32:
        return f"{found}; nothing was written: serve the adapter as it is, and report this"
    return f"{found}; {_name(weights)} is too coarse for it, nothing was written: use --dtype float32"
