"""SWIFT's input within a token budget: what is least needed goes first, the question never.

Entries of the history go oldest first, down to the newest one. Then the room's look, the inventory and
the rooms visited lose their ends, and at last the newest entry does. The task and the question stay
whole. Fields hold no control token, so an input can be taken apart exactly as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from pipeline.errors import ContextLimitError, FormatError
from pipeline.rendering.swift import QUESTION, SwiftExample, SwiftPrompt

CountTokens = Callable[[str], int]

_SENTINEL: Final = re.compile(r" <extra_id_(\d+)> ")
_PROMPT: Final = re.compile(
    r"(?P<task>.*?) </s> Time: (?P<time>\d+); Score: (?P<score>-?\d+); </s> Action history: </s>"
    r"(?P<past>.*?) </s> Current environment: (?P<look>.*?) </s> Current inventory: (?P<inventory>.*?) </s> "
    rf"(?:Visited rooms: (?P<rooms>.*?) </s> )? {re.escape(QUESTION)} </s> ",
    re.DOTALL,
)
_CUT: Final = ("look", "inventory", "rooms")


@dataclass(frozen=True)
class Fitted:
    """An input that fits. ``entries`` of the history were left out, and ``characters`` of the rest."""

    text: str
    entries: int = 0
    characters: int = 0


def read_prompt(text: str) -> SwiftPrompt:
    """The parts of an input that ``SwiftPrompt.text`` wrote.

    Raises:
        FormatError: it is of another form.
    """
    match = _PROMPT.fullmatch(text)
    if match is None:
        raise FormatError(f"{text[:60]!r}… is not an input of SWIFT's; export the dataset again")
    # The text before the first sentinel, then sentinel and entry in turn.
    past = _SENTINEL.split(match["past"])
    return SwiftPrompt(
        task=match["task"],
        time=int(match["time"]),
        score=int(match["score"]),
        entries=tuple(entry.removesuffix(" | ") for entry in past[2::2]),
        look=match["look"],
        inventory=match["inventory"],
        rooms=match["rooms"] or "",
        history=int(past[1]),
    )


def fit(example: SwiftExample | SwiftPrompt | str, count_tokens: CountTokens, budget: int) -> Fitted:
    """The input cut to a budget; unchanged where it fits.

    Args:
        example: an example, or an input as parts or as text.
        count_tokens: how many tokens a text has, the model's own end token included.
        budget: how many it may have.

    Raises:
        ContextLimitError: not even the task and the question fit.
        FormatError: the text is no input of SWIFT's.
    """
    text = example.input if isinstance(example, SwiftExample) else example
    text = text.text if isinstance(text, SwiftPrompt) else text
    if count_tokens(text) <= budget:
        return Fitted(text)
    return _cut(read_prompt(text), lambda prompt: count_tokens(prompt.text) <= budget, budget)


def _cut(prompt: SwiftPrompt, fits: Callable[[SwiftPrompt], bool], budget: int) -> Fitted:
    whole = prompt
    while not fits(prompt) and len(prompt.entries) > 1:
        prompt = replace(prompt, entries=prompt.entries[1:])
    dropped = len(whole.entries) - len(prompt.entries)
    before = _size(prompt)
    for field in _CUT:
        if not fits(prompt):
            prompt = _shortest(prompt, fits, field)
    if not fits(prompt):
        prompt = _shortest(prompt, fits, "entries")
    if not fits(prompt):
        raise ContextLimitError(
            f"the task and the question alone exceed {budget} tokens ({prompt.task[:60]!r}…); "
            "raise the model's context"
        )
    return Fitted(prompt.text, dropped, before - _size(prompt))


def _shortest(prompt: SwiftPrompt, fits: Callable[[SwiftPrompt], bool], field: str) -> SwiftPrompt:
    """The prompt with as much of a field as fits, cut between words; with none of it where nothing fits."""
    words = _field(prompt, field).split(" ")
    low, high = 0, len(words)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(_with(prompt, field, " ".join(words[:middle]))):
            low = middle
        else:
            high = middle
    return _with(prompt, field, " ".join(words[:low]))


def _field(prompt: SwiftPrompt, field: str) -> str:
    return prompt.entries[-1] if field == "entries" else str(getattr(prompt, field))


def _with(prompt: SwiftPrompt, field: str, text: str) -> SwiftPrompt:
    changes: dict[str, Any] = {field: (text,) if field == "entries" else text}
    return replace(prompt, **changes)


def _size(prompt: SwiftPrompt) -> int:
    return len(prompt.entries[-1]) + sum(len(_field(prompt, field)) for field in _CUT)
