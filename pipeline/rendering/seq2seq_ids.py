"""Ids of an encoder-decoder's source and target: one place for serving and for training.

SWIFT's input holds ``</s>`` between its parts and ends with one. Tokenisers differ in whether they put
another behind it; here each sequence ends with exactly one, whatever the tokeniser does.
"""

from __future__ import annotations

from typing import Any

from pipeline.errors import FormatError
from pipeline.rendering.swift_fit import Fitted, fit


def encode_source(tokenizer: Any, text: str, limit: int) -> list[int]:
    """The ids of an input of SWIFT's, cut to fit as ``swift_fit`` says.

    Args:
        tokenizer: the model's own, of transformers.
        text: the whole input.
        limit: ids that there may be, the end token included.

    Raises:
        ContextLimitError: not even the task and the question fit.
        FormatError: the text is too long and no input of SWIFT's.
    """
    return fit_source(tokenizer, text, limit)[0]


def fit_source(tokenizer: Any, text: str, limit: int) -> tuple[list[int], Fitted]:
    """As ``encode_source``, and what was left out."""
    fitted = fit(text, lambda part: len(ids_of(tokenizer, part)), limit)
    return ids_of(tokenizer, fitted.text), fitted


def ids_of(tokenizer: Any, text: str) -> list[int]:
    """The ids of a source or a target, whole, with one end token at its end.

    Raises:
        FormatError: the tokeniser has no end token.
    """
    end: int | None = tokenizer.eos_token_id
    if end is None:
        raise FormatError("the tokeniser has no end token: an encoder-decoder cannot be trained or asked")
    # A lone surrogate becomes U+FFFD: tokenisers refuse it.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    ids: list[int] = tokenizer.encode(text.rstrip(), add_special_tokens=False)
    while ids and ids[-1] == end:
        ids.pop()
    return [*ids, end]
