"""Reading SAGE's grounding answer: lines such as ``Action 1: MOVE(lead, metal pot) --> it is moved``.

Answers come in any dress: bold, in code fences, quoted, numbered otherwise, in lower case, without the
arrow, or as raw actions. A line about repeating stands for the actions before it. Never raises; time
and size are bounded, whatever is written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pipeline.rendering.formal import formal_action, raw_action
from pipeline.rendering.parse import without_reasoning

LINES: Final = 5
"""How many lines of an answer count."""
REPEATS: Final = 5
"""How often a line about repeating repeats."""
LONGEST: Final = 400
"""Characters of a line: no action is longer."""

_ARROW: Final = re.compile(r"\s*(?:-+>|=+>|\u2192|\u27f6)\s*")
_LABEL: Final = re.compile(r"(?:(?:action|step)\s*\d*|\d+)\s*[:.)\u2013-]?\s*", re.IGNORECASE)
_DRESS: Final = "`*_~#>\"'\u201c\u201d\u2018\u2019[]{}-\u2022 \t\r"
_WIDE: Final = str.maketrans("（）：，", "():,")
_YOU: Final = re.compile(r"\b(?:you|the)\b ?")


@dataclass(frozen=True)
class Planned:
    """An action of SAGE's plan, raw, and what SAGE expects to be answered (lower case; may be empty)."""

    action: str
    expected: str = ""


def read_plan(answer: str) -> list[Planned]:
    """The plan that a grounding answer holds, in order; empty where it holds none."""
    plan: list[Planned] = []
    read = 0
    for written in without_reasoning(answer)[0].split("\n"):
        line = written[:LONGEST].translate(_WIDE)
        if "repeat" in line.lower():
            plan += _again(plan)
            if "until" in line.lower():
                break
        elif action := _read_line(line):
            plan.append(action)
        else:
            continue
        read += 1
        if read == LINES:
            break
    return plan


def _again(plan: list[Planned]) -> list[Planned]:
    """The last two actions, or three where the last is to wait, five times over."""
    if not plan:
        return []
    return plan[-3 if "wait" in plan[-1].action else -2 :] * REPEATS


def _read_line(line: str) -> Planned | None:
    head, arrow, tail = _parted(line)
    text = _undress(head)
    label = _LABEL.match(text)
    if label:
        text = _undress(text[label.end() :])
    action = _action(text, labelled=label is not None)
    if action is None:
        return None
    return Planned(action, _expected(tail) if arrow else "")


def _parted(line: str) -> tuple[str, str, str]:
    arrow = _ARROW.search(line)
    return (line[: arrow.start()], arrow[0], line[arrow.end() :]) if arrow else (line, "", "")


def _action(text: str, *, labelled: bool) -> str | None:
    """A formal call, up to its last bracket; or a raw action, where a label says that it is one."""
    end = text.rfind(")")
    call = raw_action(_unquoted(text[: end + 1])) if end >= 0 else None
    if call is not None:
        return " ".join(call.split())
    raw = _unquoted(text).rstrip(".").lower()
    return " ".join(raw.split()) if labelled and formal_action(raw) is not None else None


def _expected(tail: str) -> str:
    return " ".join(_YOU.sub("", _undress(tail).lower()).replace(".", " ").split())


def _undress(text: str) -> str:
    return text.strip(_DRESS)


def _unquoted(text: str) -> str:
    return re.sub("[\"'`\u201c\u201d\u2018\u2019*]", "", text)
