"""Texts compared leniently: by letters alone, as numbers, and as dates.

Nothing here decides whether an answer is right; that is the environment's. This is for evidence
about answers that were already graded.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

_NOT_LETTERS = re.compile(r"[^\w\s]|_")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")

_NUMBER = re.compile(r"[$€£]?\s*(-?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?)\s*([a-z]*)")
_ISO_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DAY = re.compile(r"([0-9]{1,2})(?:st|nd|rd|th)?")
_YEAR = re.compile(r"[0-9]{4}")
_LONGEST = 60
"""Characters beyond which a text is no number and no date."""

_SCALES = {"": 1, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORTH = {word: value for value, word in enumerate(_ONES.split())} | {
    word: 10 * value for value, word in enumerate(_TENS.split(), start=2)
}
_MONTHS = "january february march april may june july august september october november december"
_MONTH_OF = {
    name[:length]: number for number, name in enumerate(_MONTHS.split(), 1) for length in (3, 4, len(name))
}

Date = tuple[int | None, int, int | None]
"""Year, month, day; the year or the day may be missing."""


def plain(text: str, gap: str = "", *, articles: bool = False) -> str:
    """Letters and digits alone: no case, accents, punctuation (``gap`` stands for it) or articles.

    Args:
        text: any text.
        gap: ``""`` writes ``U.S.`` as ``us``; ``" "`` writes ``Anglo-Saxon`` as two words.
        articles: keep a, an and the.
    """
    # Decomposed before and after: some signs become capitals ("™"), some capitals gain accents ("İ").
    text = unicodedata.normalize("NFKD", text).casefold()
    text = unicodedata.normalize("NFKD", text)
    text = "".join(c for c in text if not unicodedata.combining(c))
    text = _NOT_LETTERS.sub(gap, text)
    return " ".join((text if articles else _ARTICLES.sub(" ", text)).split())


def occurs(phrase: str, text: str) -> bool:
    """Whether a phrase stands in a text, as whole words, in either way of writing punctuation."""
    # A phrase of nothing but articles ("The The") is compared with them.
    articles = not plain(phrase)
    return any(
        within(plain(phrase, gap, articles=articles), plain(text, gap, articles=articles))
        for gap in ("", " ")
    )


def within(phrase: str, text: str) -> bool:
    """Whether one plain text stands in another, as whole words; the empty one stands in none."""
    if not phrase:
        return False
    # Scripts that put no spaces between words have no whole words to look for.
    return f" {phrase} " in f" {text} " if phrase.isascii() else phrase in text


def as_number(text: str) -> Decimal | None:
    """The number that the whole text spells (``3,000``, ``$2.5 million``, ``twenty-one``), or None."""
    text = " ".join(text.casefold().split()).removesuffix(".")
    if len(text) > _LONGEST:
        return None
    match = _NUMBER.fullmatch(text)
    if match and match[2] in _SCALES:
        return Decimal(match[1].replace(",", "")) * _SCALES[match[2]]
    return _in_words(text.replace("-", " ").split())


def _in_words(words: list[str]) -> Decimal | None:
    scale = 1
    if len(words) > 1 and words[-1] in _SCALES:
        scale = _SCALES[words.pop()]
    match [_WORTH.get(word) for word in words]:
        case [int(value)]:
            return Decimal(value * scale)
        case [int(tens), int(ones)] if tens >= 20 and 0 < ones < 10:
            return Decimal((tens + ones) * scale)
        case _:
            return None


def as_date(text: str) -> Date | None:
    """The date that the whole text spells (``5 June 1990``, ``June 5th, 1990``, ``1990-06-05``), or None.

    Dates of numbers alone in another order than ISO's are ambiguous, and none.
    """
    if len(text) > _LONGEST:
        return None
    if iso := _ISO_DATE.fullmatch(text.strip()):
        return int(iso[1]), int(iso[2]), int(iso[3])
    words = [word for word in plain(text, " ").split() if word not in ("of", "on")]
    months = [_MONTH_OF[word] for word in words if word in _MONTH_OF]
    others = [word for word in words if word not in _MONTH_OF]
    years = [int(word) for word in others if _YEAR.fullmatch(word)]
    days = [int(match[1]) for word in others if (match := _DAY.fullmatch(word))]
    if len(months) != 1 or len(years) > 1 or len(days) > 1 or not 0 < len(others) == len(years) + len(days):
        return None
    return years[0] if years else None, months[0], days[0] if days else None
