"""The chat rendering: the question and the observations are the user's, every turn the assistant's.

Roles always alternate, and a training conversation ends with an assistant message. Contents are
stripped, since several templates strip them: what is given is what is rendered.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.errors import FormatError
from pipeline.rendering.base import ChatPrompt, Exemplar, Message, Parsed, PromptSpec
from pipeline.rendering.parse import clean_action, clean_thought, parse
from pipeline.rendering.text import STOP, answer, reasoning
from pipeline.trajectories.schema import Step, Task

FORMS = {
    "react": "Write every turn on two lines and then wait for the observation:\n"
    "Thought: what you know and what to do next\nAction: one action",
    "act": "Write every turn on one line and then wait for the observation:\nAction: one action",
    "reason": "Write two lines:\nThought: your reasoning, step by step\nAnswer: the answer alone",
    "answer": "Write one line:\nAnswer: the answer alone",
}
"""How a turn is written, by style: the last part of the system message."""
SPARSE = (
    "Write every turn on one line or two and then wait for the observation:\n"
    "Thought: what you know and what to do next, where that helps\nAction: one action"
)
"""The same for react where actions are free text, and thoughts sparse."""


class ChatRenderer:
    """Chat messages, for instruction-tuned models and chat endpoints."""

    name: str = "chat"
    version: str = "1"

    def prompt(
        self, spec: PromptSpec, task: Task, steps: Sequence[Step], draft: str | None = None
    ) -> ChatPrompt:
        """As ``Renderer.prompt``.

        Raises:
            FormatError: a draft was given; an assistant turn cannot be begun for a chat model.
        """
        if draft is not None:
            raise FormatError("the chat renderer cannot continue a half-written turn; use the text renderer")
        messages = _opening(spec, task)
        if spec.style in ("act", "react"):
            for step in steps:
                messages += [_turn(spec, [step]), Message("user", observed(step))]
        return ChatPrompt(tuple(messages), _stop(spec))

    def parse(self, spec: PromptSpec, completion: str) -> Parsed:
        """As ``Renderer.parse``."""
        return parse(spec.style, completion)

    def training(self, spec: PromptSpec, task: Task, steps: Sequence[Step]) -> ChatPrompt:
        """As ``Renderer.training``; a single-step style makes one turn of the whole episode.

        Raises:
            FormatError: there are no steps.
        """
        if not steps:
            raise FormatError(f"task {task.id!r}: an episode without steps cannot be a training row; drop it")
        acts = spec.style in ("act", "react")
        before = self.prompt(spec, task, steps[:-1] if acts else ()).messages
        return ChatPrompt((*before, _turn(spec, steps[-1:] if acts else steps)), _stop(spec))


def _opening(spec: PromptSpec, task: Task) -> list[Message]:
    shared = bool(spec.exemplars)
    form = SPARSE if spec.free_form and spec.style == "react" else FORMS[spec.style]
    system = f"{spec.instruction.strip()}\n\n{form}".strip()
    messages = [Message("system", system, shared=shared)]
    for exemplar in spec.exemplars:
        messages += _worked(spec, exemplar)
    return [*messages, Message("user", question(spec, task.instruction))]


def _worked(spec: PromptSpec, exemplar: Exemplar) -> list[Message]:
    messages = [Message("user", question(spec, exemplar.instruction), shared=True)]
    if spec.style not in ("act", "react"):
        return [*messages, _turn(spec, exemplar.steps, shared=True)]
    for step in exemplar.steps[:-1]:
        messages += [_turn(spec, [step], shared=True), Message("user", observed(step), shared=True)]
    return [*messages, _turn(spec, exemplar.steps[-1:], shared=True)]


def _turn(spec: PromptSpec, steps: Sequence[Step], *, shared: bool = False) -> Message:
    if spec.style == "answer":
        text = f"Answer: {answer(steps)}"
    elif spec.style == "reason":
        text = f"Thought: {reasoning(steps)}\nAnswer: {answer(steps)}"
    else:
        thought = clean_thought(steps[0].thought) if spec.style == "react" else ""
        text = f"Thought: {thought}\n" if thought else ""
        text += f"Action: {clean_action(steps[0].action)}"
    return Message("assistant", text.strip(), shared=shared)


def question(spec: PromptSpec, instruction: str) -> str:
    """The task, as the user says it."""
    return f"{spec.label}: {instruction.strip()}".strip()


def observed(step: Step) -> str:
    """The observation, as the user says it."""
    return f"Observation: {step.observation.strip()}".strip()


def _stop(spec: PromptSpec) -> tuple[str, ...]:
    return (STOP,) if spec.style in ("act", "react") else (f"\n{spec.label}:",)
