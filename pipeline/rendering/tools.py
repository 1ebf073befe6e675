"""The tool-call rendering: every action is a call of one of the environment's tools.

A step is an assistant message whose content is the thought and whose call is the action; a tool
message answers it with the observation. How a call is written is the server's or the template's
affair. What a model wrote is stored in one form, the one of Hermes and Qwen (``write_call``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from pipeline.errors import FormatError
from pipeline.rendering.base import ChatPrompt, Exemplar, Message, Parsed, PromptSpec, ToolCall, ToolSpec
from pipeline.rendering.calls import Reading, read_call, without_marks
from pipeline.rendering.chat import ChatRenderer, observed, question
from pipeline.rendering.parse import (
    clean_action,
    clean_thought,
    has_observation,
    parse,
    read_thought,
    split_action,
    without_reasoning,
)
from pipeline.rendering.text import EPISODE_OVER, STOP
from pipeline.trajectories.schema import Step, Task

FORMS = {
    "react": "In every turn, first write what you know and what to do next, then call one tool and wait for "
    "its result.",
    "act": "In every turn, call one tool, write nothing else, and wait for its result.",
}
"""How a turn is written, by style: the last part of the system message."""

UNNAMED = "input"
"""What the argument of a tool that does not exist is called when its call is shown again."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_PREFIX = re.compile(r"(?:functions?|tools?)[.:]", re.IGNORECASE)


def tool_schema(tool: ToolSpec) -> dict[str, Any]:
    """The tool as templates and OpenAI-compatible servers take it: a function with one string or none."""
    properties = {tool.argument: {"type": "string", "description": tool.argument}} if tool.argument else {}
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": {"type": "object", "properties": properties, "required": list(properties)},
        },
    }


def tool_spec(schema: dict[str, Any]) -> ToolSpec:
    """The tool that ``tool_schema`` wrote.

    Raises:
        KeyError, TypeError, ValueError: it is not of that shape.
    """
    function = schema["function"]
    arguments = list(function["parameters"]["properties"])
    if len(arguments) > 1:
        raise ValueError(f"tool {function['name']!r} has {len(arguments)} arguments")
    return ToolSpec(function["name"], arguments[0] if arguments else "", function["description"])


def write_call(call: ToolCall) -> str:
    """A call as text, in the one form that is stored whatever a server or a template makes of it."""
    body = json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def write_turn(message: Message) -> str:
    """An assistant message as a completion: its content, then its calls."""
    return "\n".join([*([message.content] if message.content else []), *map(write_call, message.calls)])


class ToolsRenderer:
    """Tool calls, for models and endpoints that were trained on them."""

    name: str = "tools"
    version: str = "1"

    def prompt(
        self, spec: PromptSpec, task: Task, steps: Sequence[Step], draft: str | None = None
    ) -> ChatPrompt:
        """As ``Renderer.prompt``; the styles of a single step are the chat renderer's.

        Raises:
            FormatError: a draft was given, or the specification offers no tools.
        """
        if draft is not None:
            raise FormatError("the tools renderer cannot continue a half-written turn; use the text renderer")
        if not _acts(spec):
            return ChatRenderer().prompt(spec, task, steps)
        messages = _opening(spec, task)
        for step in steps:
            messages += _exchange(spec, step, _turns(messages) + 1)
        return ChatPrompt(tuple(messages), (STOP,), spec.tools)

    def parse(self, spec: PromptSpec, completion: str) -> Parsed:
        """As ``Renderer.parse``; a turn written as Thought and Action is read too (flag ``repaired``)."""
        if not _acts(spec):
            return parse(spec.style, completion)
        body, flags = without_reasoning(completion)
        reading = read_call(body)
        thinks = spec.style == "react"
        if reading.call is None and not reading.marked:
            return _as_text(body, flags, thinks=thinks)
        action, repaired = _action(spec, reading.call) if reading.call else ("", False)
        flags += ["repaired"] if repaired or reading.repaired else []
        flags += _behind(reading) if action else ["no_action"]
        return Parsed(read_thought(reading.before) if thinks else "", action, tuple(flags))

    def training(self, spec: PromptSpec, task: Task, steps: Sequence[Step]) -> ChatPrompt:
        """As ``Renderer.training``.

        Raises:
            FormatError: there are no steps, or no tools.
        """
        if not _acts(spec):
            return ChatRenderer().training(spec, task, steps)
        if not steps:
            raise FormatError(f"task {task.id!r}: an episode without steps cannot be a training row; drop it")
        before = self.prompt(spec, task, steps[:-1])
        last = _turn(spec, steps[-1], _turns(before.messages) + 1)
        return ChatPrompt((*before.messages, last), before.stop, before.tools)


def _acts(spec: PromptSpec) -> bool:
    if spec.style not in FORMS:
        return False
    if not spec.tools:
        raise FormatError("the tools renderer was given no tools to offer; use the chat or the text renderer")
    return True


