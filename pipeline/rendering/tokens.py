"""Token ids and labels: the one function that serving and training share.

A prompt becomes ids by encoding its pieces one after the other, never the joined text, so the ids
of a step's prompt are a prefix of the ids of every later prompt of the episode and of the training
row. Foreign text is encoded with control tokens split: ``<|im_end|>`` in an observation stays text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeline.rendering.base import Prompt

IGNORE = -100
"""The label of a position that trains nothing (what torch's cross-entropy skips)."""


@dataclass(frozen=True)
class Encoded:
    """Ids of a prompt.

    ``labels`` has the length of ``ids``: the id where the model itself must write it (stop
    included), ``IGNORE`` elsewhere. ``shared`` counts the leading ids that every episode of the
    method has in common.
    """

    ids: list[int]
    labels: list[int]
    shared: int = 0


def encode(prompt: Prompt, tokenizer: Any, *, generate: bool) -> Encoded:
    """Encode a prompt with a transformers tokeniser.

    Args:
        prompt: raw-text segments or chat messages.
        tokenizer: a transformers tokeniser.
        generate: end where the model begins to write (chat: with the assistant's header). For a
            training row pass False: the row ends with the model's last stop token.

    Raises:
        FormatError: the chat template cannot be taken apart, or drops text it was given.
    """
    raise NotImplementedError
