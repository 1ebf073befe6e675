"""Titles made comparable: case, accents, apostrophes and hyphens do not matter."""

from __future__ import annotations

import re
import unicodedata

MAX_QUERY = 200
"""Characters of a search that are looked at: no title is longer."""

_LETTERS = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "æ": "ae", "œ": "oe", "ħ": "h"}
)
_JOINERS = str.maketrans({"'": None, "’": None, "‘": None, "`": None, "-": " ", "–": " ", "_": " "})
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """One printable line: control characters and line breaks become spaces, lone surrogates U+FFFD."""
    text = _SURROGATE.sub("\ufffd", text)
    kept = (" " if unicodedata.category(char)[0] in "CZ" else char for char in text)
    return " ".join("".join(kept).split())


def fold(title: str) -> str:
    """The key of a title: lower case, without accents, apostrophes, hyphens and double spaces."""
    # Decomposed before and after: some signs become capitals ("™"), some capitals gain accents ("İ").
    text = unicodedata.normalize("NFKD", clean(title[: MAX_QUERY * 4])).casefold()
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return clean(text.translate(_LETTERS).translate(_JOINERS))


def words(key: str) -> list[str]:
    """The words of a folded title."""
    return re.findall(r"\w+", key)


def trigrams(key: str) -> list[str]:
    """Three-letter pieces of each word of a folded title, marked at its ends: ``^os osl slo lo$``."""
    pieces: list[str] = []
    for word in words(key):
        marked = f"^{word}$"
        pieces.extend(marked[start : start + 3] for start in range(len(marked) - 2))
    return pieces
