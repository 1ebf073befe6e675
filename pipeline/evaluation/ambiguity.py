"""Label ambiguity: a wrong answer that says what the gold answer says, in other words.

Source: the ReAct paper, table 2: "right prediction but did not match the label precisely". These are
signs, not a verdict: the grade stands as the environment gave it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pipeline.environments.answers import CLOSED, LABELS, exact_match, f1, first_line
from pipeline.evaluation.likeness import as_date, as_number, plain, within
from pipeline.trajectories.schema import Task

F1_THRESHOLD: Final = 0.7
"""Token F1 from which two answers are alike. Above 2/3: two names of three words that differ in one
(``University of Oxford``, ``University of Cambridge``) are not."""

EXTRA_WORDS: Final = 6
"""More words than this around the gold answer are a list of guesses, or a text, not an answer."""


def is_closed(task: Task) -> bool:
    """Whether the task is answered from a few fixed labels: yes or no, or a claim's."""
    return any(gold in LABELS or plain(gold) in CLOSED for gold in task.gold)


def ambiguity(answer: str, task: Task) -> str:
    """Why a wrong answer may be right after all, as a phrase; empty where nothing suggests it."""
    # The order of the accepted answers must not matter: the first reason of a fixed list counts.
    found = {reason for gold in task.gold if (reason := _alike(first_line(answer), gold, task))}
    return next((reason for reason in _REASONS if reason in found), "")


_OFFICIAL: Final = "right by the official script, wrong by the strict one"
_LETTERS: Final = "the gold answer but for accents or punctuation"
_NUMBER: Final = "the same number in another form"
_DATE: Final = "the same date in another form"
_CONTAINED: Final = "one of answer and gold contains the other"
_OVERLAP: Final = f"token F1 of at least {F1_THRESHOLD}"
_REASONS: Final = (_OFFICIAL, _LETTERS, _NUMBER, _DATE, _CONTAINED, _OVERLAP)


def _alike(answer: str, gold: str, task: Task) -> str:
    if not plain(answer, articles=True):
        return ""
    if is_closed(task):
        return _CONTAINED if _opens_with(answer, gold) else ""
    checks = {
        _OFFICIAL: exact_match(answer, gold, "official") == 1.0 and exact_match(answer, gold) == 0.0,
        _LETTERS: _same_letters(answer, gold),
        _NUMBER: as_number(answer) is not None and as_number(answer) == as_number(gold),
        _DATE: as_date(answer) is not None and as_date(answer) == as_date(gold),
        _CONTAINED: _contained(answer, gold),
        _OVERLAP: f1(answer, gold) >= F1_THRESHOLD,
    }
    return next((reason for reason, holds in checks.items() if holds), "")


def _same_letters(answer: str, gold: str) -> bool:
    return any(plain(answer, gap) == plain(gold, gap) != "" for gap in ("", " "))


def _contained(answer: str, gold: str) -> bool:
    short, long = sorted((plain(answer, " "), plain(gold, " ")), key=lambda text: len(text.split()))
    return within(short, long) and len(long.split()) - len(short.split()) <= EXTRA_WORDS


def _opens_with(answer: str, gold: str) -> bool:
    """Whether the answer begins with the label, goes on for a little, and names no other label."""
    text, label = plain(answer, " "), plain(gold, " ")
    others: Sequence[str] = [plain(other, " ") for other in (*CLOSED, *LABELS)]
    rest = text.removeprefix(label)
    return (
        text.startswith(f"{label} ")
        and len(rest.split()) <= EXTRA_WORDS
        and not any(within(other, rest) for other in others)
    )
