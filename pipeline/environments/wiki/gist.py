"""A sentence restated in few words, and the words of a text that carry meaning."""

from __future__ import annotations

import re

_WORD = re.compile(r"\w[\w'’-]*\w|\w\w")
_ASIDE = re.compile(r"\s*\([^()]*\)")
_COMMON_WORDS = """
a about above after again against all also an and any are as at be because been before being below
between both but by can could did do does down during each either ever every few first for from had has
have he her here hers him his how however i if in into is it its itself last made many may me might more
most much my name named near no nor not now of off on one only or other our out over own part same she
should since so some such than that the their them then there these they this those three through to
too two under until up upon used very was we were what when where which while who whom whose why will
with within would you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def content_words(text: str) -> list[str]:
    """The words of a text that carry meaning, each once, in their order."""
    found = _WORD.findall(text)
    return list(dict.fromkeys(word for word in found if len(word) > 2 and word.casefold() not in _COMMON))


def gist(sentence: str, keep: str, words: int) -> str:
    """A sentence cut to a number of words, without asides; ``keep`` stays in it if it was.

    What was left out at an end is marked by an ellipsis.
    """
    plain = _ASIDE.sub("", sentence)
    if keep.casefold() in sentence.casefold() and keep.casefold() not in plain.casefold():
        plain = sentence
    found = plain.split()
    if len(found) <= words:
        return " ".join(found)
    start = _start(found, keep, words)
    end = min(len(found), start + words)
    text = " ".join(found[start:end])
    text = text if end == len(found) else f"{text.rstrip(',;:')}…"
    return f"…{text}" if start else text


def _start(found: list[str], keep: str, words: int) -> int:
    """Where a window of so many words begins: at the sentence's beginning if ``keep`` lies in it."""
    plain = " ".join(found).casefold()
    at = plain.find(keep.casefold())
    last = len(plain[:at].split()) + len(keep.split()) if at >= 0 else 0
    return 0 if last <= words else min(last - words // 2, len(found) - words)
