"""Exported rows, read back as prompts: the text the model saw, with its own words marked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, cast, get_args

from pipeline.errors import StoreError, TrainingError
from pipeline.rendering.base import ChatPrompt, Message, Prompt, Role, Segment, TextPrompt, ToolCall
from pipeline.rendering.tools import tool_spec
from pipeline.trajectories.files import read_json, read_jsonl

Format = Literal["messages", "text", "sharegpt", "tools", "swift"]

_ROLES: dict[str, Role] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "human": "user",
    "gpt": "assistant",
}


@dataclass(frozen=True)
class Export:
    """What ``export.json`` says about a dataset folder."""

    format: Format
    renderer: str
    renderer_version: str
    styles: dict[str, dict[str, Any]]
    history: int | None = None
    """For ``swift``: how many past actions an input shows."""
    pairs: bool = False
    """Whether the rows are pairs to prefer one of."""


@dataclass(frozen=True)
class Episode:
    """One training row before it is ids: an episode's id and its marked text."""

    id: str
    prompt: Prompt


def read_export(dataset: Path) -> Export:
    """Read ``export.json`` of a dataset folder.

    Raises:
        TrainingError: the folder was not written by export, or the file is damaged.
    """
    path = dataset / "export.json"
    if not path.is_file():
        raise TrainingError(
            f"{dataset} holds no export.json; run `staract export` with the same recipe first"
        )
    try:
        raw = read_json(path)
        about = raw["format"], raw["renderer"], raw["renderer_version"], raw["styles"]
        export = Export(*about, history=raw.get("history"), pairs=bool(raw.get("pairs")))
    except (StoreError, KeyError, TypeError) as error:
        raise TrainingError(f"{path} cannot be read ({error}); export the dataset again") from None
    if export.format not in get_args(Format):
        known = ", ".join(get_args(Format))
        raise TrainingError(f"{path}: format {export.format!r} is none of {known}")
    return export


def read_episodes(path: Path, kind: Format) -> Iterator[Episode]:
    """Read the episodes of a JSONL file, one at a time.

    Raises:
        TrainingError: the file is missing, a line is broken, or a row is not of the format.
    """
    try:
        rows = read_jsonl(path)
        if kind == "text":
            yield from _text_episodes(rows)
        else:
            yield from map(_tools_episode if kind == "tools" else _chat_episode, rows)
    except StoreError as error:
        raise TrainingError(f"{error}; export the dataset again") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TrainingError(
            f"{path}: a row is not of the format {kind!r} ({error!r}); export it again"
        ) from None


def turns(prompt: Prompt) -> int:
    """How many turns of the model's own the prompt holds."""
    if isinstance(prompt, TextPrompt):
        return sum(segment.source == "model" for segment in prompt.segments)
    return sum(message.role == "assistant" for message in prompt.messages)


def without_oldest_turn(prompt: Prompt) -> Prompt | None:
    """The prompt without its oldest turn and what the environment answered to it.

    The opening (instructions, task) and the newest turns stay. None when only one turn is left.
    """
    if turns(prompt) < 2:
        return None
    if isinstance(prompt, TextPrompt):
        return _text_without(prompt)
    first, second = [n for n, message in enumerate(prompt.messages) if message.role == "assistant"][:2]
    return replace(prompt, messages=prompt.messages[:first] + prompt.messages[second:])


def _text_without(prompt: TextPrompt) -> TextPrompt:
    opening, _, between, *rest = prompt.segments
    # The opening ends with the label of the turn that goes ("Thought 1:"); the label of the turn that
    # is now the first stands at the end of the text between the two.
    head, newline, _ = opening.text.rpartition("\n")
    label = between.text.rpartition("\n")[2]
    return replace(prompt, segments=(Segment(head + newline + label), *rest))


def _text_episodes(rows: Iterable[Any]) -> Iterator[Episode]:
    for name, steps in groupby(rows, key=lambda row: row["id"]):
        yield Episode(name, _joined(name, steps))


def _joined(name: str, steps: Iterable[Any]) -> TextPrompt:
    """The steps of one episode as one text in which every step is the model's own once."""
    segments: list[Segment] = []
    before = ""
    for row in steps:
        prompt, completion = cast(str, row["prompt"]), cast(str, row["completion"])
        if not prompt.startswith(before):
            raise TrainingError(
                f"row {name!r}, step {row['step']}: the prompt does not begin with the prompt and completion "
                "of the step before it; keep the rows of an episode together and in order, or export again"
            )
        segments += [Segment(prompt[len(before) :]), Segment(completion, "model")]
        before = prompt + completion
    return TextPrompt(tuple(segments))


def _chat_episode(row: Any) -> Episode:
    if "conversations" in row:
        turns = [{"role": turn["from"], "content": turn["value"]} for turn in row["conversations"]]
        return Episode(row["id"], chat_prompt(row["id"], turns))
    return Episode(row["id"], chat_prompt(row["id"], row["messages"]))


def _tools_episode(row: Any) -> Episode:
    return Episode(row["id"], tools_prompt(row["id"], row["messages"], row["tools"]))


def chat_prompt(name: str, messages: Iterable[Any]) -> ChatPrompt:
    """The conversation of a row, from its messages as they are stored.

    Raises:
        TrainingError: a message is no text of system, user or assistant.
        KeyError, TypeError: one is no message.
    """
    return ChatPrompt(tuple(_message(name, message["role"], message["content"]) for message in messages))


def tools_prompt(name: str, messages: Iterable[Any], tools: Iterable[Any]) -> ChatPrompt:
    """The conversation of a row that calls tools, with the tools on offer.

    Raises:
        TrainingError, KeyError, TypeError, ValueError: as ``chat_prompt``, or something is no tool.
    """
    told = tuple(_tools_message(name, message) for message in messages)
    return ChatPrompt(told, tools=tuple(tool_spec(tool) for tool in tools))


def _tools_message(name: str, message: Any) -> Message:
    if message["role"] == "tool":
        return Message("tool", message["content"], answers=message["tool_call_id"])
    calls = tuple(
        ToolCall(call["function"]["name"], dict(call["function"]["arguments"]), call["id"])
        for call in message.get("tool_calls", ())
    )
    return replace(_message(name, message["role"], message["content"]), calls=calls)


def _message(name: str, role: str, content: Any) -> Message:
    if role not in _ROLES or not isinstance(content, str):
        raise TrainingError(
            f"row {name!r}: a message has role {role!r} and a {type(content).__name__} as content; "
            "only text of system, user and assistant can be trained on"
        )
    return Message(_ROLES[role], content)
