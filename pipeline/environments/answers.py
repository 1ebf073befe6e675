"""Answers compared: exact match, token F1 and claim labels.

Mode ``official`` does what the published HotpotQA evaluation script does (specs, section 1.3), for
comparison with published numbers. Mode ``strict``, the default, mends its faults: an empty answer
is never right, composed and decomposed accents are the same letter, and an answer ends with its
line.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Literal

Mode = Literal["official", "strict"]

CLOSED = frozenset(["yes", "no", "noanswer"])
"""Answers that match whole or not at all."""

LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")
"""The labels of a claim, as FEVER writes them."""

_LABEL_WORDINGS = {
    "SUPPORTS": ("supports", "supported", "support"),
    "REFUTES": ("refutes", "refuted", "refute"),
    "NOT ENOUGH INFO": ("notenoughinfo", "notenoughinformation", "nei"),
}
_LABEL_OF = {word: label for label, words in _LABEL_WORDINGS.items() for word in words}
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(a|an|the)\b")


def _squeeze(text: str) -> str:
    return " ".join(text.split())


def _plain(text: str) -> str:
    return text.lower().translate(_PUNCTUATION)


def _official(text: str) -> str:
    return _squeeze(_ARTICLE.sub(" ", _plain(text)))


def normalise(text: str) -> str:
    """Lower case, no ASCII punctuation, no articles, single spaces, accents composed (NFC)."""
    return _official(unicodedata.normalize("NFC", text))


def _strict(text: str) -> str:
    """The normal form, or a weaker one where nothing would be left ("The The", "?")."""
    text = unicodedata.normalize("NFC", text.strip())
    return _official(text) or _squeeze(_plain(text)) or _squeeze(text.lower())


def first_line(text: str) -> str:
    """The first line of an answer, leading blank lines skipped: what runs on is no part of it."""
    return text.strip().split("\n", 1)[0].strip()


def _forms(prediction: str, gold: str, mode: Mode) -> tuple[str, str]:
    if mode == "official":
        return _official(prediction), _official(gold)
    return _strict(first_line(prediction)), _strict(gold)


def exact_match(prediction: str, gold: str, mode: Mode = "strict") -> float:
    """1.0 if the two are the same answer, else 0.0."""
    answer, wanted = _forms(prediction, gold, mode)
    return float(answer == wanted and (mode == "official" or bool(answer)))


def f1(prediction: str, gold: str, mode: Mode = "strict") -> float:
    """Token F1 between 0 and 1; yes, no and noanswer match whole or not at all."""
    answer, wanted = _forms(prediction, gold, mode)
    if answer != wanted and (answer in CLOSED or wanted in CLOSED):
        return 0.0
    answer_tokens, gold_tokens = answer.split(), wanted.split()
    same = sum((Counter(answer_tokens) & Counter(gold_tokens)).values())
    if not same:
        return 0.0
    precision, recall = same / len(answer_tokens), same / len(gold_tokens)
    return 2 * precision * recall / (precision + recall)


def best(
    metric: Callable[[str, str, Mode], float], prediction: str, golds: Iterable[str], mode: Mode = "strict"
) -> float:
    """The metric's highest value over several accepted answers; 0.0 if there is none."""
    return max((metric(prediction, gold, mode) for gold in golds), default=0.0)


def claim_label(text: str) -> str | None:
    """The label that a wording stands for (``NEI``, ``Supported.``, ``not_enough_info``), or None."""
    letters = re.sub(r"[^a-z]", "", first_line(text).lower())
    return _LABEL_OF.get(letters)
