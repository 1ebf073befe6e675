"""From token ids to text, one token at a time, with string stops; and the ids that end a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_REPLACEMENT = "\ufffd"
_PATIENCE = 4
"""Tokens to wait for the rest of a character: UTF-8 needs four bytes at most."""


def stop_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """The ids that end a text: the generation config's, and the tokeniser's end of sequence."""
    named = [getattr(model.generation_config, "eos_token_id", None), tokenizer.eos_token_id]
    found: set[int] = set()
    for value in named:
        found.update(value if isinstance(value, list) else [value] if value is not None else [])
    return frozenset(found)


class TextStream:
    """The text of a growing list of ids, cut at the first stop string.

    Only a window of recent tokens is decoded at each step. The last id of the prompt opens the
    window, because some tokenisers drop the space before the first token that they decode.
    """

    def __init__(self, tokenizer: Any, last: int, stops: Sequence[str]) -> None:
        self.text = ""
        self._tokenizer = tokenizer
        self._ids = [last]
        self._start, self._read = 0, 1
        self._stops = [stop for stop in stops if stop]
        self._reach = max((len(stop) for stop in self._stops), default=1) - 1

    def push(self, token: int) -> bool:
        """Take one more id. True when a stop string is complete: the text then ends before it."""
        self._ids.append(token)
        fresh = self._pending()
        if fresh.endswith(_REPLACEMENT) and len(self._ids) - self._read < _PATIENCE:
            return False
        self._start, self._read = self._read, len(self._ids)
        return self._append(fresh)

    def finish(self) -> str:
        """The whole text; a character that was cut in the middle is left out."""
        fresh = self._pending()
        self._start = self._read = len(self._ids)
        self._append(fresh.rstrip(_REPLACEMENT))
        return self.text

    def _pending(self) -> str:
        known = self._decode(self._ids[self._start : self._read])
        return self._decode(self._ids[self._start :])[len(known) :]

    def _append(self, fresh: str) -> bool:
        begin = max(0, len(self.text) - self._reach)
        self.text += fresh
        places = [place for stop in self._stops if (place := self.text.find(stop, begin)) >= 0]
        if places:
            self.text = self.text[: min(places)]
        return bool(places)

    def _decode(self, ids: list[int]) -> str:
        if not ids:
            return ""
        return self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
