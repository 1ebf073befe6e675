"""Text to ids: one piece at a time, with control tokens recognised or kept as text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from pipeline.errors import FormatError

_ANCHOR = "\n"
_MARKUP = re.compile(r"[<\[].*[>\]]", re.DOTALL)
_lock = Lock()


@dataclass(frozen=True)
class _Traits:
    """What was found out about a tokeniser, once.

    ``control`` holds the ids of all added tokens; ``seams`` is where foreign text is cut so that none
    of them can form in it; ``named`` finds them in our own text; ``anchor`` holds the ids of
    ``_ANCHOR`` where the tokeniser puts a space before every text.
    """

    bos: tuple[int, ...]
    control: frozenset[int]
    seams: re.Pattern[str] | None
    named: re.Pattern[str] | None
    anchor: tuple[int, ...]


_traits: WeakKeyDictionary[Any, _Traits] = WeakKeyDictionary()


def text_ids(tokenizer: Any, text: str, *, control: bool) -> list[int]:
    """The ids of a text that stands by itself, without BOS or EOS.

    Args:
        tokenizer: a transformers tokeniser.
        text: any text; lone surrogates become U+FFFD.
        control: read ``<|im_end|>`` and its like as control tokens; else they are spelt out.

    Raises:
        FormatError: the tokeniser cannot encode a text apart from what stands before it.
    """
    if not text:
        return []
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    traits = _traits_of(tokenizer)
    if control or traits.seams is None:
        return _anchored(tokenizer, traits, text, split=not control)
    parts = traits.seams.split(text)
    return [token for part in parts for token in _anchored(tokenizer, traits, part, split=True)]


def bos_ids(tokenizer: Any) -> list[int]:
    """What the tokeniser itself puts before plain text: one BOS, or nothing."""
    return list(_traits_of(tokenizer).bos)


def is_control(tokenizer: Any, token: int) -> bool:
    """Whether an id is one of the tokeniser's added tokens."""
    return token in _traits_of(tokenizer).control


def split_control(tokenizer: Any, text: str) -> list[tuple[str, bool]]:
    """Our own text as parts, each with whether it is one of the tokeniser's added tokens."""
    named = _traits_of(tokenizer).named
    parts = named.split(text) if named else [text]
    return [(part, index % 2 == 1) for index, part in enumerate(parts) if part]


def _traits_of(tokenizer: Any) -> _Traits:
    if tokenizer not in _traits:
        added: dict[int, Any] = tokenizer.added_tokens_decoder
        _traits[tokenizer] = _Traits(
            bos=_find_bos(tokenizer),
            control=frozenset(added),
            named=_find_named([str(token) for token in added.values()]),
            seams=_find_seams([str(token) for token in added.values()]),
            anchor=_find_anchor(tokenizer),
        )
    return _traits[tokenizer]


def _find_bos(tokenizer: Any) -> tuple[int, ...]:
    with _lock:
        dressed: list[int] = tokenizer.encode("a", add_special_tokens=True)
    bos = tokenizer.bos_token_id
    return (bos,) if bos is not None and dressed[:1] == [bos] else ()


def _find_seams(added: list[str]) -> re.Pattern[str] | None:
    """``split_special_tokens`` spells out only what the tokeniser calls special, not ``<think>``."""
    names = [name for name in added if len(name) > 2 and _MARKUP.fullmatch(name)]
    rests = {first: "|".join(re.escape(name[1:]) for name in names if name[0] == first) for first in "<["}
    cuts = [f"(?<={re.escape(first)})(?={rest})" for first, rest in rests.items() if rest]
    return re.compile("|".join(cuts)) if cuts else None


def _find_named(added: list[str]) -> re.Pattern[str] | None:
    longest_first = sorted(filter(None, added), key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first))})") if longest_first else None


def _find_anchor(tokenizer: Any) -> tuple[int, ...]:
    first = tokenizer.convert_ids_to_tokens(_plain(tokenizer, "a", split=True)[:1])
    spaced = bool(first) and str(first[0]).startswith(("▁", "Ġ"))
    return tuple(_plain(tokenizer, _ANCHOR, split=True)) if spaced else ()


def _anchored(tokenizer: Any, traits: _Traits, text: str, *, split: bool) -> list[int]:
    if not traits.anchor:
        return _plain(tokenizer, text, split=split)
    ids = _plain(tokenizer, _ANCHOR + text, split=split)
    length = len(traits.anchor)
    if tuple(ids[:length]) != traits.anchor:
        raise FormatError(
            f"the tokenizer {getattr(tokenizer, 'name_or_path', '')!r} puts a space before every text and "
            f"merges line breaks with what follows, so {text[:40]!r} cannot be encoded by itself; "
            "use a model with a byte-level tokenizer"
        )
    return ids[length:]


def _plain(tokenizer: Any, text: str, *, split: bool) -> list[int]:
    # The flag becomes state of the tokeniser itself, which the threads of a rollout share.
    with _lock:
        return list(tokenizer.encode(text, add_special_tokens=False, split_special_tokens=split))