def _opening(spec: PromptSpec, task: Task) -> list[Message]:
    system = f"{spec.instruction.strip()}\n\n{FORMS[spec.style]}".strip()
    messages = [Message("system", system, shared=bool(spec.exemplars))]
    for exemplar in spec.exemplars:
        messages += _worked(spec, exemplar, _turns(messages))
    return [*messages, Message("user", question(spec, task.instruction))]


def _worked(spec: PromptSpec, exemplar: Exemplar, before: int) -> list[Message]:
    """One exemplar. It closes with an answer in words: several templates refuse a user after a tool."""
    messages = [Message("user", question(spec, exemplar.instruction), shared=True)]
    last = len(exemplar.steps) - 1
    for index, step in enumerate(exemplar.steps):
        # What an environment says at the end is often a verdict.
        observation = EPISODE_OVER if index == last else step.observation
        seen = Step(thought=step.thought, action=step.action, observation=observation)
        messages += _exchange(spec, seen, before + index + 1, shared=True)
    return [*messages, Message("assistant", exemplar.answer.strip() or "Done.", shared=True)]


def _exchange(spec: PromptSpec, step: Step, number: int, *, shared: bool = False) -> list[Message]:
    turn = _turn(spec, step, number, shared=shared)
    if not turn.calls:
        return [turn, Message("user", observed(step), shared=shared)]
    answers = turn.calls[0].id
    return [turn, Message("tool", step.observation.strip(), shared=shared, answers=answers)]


def _turn(spec: PromptSpec, step: Step, number: int, *, shared: bool = False) -> Message:
    """A step as the model writes it; what cannot be a call (``go to cabinet 1``) stays words."""
    thought = without_marks(clean_thought(step.thought)) if spec.style == "react" else ""
    action = clean_action(step.action)
    call = _call(spec, action, number)
    if call is not None:
        return Message("assistant", thought, shared=shared, calls=(call,))
    words = f"{thought}\nAction: {without_marks(action)}".strip()
    return Message("assistant", words, shared=shared)


def _turns(messages: Sequence[Message]) -> int:
    return sum(message.role == "assistant" for message in messages)


def _call(spec: PromptSpec, action: str, number: int) -> ToolCall | None:
    # Mistral's templates ask for ids of nine letters and digits.
    identity = f"call{number:05d}"
    name, argument = split_action(action)
    argument = argument.strip()
    if spec.free_form:
        return _free_call(spec.tools[0], action, identity)
    if not _NAME.fullmatch(name):
        return None
    tool = _known(spec, name)
    key = (tool.argument if tool else "") or UNNAMED
    bare = name == action or (tool is not None and not tool.argument and not argument)
    return ToolCall(tool.name if tool else name, {} if bare else {key: argument}, identity)


def _free_call(tool: ToolSpec, action: str, identity: str) -> ToolCall | None:
    """A call with the action as its argument: the one tool of a world whose actions are free text."""
    name, argument = split_action(action)
    if name.lower() == tool.name.lower() and argument.strip():
        action = clean_action(argument)
    return ToolCall(tool.name, {tool.argument: action}, identity) if action else None


def _known(spec: PromptSpec, name: str) -> ToolSpec | None:
    return next((tool for tool in spec.tools if tool.name.lower() == name.lower()), None)


def _action(spec: PromptSpec, call: ToolCall) -> tuple[str, bool]:
    """The action that a call means, and whether it had to be guessed; empty where that is not clear."""
    plain = _PREFIX.sub("", call.name, count=1)
    tool = _known(spec, call.name) or _known(spec, plain)
    name = tool.name if tool else call.name
    wanted = tool.argument.lower() if tool else ""
    named = [value for key, value in call.arguments.items() if wanted and key.strip().lower() == wanted]
    values = named or list(call.arguments.values())
    if len(values) > 1:
        return "", False
    repaired = tool is not None and (
        len(call.arguments) > 1 or len(named) < len(call.arguments) or name.lower() != call.name.lower()
    )
    if spec.free_form and tool is not None:
        return clean_action(values[0]) if values else "", repaired
    bare = not values or (tool is not None and not tool.argument and not values[0].strip())
    return clean_action(name if bare else f"{name}[{values[0].strip()}]"), repaired


def _as_text(body: str, flags: list[str], *, thinks: bool) -> Parsed:
    """A turn without a call, read as Thought and Action: the model forgot that it has tools."""
    read = parse("react", body)
    flags += [*read.flags, *(["repaired"] if read.action else [])]
    return Parsed(read.thought if thinks else "", read.action, tuple(dict.fromkeys(flags)))


def _behind(reading: Reading) -> list[str]:
    """The flag for what follows a call."""
    if has_observation(reading.after):
        return ["hallucinated_observation"]
    return ["extra_text"] if reading.more or reading.after else []
