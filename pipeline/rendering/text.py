"""The raw-text rendering: ``Thought 1: … Action 1: … Observation 1: …``, as ReAct was published.

A prompt ends where the model goes on (``Thought 3:``, never in a space). The model's words begin
with the space and end with the stop marker, which is trained once a step and stands again in the
next prompt. Source: Yao et al. 2023 (ReAct), section 3.2 and appendix C.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.errors import FormatError
from pipeline.rendering.base import Exemplar, Parsed, PromptSpec, Segment, TextPrompt
from pipeline.rendering.parse import clean_action, clean_thought, parse, split_action
from pipeline.trajectories.schema import Step, Task

STOP = "\nObservation"
"""The marker on which acting models stop."""
EPISODE_OVER = "Episode finished."
"""What exemplars show after their last action, so that a prompted model writes the marker there too."""


def reasoning(steps: Sequence[Step]) -> str:
    """The thoughts of an episode as one paragraph (a chain of thought is an episode without acts)."""
    return " ".join(thought for step in steps if (thought := clean_thought(step.thought)))


def answer(steps: Sequence[Step]) -> str:
    """The argument of the last action: what the episode answered."""
    return split_action(clean_action(steps[-1].action))[1] if steps else ""


class TextRenderer:
    """Raw text, for base models and students trained on it."""

    name: str = "text"
    version: str = "1"

    def prompt(
        self, spec: PromptSpec, task: Task, steps: Sequence[Step], draft: str | None = None
    ) -> TextPrompt:
        """As ``Renderer.prompt``; a prompt of a single-step style shows no steps."""
        segments = _opening(spec, task)
        if spec.style in ("act", "react"):
            for number, step in enumerate(steps, 1):
                segments += [_model_segment(spec, [step], number), *_observed(spec, step, number)]
        if draft is not None:
            text = f"{_spaced(clean_thought(draft))}\nAction {len(steps) + 1}:"
            segments.append(Segment(text, "model"))
        return TextPrompt(tuple(segments), _stop(spec))

    def parse(self, spec: PromptSpec, completion: str) -> Parsed:
        """As ``Renderer.parse``; the label that ended the prompt counts as written."""
        return parse(spec.style, completion, opened=_header(spec, 1))

    def training(self, spec: PromptSpec, task: Task, steps: Sequence[Step]) -> TextPrompt:
        """As ``Renderer.training``; a single-step style makes one turn of the whole episode.

        Raises:
            FormatError: there are no steps.
        """
        if not steps:
            raise FormatError(f"task {task.id!r}: an episode without steps cannot be a training row; drop it")
        if spec.style in ("act", "react"):
            before = self.prompt(spec, task, steps[:-1]).segments
            last = _model_segment(spec, steps[-1:], len(steps))
        else:
            before = self.prompt(spec, task, ()).segments
            last = _model_segment(spec, steps, 1)
        return TextPrompt((*before, last), _stop(spec))


def _opening(spec: PromptSpec, task: Task) -> list[Segment]:
    lead = f"{spec.instruction.strip()}\n\n" if spec.instruction.strip() else ""
    lead += "".join(_worked(spec, exemplar) for exemplar in spec.exemplars)
    return [
        # The shared part ends behind the label: behind a blank line, "\n\n" would be encoded otherwise.
        Segment(f"{lead}{spec.label}:", "context", shared=bool(spec.exemplars)),
        Segment(f"{_spaced(task.instruction.strip())}\n", "context"),
        Segment(_header(spec, 1), "frame"),
    ]


def _worked(spec: PromptSpec, exemplar: Exemplar) -> str:
    """One exemplar with a blank line after it."""
    text = f"{spec.label}: {exemplar.instruction.strip()}\n{_header(spec, 1)}"
    if spec.style not in ("act", "react"):
        return text + _words(spec, exemplar.steps, 1).rstrip("\n") + "\n\n"
    for number, step in enumerate(exemplar.steps, 1):
        last = number == len(exemplar.steps)
        observation = step.observation.strip() or (EPISODE_OVER if last else "")
        text += f"{_words(spec, [step], number)} {number}:{_spaced(observation)}\n"
        text += "\n" if last else _header(spec, number + 1)
    return text


def _words(spec: PromptSpec, steps: Sequence[Step], number: int) -> str:
    """What the model itself writes in one turn, its stop included."""
    if spec.style == "answer":
        return f"{_spaced(answer(steps))}\n"
    if spec.style == "reason":
        return f"{_spaced(reasoning(steps))}\nAnswer:{_spaced(answer(steps))}\n\n"
    action = _spaced(clean_action(steps[0].action))
    if spec.style == "act":
        return f"{action}{STOP}"
    return f"{_spaced(clean_thought(steps[0].thought))}\nAction {number}:{action}{STOP}"


def _model_segment(spec: PromptSpec, steps: Sequence[Step], number: int) -> Segment:
    return Segment(_words(spec, steps, number), "model")


def _observed(spec: PromptSpec, step: Step, number: int) -> list[Segment]:
    return [
        Segment(f" {number}:", "frame"),
        Segment(_spaced(step.observation.strip()), "context"),
        Segment(f"\n{_header(spec, number + 1)}", "frame"),
    ]


def _header(spec: PromptSpec, number: int) -> str:
    """The label that a prompt ends with."""
    headers = {"answer": "Answer:", "reason": "Thought:", "act": f"Action {number}:"}
    return headers.get(spec.style, f"Thought {number}:")


def _stop(spec: PromptSpec) -> tuple[str, ...]:
    if spec.style == "answer":
        return ("\n",)
    return ("\n\n", f"\n{spec.label}:") if spec.style == "reason" else (STOP,)


def _spaced(text: str) -> str:
    return f" {text}" if text else ""
