"""The model card of a merged student."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelCardData

from pipeline.models.addresses import resolve
from pipeline.training.agreement import Agreement

_TEXT = """---
{data}
---

# {name}

A LoRA student that staract fine-tuned from `{base}` on agent trajectories in the style `{style}`, \
merged into its base: a whole model, with no adapter beside it.

| | |
| --- | --- |
| base model | `{base}` |
| weights | {dtype} |
| renderer | `{renderer}` version {renderer_version} |
| learning rate, epochs | {learning_rate}, {epochs} |
| largest difference of a logit from adapter and base | {difference:.2g} (allowed: {tolerance:.2g}) |
| share of the adapter's effect | {lost:.1%} |
| same best token | {same} of {positions} positions |

The differences were measured after writing, in float32, on {rows} rows. The model expects prompts of the \
renderer named above, without exemplars; `staract.json` records the hashes of the chat template and the \
tokeniser, and of the adapter that was merged.

## Use

```bash
vllm serve {name}
```

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("{name}")
tokenizer = AutoTokenizer.from_pretrained("{name}")
```
"""


def write_merge_card(folder: Path, name: str, stamp: Mapping[str, Any], agreement: Agreement) -> None:
    """Write ``README.md`` beside the merged weights.

    Args:
        folder: the merged model.
        name: its title, and what its folder is called.
        stamp: what ``staract.json`` says.
        agreement: how well it agrees with adapter and base.
    """
    base, trained = stamp["base"], stamp["identity"]
    data = ModelCardData(
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=["staract", "agent", stamp["style"]],
        base_model=base if resolve(base).kind == "hub" else None,
    )
    values = {
        "name": name,
        "base": base,
        "style": stamp["style"],
        "renderer": stamp["renderer"],
        "renderer_version": stamp["renderer_version"],
        "dtype": trained["merged"]["dtype"],
        "learning_rate": trained["train.learning_rate"],
        "epochs": trained["train.epochs"],
        "difference": agreement.difference,
        "tolerance": agreement.tolerance,
        "lost": agreement.lost,
        "same": agreement.same,
        "positions": agreement.positions,
        "rows": agreement.rows,
    }
    ModelCard(_TEXT.format(data=data.to_yaml(), **values)).save(folder / "README.md")
