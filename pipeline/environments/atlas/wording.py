"""Small pieces of English that pages, questions and thoughts have in common."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def amount(number: int) -> str:
    """A rounded number as people say it: ``1.4 billion``, ``2.3 million``, ``461 thousand``, ``820``."""
    if number >= 1_000_000_000:
        return f"{number / 1_000_000_000:.1f} billion"
    if number >= 999_500:
        return f"{number / 1_000_000:.1f} million"
    if number >= 1_000:
        return f"{round(number / 1_000)} thousand"
    return str(number)


def listing(items: Sequence[str]) -> str:
    """``A``, ``A and B``, ``A, B and C``."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def capital_letter(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def pick(options: Sequence[Item], key: str) -> Item:
    """One of the options, always the same for the same key."""
    return options[zlib.crc32(key.encode()) % len(options)]
