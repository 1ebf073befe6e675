"""Words that a misspelt word may mean."""

from __future__ import annotations

from collections.abc import Callable
from string import ascii_lowercase
from typing import Final

from rapidfuzz.distance import OSA

SHORT, LONG = 3, 4
"""Letters that a word begins with as another does that differs from it by more than one letter."""

ALIKE: Final = 0.5
"""The least likeness of such words: one less the share of letters that must change."""

NEAREST: Final = 5
_LONGEST: Final = 32


def edits(word: str) -> list[str]:
    """Every word that one letter less, more or other, or two neighbours exchanged, makes of a word.

    Numbers have none: another year is another matter. Nor have words of two letters or of more than
    32, which would be found like anything, or cost too much.
    """
    if word.isdigit() or not 2 < len(word) <= _LONGEST:
        return []
    letters = sorted({*ascii_lowercase, *word})
    cuts = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    less = [left + right[1:] for left, right in cuts if right]
    swapped = [left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1]
    other = [left + letter + right[1:] for left, right in cuts if right for letter in letters]
    more = [left + letter + right for left, right in cuts for letter in letters]
    return [found for found in dict.fromkeys(less + swapped + other + more) if found != word]


def nearest(word: str, known: Callable[[str], list[tuple[str, int]]], prefix: int = SHORT) -> list[str]:
    """Up to five known words of much the same beginning, the most alike first.

    Args:
        word: the misspelt word.
        known: gives the known words with a prefix, and how often each stands.
        prefix: letters of the beginning: more of them find less and cost less.
    """
    if word.isdigit() or not prefix < len(word) <= _LONGEST:
        return []
    counts = {other: count for begun in _beginnings(word, prefix) for other, count in known(begun)}
    scored = [
        (-OSA.normalized_similarity(word, other, score_cutoff=ALIKE), -count, other)
        for other, count in counts.items()
    ]
    return [other for score, _, other in sorted(scored)[:NEAREST] if score]


def _beginnings(word: str, prefix: int) -> list[str]:
    """How a word may begin: as it does, or with one of its first letters left out or exchanged."""
    less = [word[:place] + word[place + 1 :] for place in range(prefix)]
    swapped = [
        word[:place] + word[place + 1] + word[place] + word[place + 2 :] for place in range(prefix - 1)
    ]
    return list(dict.fromkeys(found[:prefix] for found in (word, *less, *swapped)))
