"""Titles made comparable: case, accents, apostrophes and hyphens do not matter."""

from __future__ import annotations

import html
import re
import unicodedata

MAX_QUERY = 200
"""Characters of a search that are looked at: no title is longer."""

_LETTERS = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "æ": "ae", "œ": "oe", "ħ": "h"}
)
_JOINERS = str.maketrans({"'": None, "’": None, "‘": None, "`": None, "-": " ", "–": " ", "_": " "})
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-COLON-": ":"}
_ESCAPE = re.compile("|".join(_ESCAPES))
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-fA-F]{1,6}|[A-Za-z]{2,8});")


def clean(text: str) -> str:
    """One printable line: control characters and line breaks become spaces, lone surrogates U+FFFD."""
    text = _SURROGATE.sub("\ufffd", text)
    kept = (" " if unicodedata.category(char)[0] in "CZ" else char for char in text)
    return " ".join("".join(kept).split())


def plain_title(title: str) -> str:
    """A data set's title as Wikipedia writes it: ``Soul_Food_-LRB-film-RRB-`` is ``Soul Food (film)``.

    FEVER escapes brackets and colons and writes underscores; HotpotQA has HTML entities (``X&amp;Y``).
    """
    written = _ESCAPE.sub(lambda match: _ESCAPES[match[0]], title).replace("_", " ")
    written = _ENTITY.sub(lambda match: html.unescape(match[0]), written)
    return unicodedata.normalize("NFC", clean(written))


def fold(title: str) -> str:
    """The key of a title: lower case, without accents, apostrophes, hyphens and double spaces."""
    # Decomposed before and after: some signs become capitals ("™"), some capitals gain accents ("İ").
    text = unicodedata.normalize("NFKD", clean(title[: MAX_QUERY * 4])).casefold()
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return clean(text.translate(_LETTERS).translate(_JOINERS))


def words(key: str) -> list[str]:
    """The words of a folded title."""
    return re.findall(r"\w+", key)
