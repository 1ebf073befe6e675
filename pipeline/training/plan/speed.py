"""How long training takes, from the arithmetic that its loss needs.

The formulas are those of the published accounts (Kaplan et al. 2020, appendix B; PaLM, appendix B) with
causal attention counted once: of each pair of tokens, one sees the other.
"""

from __future__ import annotations

from typing import Any, Final

from pipeline.recipe.models import TrainRecipe
from pipeline.training.plan.data import Data
from pipeline.training.plan.student import Base, Counts

UTILISATION: Final = 0.4
"""Share of the peak that is reached. Published for 7B and 8B models: 33 to 39% (torchtitan, 8 H100) and
58% (KempnerForge, one H200); short rows, small models and slow links reach less."""


def row_flops(base: Base, counts: Counts, train: TrainRecipe, data: Data, *, checkpointing: bool) -> float:
    """Operations of one row (packed: one block), forward and backward.

    A weight costs 2 operations a token forward and 4 backward; a frozen one 2 backward, since nobody
    asks for its gradient. Computing activations twice costs the body's forward pass again. For preferences
    a row is a pair, and the model that they are measured against goes forward as well.
    """
    once = 0 if train.dpo is None else 2
    factor = (6 if train.lora is None else 4) + (2 if checkpointing else 0) + once
    if base.encoder_decoder:
        return _seq2seq_flops(base.config, counts, train, data, factor)
    head = (6 if train.lora is None else 4) + once
    labelled = data.labelled if train.label_only_head else 1.0
    config = base.config.get_text_config()
    width = config.num_attention_heads * _head_size(config)
    attention = (6.0 + once) * config.num_hidden_layers * width * data.document
    return data.tokens * (factor * counts.body + head * counts.head * labelled + attention)


def _head_size(config: Any) -> int:
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def _seq2seq_flops(config: Any, counts: Counts, train: TrainRecipe, data: Data, factor: int) -> float:
    """The encoder works on the source, the decoder on the target; each source token is looked at by both."""
    target = float(train.target_length)
    source = max(1.0, data.tokens - target)
    decoder = counts.body - counts.encoder
    heads = getattr(config, "num_heads", None) or config.num_attention_heads
    width = heads * (getattr(config, "d_kv", None) or config.hidden_size // heads)
    deep = getattr(config, "num_decoder_layers", None) or config.num_hidden_layers
    attention = 12.0 * width * source**2 * config.num_hidden_layers
    attention += width * deep * (12.0 * source * target + 6.0 * target**2)
    across = 2.0 * deep * config.hidden_size * width
    body = counts.encoder * source + (decoder - across) * target + across * source
    return factor * body + 6.0 * counts.head * target + attention
