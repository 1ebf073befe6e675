"""What a renderer is: the one object that writes model input and reads model output.

The same renderer serves prompts and builds training rows, so that a model is trained on exactly
what it will be served. A prompt is a list of segments (raw text) or of messages (chat); which of
them were written by the model is marked, and only those are ever labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pipeline.trajectories.schema import Step, Task

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True)
class ToolSpec:
    """One action as shown to a model: its name, its argument's meaning, and what it does."""

    name: str
    argument: str
    description: str


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool in an assistant message. ``id`` joins it with the tool message that answers it."""

    name: str
    arguments: dict[str, str]
    id: str = ""


@dataclass(frozen=True)
class Segment:
    """A piece of a raw-text prompt.

    ``source`` is ``frame`` (our own labels and headers), ``context`` (instructions, questions,
    observations: foreign text, encoded with control tokens split) or ``model`` (the model's own
    words, its stop marker included: the labels). ``shared`` marks the leading part that every
    episode of a method has in common (instructions and exemplars).
    """

    text: str
    source: Literal["frame", "context", "model"] = "context"
    shared: bool = False


@dataclass(frozen=True)
class Message:
    """One chat message. ``shared`` as in ``Segment``; assistant messages after it are labels.

    ``calls`` are an assistant's tool calls (its content is then the thought). ``answers`` is, in a
    tool message, the id of the call that the content answers.
    """

    role: Role
    content: str
    shared: bool = False
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""


@dataclass(frozen=True)
class TextPrompt:
    """A raw-text prompt, to be continued where it ends."""

    segments: tuple[Segment, ...]
    stop: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "".join(segment.text for segment in self.segments)


@dataclass(frozen=True)
class ChatPrompt:
    """A conversation, to be continued by one assistant message, which may call one of ``tools``."""

    messages: tuple[Message, ...]
    stop: tuple[str, ...] = ()
    tools: tuple[ToolSpec, ...] = ()


Prompt = TextPrompt | ChatPrompt


@dataclass(frozen=True)
class Exemplar:
    """One worked example: a task's instruction and the steps that solve it (with observations)."""

    instruction: str
    steps: tuple[Step, ...]
    answer: str


@dataclass(frozen=True)
class PromptSpec:
    """Everything about a prompt that is not the task: what a method says in every episode.

    ``style`` is the shape of a turn: ``answer`` (standard), ``reason`` (cot), ``act``, ``react``.
    """

    style: Literal["answer", "reason", "act", "react"]
    label: str
    instruction: str
    exemplars: tuple[Exemplar, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    """The environment's actions, where the renderer offers them as tools; else empty."""
    free_form: bool = False
    """Actions are plain text (``open door to kitchen``) instead of calls; a turn may go without a thought."""


@dataclass(frozen=True)
class Parsed:
    """A completion, read. ``action`` is empty when there is none (flag ``no_action``)."""

    thought: str
    action: str
    flags: tuple[str, ...] = field(default=())


class Renderer(Protocol):
    """Writes prompts and reads completions for one rendering."""

    name: str
    version: str

    def prompt(self, spec: PromptSpec, task: Task, steps: Sequence[Step], draft: str | None = None) -> Prompt:
        """The input that asks for step ``len(steps) + 1``.

        ``draft`` is a thought already written for that step (react, raw text only): the prompt then
        ends where its action begins. It repairs a turn in which the model forgot to act.
        """
        ...

    def parse(self, spec: PromptSpec, completion: str) -> Parsed:
        """Read a completion, taking one step only. Never raises on what a model wrote."""
        ...

    def training(self, spec: PromptSpec, task: Task, steps: Sequence[Step]) -> Prompt:
        """The whole episode as one prompt whose model parts are marked: the training row."""
        ...
