"""Reading tool calls out of text: the first one counts, in whichever of the known forms it was written.

Forms: ``<tool_call>{…}</tool_call>`` (Hermes, Qwen), ``<function=Name><parameter=key>…`` within the
same tags (Qwen3-Coder, Qwen3.5), ``[TOOL_CALLS] […]`` and ``[TOOL_CALLS]Name{…}`` (Mistral), bare JSON
with ``arguments`` or ``parameters`` (Llama 3.1, or a tag that decoding left out).
JSON is mended only where one reading is possible; above all, a string that was cut stays unread.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from dataclasses import dataclass
from typing import Any, cast

from pipeline.rendering.base import ToolCall
from pipeline.trajectories.files import clean_text

_MARK = re.compile(
    r"<tool_call>|\[TOOL_CALLS\]|<\|python_tag\|>|<function="
    r"""|(?P<bare>(?:\[\s*+)?\{\s*+["'](?:name|type|function|arguments|parameters)["']\s*+:)"""
)
_CLOSE = "</tool_call>"
_FENCE = re.compile(r"```(?:json)?\s*+")
_OPEN_FENCE = re.compile(r"```(?:json)?\s*$")
_NAMED = re.compile(r"(?P<name>[A-Za-z_][\w.-]*+)(?:\[CALL_ID\]\w*+)?(?:\[ARGS\])?\s*+(?=\{)")
_FUNCTION = re.compile(r"<function=(?P<name>[^<>\s]++)>")
_PARAMETER = re.compile(r"\s*+<parameter=(?P<key>[^<>\n]++)>\n?")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|,\s*+(?=[}\]])', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_READER = json.JSONDecoder(strict=False, parse_int=str, parse_float=str, parse_constant=str)
_TRIES = 4
"""Marks that are tried: with a bound, reading takes time linear in the text."""


@dataclass(frozen=True)
class Reading:
    """A text with its first call: what stands before and behind it.

    ``marked`` says that a call was begun, even if it cannot be read (``call`` is then None). ``more``
    says that further calls followed in the same list. ``repaired``: it was not quite the form.
    """

    before: str
    call: ToolCall | None = None
    after: str = ""
    more: bool = False
    marked: bool = False
    repaired: bool = False


def read_call(text: str) -> Reading:
    """Find the first call that can be read. Never raises."""
    first: Reading | None = None
    start = 0
    for _ in range(_TRIES):
        mark = _MARK.search(text, start)
        if mark is None:
            break
        before = _OPEN_FENCE.sub("", text[: mark.start()].rstrip()).rstrip()
        reading = _read_at(text, mark, before)
        if reading is not None:
            return reading
        first = first or Reading(before, marked=mark["bare"] is None)
        start = mark.end()
    return first if first is not None and first.marked else Reading(text)


def without_marks(text: str) -> str:
    """The text with nothing in it that would be read as the beginning of a call."""
    brackets = str.maketrans("<[{", "(((")
    return _MARK.sub(lambda mark: mark[0].translate(brackets), text)


def _read_at(text: str, mark: re.Match[str], before: str) -> Reading | None:
    bare = mark["bare"] is not None
    start = mark.start() if bare or mark[0] == "<function=" else _skipped(text, mark.end())
    if tagged := _FUNCTION.match(text, start):
        return _read_tags(text, tagged, before)
    named = _NAMED.match(text, start) if mark[0] == "[TOOL_CALLS]" else None
    found = _decode(text, named.end() if named else start)
    if found is None:
        return None
    value, end, repaired = found
    items: list[Any] = [{"name": named["name"], "arguments": value}] if named else _items(value)
    read = _call(items[0], bare=bare) if items else None
    if read is None:
        return None
    call, flat = read
    if repaired and not call.arguments:
        # Cut before its arguments, as far as anyone can tell.
        return None
    return Reading(before, call, _behind(text[end:]), len(items) > 1, marked=True, repaired=repaired or flat)


def _read_tags(text: str, function: re.Match[str], before: str) -> Reading | None:
    """A call whose arguments stand between tags; None where one of them is not closed."""
    end = text.find("</function>", function.end())
    if end < 0:
        return None
    *parts, rest = text[function.end() : end].split("</parameter>")
    keys = [_PARAMETER.match(part) for part in parts]
    if rest.strip() or not all(keys):
        return None
    arguments = {
        key["key"]: part[key.end() :].removesuffix("\n") for key, part in zip(keys, parts, strict=True) if key
    }
    call = ToolCall(function["name"], arguments)
    return Reading(before, call, _behind(text[end + len("</function>") :]), marked=True)


def _behind(text: str) -> str:
    """What follows a call beside its closing tags, brackets and fences."""
    return _FENCE.sub("", text.replace(_CLOSE, "", 1)).strip(" \t\r\n]}")


def _skipped(text: str, start: int) -> int:
    """Past white space and the fence of a code block."""
    while start < len(text) and text[start].isspace():
        start += 1
    fence = _FENCE.match(text, start)
    return fence.end() if fence else start


def _items(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else [value]


def _call(item: Any, *, bare: bool) -> tuple[ToolCall, bool] | None:
    """A call, and whether its arguments were not where they belong."""
    if not isinstance(item, dict):
        return None
    fields = cast(dict[str, Any], item)
    if isinstance(fields.get("function"), dict):
        fields = cast(dict[str, Any], fields["function"])
    name = fields.get("name")
    place = next((key for key in ("arguments", "parameters") if key in fields), None)
    if not isinstance(name, str) or not name.strip() or (bare and place is None):
        return None
    if place is None:
        flat = {key: value for key, value in fields.items() if key not in ("name", "id", "type")}
        return ToolCall(clean_text(name.strip()), _arguments(flat)), bool(flat)
    return ToolCall(clean_text(name.strip()), _arguments(fields[place])), False


def _arguments(given: Any) -> dict[str, str]:
    """Arguments by name; a value without a name gets the empty one."""
    if isinstance(given, str):
        found = _decode(given, _skipped(given, 0)) if given.lstrip().startswith("{") else None
        given = found[0] if found else given
    if isinstance(given, dict):
        named = cast(dict[str, Any], given)
        return {clean_text(key): _plain(value) for key, value in named.items() if value is not None}
    return {} if given is None or given == "" else {"": _plain(given)}


def _plain(value: Any) -> str:
    """A value as text; one that is wrapped in an object or list of its own is taken out."""
    while isinstance(value, dict | list) and len(cast(Any, value)) == 1:
        [value] = cast(dict[str, Any], value).values() if isinstance(value, dict) else cast(list[Any], value)
    return clean_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _decode(text: str, start: int) -> tuple[Any, int, bool] | None:
    """The JSON value that begins at ``start``, where it ends, and whether it had to be mended."""
    if start >= len(text) or text[start] not in "{[":
        return None
    try:
        value, end = _READER.raw_decode(text, start)
        return value, end, False
    except (ValueError, RecursionError):
        close = text.find(_CLOSE, start)
        end = close if close >= 0 else len(text)
        value = _mended(text[start:end])
        return None if value is None else (value, end, True)


def _mended(text: str) -> Any:
    """The value of JSON with small faults; None where it could be read in more than one way."""
    if _MARK.match(text) and "'" in text[: text.find(":") + 1]:
        return _python_literal(text)
    text = _STRING.sub(_without_odd_escapes, text)
    closers = _missing_closers(text)
    if closers is None:
        return None
    try:
        return _READER.raw_decode(_TOKEN.sub(_without_comma, text + closers))[0]
    except (ValueError, RecursionError):
        return None


def _without_odd_escapes(string: re.Match[str]) -> str:
    return _ESCAPE.sub(lambda escape: "'" if escape[1] == "'" else escape[0], string[0])


def _without_comma(token: re.Match[str]) -> str:
    return "" if token[0].startswith(",") else token[0]


def _missing_closers(text: str) -> str | None:
    """The brackets that are open at the end; None where a word is, or where brackets cross."""
    outside = _STRING.sub("", text)
    if '"' in outside or not text.rstrip(", \t\r\n").endswith(('"', "}", "]")):
        return None
    opened: list[str] = []
    for char in outside:
        if char in "{[":
            opened.append("}" if char == "{" else "]")
        elif char in "}]" and (not opened or opened.pop() != char):
            return None
    return "".join(reversed(opened))


def _python_literal(text: str) -> Any:
    """A value that was written as Python writes it, in single quotes."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
