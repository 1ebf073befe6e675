"""The model card of a trained student."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelCardData

from pipeline.models.addresses import resolve
from pipeline.rendering import swift

_TEXT = """---
{data}
---

# {name}

A student fine-tuned with staract from `{base}` on agent trajectories \
in the style `{style}`.

| | |
| --- | --- |
| base model | `{base}` |
| kind | {kind} |
| renderer | `{renderer}` version {renderer_version} |
| rows | {rows} |
| tokens trained on | {labelled_tokens} of {tokens} |
| learning rate, epochs | {learning_rate}, {epochs} |
| steps, last loss | {steps}, {loss} |

The model expects prompts of the renderer named above, without exemplars. `staract.json` records the hashes \
of the chat template and the tokeniser that it was trained with; `train.json` holds the losses.

## Use

```bash
staract evaluate RECIPE
```
"""


def write_card(folder: Path, name: str, stamp: Mapping[str, Any], log: Mapping[str, Any]) -> None:
    """Write ``README.md`` beside the weights.

    Args:
        folder: the checkpoint.
        name: the model's title.
        stamp: what ``staract.json`` says.
        log: what ``train.json`` says.
    """
    base = stamp["base"]
    trained = stamp["identity"]
    encoder_decoder = stamp["renderer"] == swift.NAME
    data = ModelCardData(
        library_name="transformers",
        pipeline_tag="text2text-generation" if encoder_decoder else "text-generation",
        tags=["staract", "agent", stamp["style"]],
        base_model=base if resolve(base).kind == "hub" else None,
    )
    values = {
        "name": name,
        "kind": _kind(trained, encoder_decoder=encoder_decoder),
        "learning_rate": trained["train.learning_rate"],
        "epochs": trained["train.epochs"],
        "steps": log["steps"][-1]["step"] if log["steps"] else 0,
        "loss": log["steps"][-1]["loss"] if log["steps"] else "",
    }
    ModelCard(_TEXT.format(data=data.to_yaml(), **{**stamp, **values})).save(folder / "README.md")


def _kind(trained: Mapping[str, Any], *, encoder_decoder: bool) -> str:
    lora = trained["train.lora"]
    weights = "all weights" if lora is None else "LoRA adapter"
    weights += ", trained on the base in four bits" if lora and lora.get("quantize") else ""
    weights += ", by direct preference optimisation on pairs" if trained.get("train.dpo") else ""
    return f"encoder-decoder, {weights}" if encoder_decoder else weights
