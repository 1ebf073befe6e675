"""Reading what a model wrote: one step of it, whatever it looks like.

Labels may be missing, numbered, in any case, bold, or end in a full-width colon. Only the first
step counts: whatever follows its action is dropped, above all an observation that the model made up.
Lines end at a line feed and nowhere else. Every function here takes time linear in the text.

Flags: ``no_action`` (nothing to carry out), ``hallucinated_observation`` (the model wrote one),
``extra_text`` (anything else after the action), ``repaired`` (the form was not the one asked for),
``reasoning`` (a ``<think>`` block was left out).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline.rendering.base import Parsed

_LABEL = re.compile(
    r"[ \t>#-]*+(?P<em>[*_`]{1,3}+)?"
    r"(?P<word>thought|action input|action|observation|final answer|answer|question|claim|task)"
    r"[ \t]*+(?:\d++)?[ \t]*+[*_`]{0,3}+[ \t]*+[:\uff1a](?(em)[*_`]{0,3}+)[ \t]*+",
    re.IGNORECASE,
)
_VERB = re.compile(r"(?P<verb>[A-Za-z][\w-]*+)(?P<gap>[ \t]*+)\[")
_THINK = re.compile(r"</?think>")
_PROBLEM = ("question", "claim", "task")
_WRAPPING = "`* \t"


def parse(style: str, completion: str, opened: str = "") -> Parsed:
    """Read a completion. Never raises.

    Args:
        style: shape of a turn, as in ``PromptSpec``; for ``reason`` and ``answer`` the action is
            ``Finish[answer]``.
        completion: what the model wrote.
        opened: the label that the prompt had already written (raw text), such as ``Thought:``.
    """
    body, flags = without_reasoning(completion)
    lines = (opened + body).split("\n")
    if style == "answer":
        return _read_answer("", lines, flags)
    if style == "reason":
        return _read_reasoned(lines, flags)
    return _read_turn(lines, flags, thinks=style == "react")


def clean_thought(text: str) -> str:
    """A thought on one line that cannot be taken for anything else when it is read back."""
    text = " ".join(_THINK.sub(" ", text).split())
    _, start = _label(text)
    return text[start:]


def clean_action(text: str) -> str:
    """An action on one line, without wrapping and labels, without text behind its bracket."""
    return _tidy(text)[0]


def split_action(action: str) -> tuple[str, str]:
    """``Search[Li Bai]`` as ``("Search", "Li Bai")``; an action without brackets has no argument."""
    match = _VERB.match(action)
    if not match or not action.endswith("]"):
        return action, ""
    return match["verb"], action[match.end() : -1]


def finish(answer: str) -> str:
    """The action that gives an answer."""
    return f"Finish[{answer}]"


def without_reasoning(text: str) -> tuple[str, list[str]]:
    """The text without its ``<think>`` block, and the flag for that."""
    closing = text.find("</think>")
    if closing >= 0:
        return text[closing + len("</think>") :], ["reasoning"]
    if text.lstrip().startswith("<think>"):
        return "", ["reasoning"]
    return text, []


def read_thought(text: str) -> str:
    """A thought that stands by itself (before a tool call), without its label and an empty ``Action:``."""
    lines: list[str] = []
    for line in text.split("\n"):
        word, start = _label(line)
        if word == "thought":
            lines.append(line[start:])
        elif word != "action" or line[start:].strip(_WRAPPING):
            lines.append(line)
    return _joined(lines)


def has_observation(text: str) -> bool:
    """Whether a model made up what the environment answers."""
    return "<tool_response>" in text or any(_label(line)[0] == "observation" for line in text.split("\n"))


def _label(line: str) -> tuple[str, int]:
    """The last of the labels that a line begins with, and where the text behind it begins."""
    word, start = "", 0
    while match := _LABEL.match(line, start):
        word, start = match["word"].lower(), match.end()
    return word.removeprefix("final "), start


def _read_turn(lines: list[str], flags: list[str], *, thinks: bool) -> Parsed:
    thought: list[str] = []
    for index, line in enumerate(lines):
        word, start = _label(line)
        if word == "action":
            return _acted(thought if thinks else [], line[start:], lines[index + 1 :], flags)
        if word == "observation":
            flags.append("hallucinated_observation")
            break
        if word in _PROBLEM and not _is_blank(thought):
            flags.append("extra_text")
            break
        if word not in _PROBLEM:
            thought.append(line[start:] if word == "thought" else line)
    return _unlabelled(thought, flags, thinks=thinks)


def _unlabelled(lines: list[str], flags: list[str], *, thinks: bool) -> Parsed:
    """No line is labelled as the action: take the one that looks like it, or none."""
    lines = _without_partial(lines)
    for index, line in enumerate(lines):
        looks = _VERB.match(line.strip(_WRAPPING)) and line.rstrip(_WRAPPING).endswith("]")
        if looks or (line.strip() and not thinks):
            before = lines[:index] if thinks else []
            return _acted(before, line, lines[index + 1 :], [*flags, "repaired"])
    return Parsed(_joined(lines) if thinks else "", "", (*flags, "no_action"))


def _acted(thought: list[str], text: str, after: list[str], flags: list[str]) -> Parsed:
    after = _without_partial(after)
    if not text.strip(_WRAPPING):
        text, after = _next_line(after)
    argument, after = _argument_line(after)
    if argument:
        text = f"{text.strip()}[{argument}]"
        flags.append("repaired")
    action, dropped = _tidy(text)
    if any(_label(line)[0] == "observation" for line in after):
        flags.append("hallucinated_observation")
    elif dropped or not _is_blank(after):
        flags.append("extra_text")
    if not action:
        flags.append("no_action")
    return Parsed(_joined(thought), action, tuple(dict.fromkeys(flags)))


def _next_line(lines: list[str]) -> tuple[str, list[str]]:
    """The first line with text, if no label claims it for something else, and what follows it."""
    for index, line in enumerate(lines):
        if line.strip(_WRAPPING):
            return ("", lines) if _label(line)[0] else (line, lines[index + 1 :])
    return "", lines


def _argument_line(lines: list[str]) -> tuple[str, list[str]]:
    """The argument where a model put it on a line of its own (``Action Input: …``)."""
    if lines:
        word, start = _label(lines[0])
        if word == "action input":
            return lines[0][start:].strip(), lines[1:]
    return "", lines


def _read_reasoned(lines: list[str], flags: list[str]) -> Parsed:
    thought: list[str] = []
    for index, line in enumerate(lines):
        word, start = _label(line)
        if word == "answer":
            return _read_answer(_joined(thought), [line[start:], *lines[index + 1 :]], flags)
        if word in _PROBLEM and not _is_blank(thought):
            break
        if word not in _PROBLEM:
            thought.append(line[start:] if word == "thought" else line)
    return Parsed(_joined(thought), "", (*flags, "no_action"))


def _read_answer(thought: str, lines: list[str], flags: list[str]) -> Parsed:
    for index, line in enumerate(lines):
        word, start = _label(line)
        answer = line[start if word == "answer" else 0 :].strip(_WRAPPING + "\r")
        if answer:
            more = [] if _is_blank(lines[index + 1 :]) else ["extra_text"]
            return Parsed(thought, finish(answer), (*flags, *more))
    return Parsed(thought, "", (*flags, "no_action"))


def _tidy(text: str) -> tuple[str, bool]:
    """A clean action, and whether text behind its bracket was dropped."""
    line, before = " ".join(_THINK.sub(" ", text).split()), None
    while line != before:
        before = line
        line = line[_label(line)[1] :].strip(_WRAPPING)
    match = _VERB.match(line)
    end = _closing(line, match.end(), loose=bool(match["gap"])) if match else None
    if not match or end is None:
        return line, False
    return f"{match['verb']}[{line[match.end() : end]}]", bool(line[end + 1 :].strip(". "))


def _closing(line: str, start: int, *, loose: bool) -> int | None:
    """Where the argument ends: at the line's last bracket, or, with text behind it, at its own.

    ``put [x] in y`` (a gap, and text behind) is no call with an argument.
    """
    if line.endswith("]"):
        return len(line) - 1
    if loose:
        return None
    depth = 1
    for index in range(start, len(line)):
        depth += {"[": 1, "]": -1}.get(line[index], 0)
        if depth == 0:
            return index
    last = line.rfind("]")
    return last if last >= start else None


def _without_partial(lines: list[str]) -> list[str]:
    """Drop a last line that is the beginning of a stop marker (``Observ``)."""
    for index in range(len(lines) - 1, -1, -1):
        tail = lines[index].strip().lower()
        if tail:
            partial = "observation".startswith(tail.rstrip("0123456789 "))
            return lines[:index] if partial and not tail.isdigit() else lines
    return lines


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(line.strip() for line in lines).strip()


def _is_blank(lines: Sequence[str]) -> bool:
    return not any(line.strip() for line in lines)
