"""The fixed part of prompts: instructions and exemplars, read from versioned YAML files.

A file belongs to an environment's family: ``exemplars/<environment>_<family>.yaml`` in this package,
or wherever an environment's optional attribute ``exemplars`` points. An environment without one is
played zero-shot, with an instruction made from its tools.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Literal, cast, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.environments.base import Environment, ToolSpec
from pipeline.errors import FormatError, RecipeError
from pipeline.rendering.base import Exemplar, PromptSpec
from pipeline.rendering.opening import extended
from pipeline.rendering.parse import finish
from pipeline.trajectories.schema import Step

Style = Literal["standard", "cot", "act", "react", "react_im"]
Shape = Literal["answer", "reason", "act", "react"]

_SHAPES: dict[str, Shape] = {
    "standard": "answer",
    "cot": "reason",
    "act": "act",
    "react": "react",
    "react_im": "react",
}
_ZERO_SHOT: dict[str, str] = {
    "standard": "Answer as briefly as you can.",
    "cot": "Reason step by step, then answer as briefly as you can.",
    "act": "Solve the task by acting. After every action you see an observation.",
    "react": "Solve the task by thinking and acting in turn. After every action you see an observation.",
}
_FOLDER = Path(__file__).parent / "exemplars"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class WorkedStep(_Strict):
    """One step of a worked example; the last one's observation may be left out, and a sparse thought.

    ``inner`` is the step's inner monologue, for the style react_im: the goal and the part of it that
    is open now, nothing about what was found or what follows from it.
    """

    thought: str = ""
    inner: str = ""
    action: str
    observation: str = ""


class WorkedExample(_Strict):
    """A task solved by hand. ``cot`` is its reasoning as one paragraph, for the style cot.

    ``opening`` is what the episode showed before the first step.
    """

    task: str = ""
    instruction: str
    opening: str = ""
    answer: str
    steps: list[WorkedStep] = Field(min_length=1)
    cot: str = ""


class Library(_Strict):
    """One file of exemplars. ``version`` rises with every change of its text."""

    version: int
    label: str
    instructions: dict[Style, str]
    exemplars: list[WorkedExample] = []


def spec_for(environment: Environment, style: str, shots: int | None = None) -> PromptSpec:
    """The fixed part of a style's prompts in an environment.

    Args:
        environment: whose instruction and exemplars.
        style: ``standard``, ``cot``, ``act``, ``react`` or ``react_im``; all but the last two are the
            react exemplars with parts removed.
        shots: how many exemplars; None takes all there are.

    Raises:
        RecipeError: no such style, or fewer exemplars than asked for.
        FormatError: the exemplar file cannot be read.
    """
    if style not in _SHAPES:
        raise RecipeError(f"there is no style {style!r}; known are: {', '.join(get_args(Style))}")
    library = library_of(environment)
    examples = library.exemplars if library else []
    if shots is not None and shots > len(examples):
        raise RecipeError(
            f"shots: {shots} exemplars are asked for, but {_called(environment)} has {len(examples)}; "
            "lower method.shots"
        )
    asked = cast(Style, "react" if style == "react_im" else style)
    instruction = library.instructions.get(asked) if library else None
    return PromptSpec(
        style=_SHAPES[style],
        label=library.label if library else environment.label,
        instruction=_described(environment, asked) if instruction is None else instruction.strip(),
        exemplars=tuple(_derived(example, style, environment) for example in examples[:shots]),
        free_form=getattr(environment, "free_form", False),
    )


def exemplar_tasks(environment: Environment) -> set[str]:
    """Ids of the tasks that exemplars show: no panel may hold them.

    Raises:
        FormatError: the exemplar file cannot be read.
    """
    library = library_of(environment)
    return {example.task for example in library.exemplars if example.task} if library else set()


def library_of(environment: Environment) -> Library | None:
    """The environment's exemplar file, or None where it has none.

    Raises:
        FormatError: the file cannot be read.
    """
    own: Path | str | None = getattr(environment, "exemplars", None)
    if own is not None:
        return _read(Path(own), _stamp(Path(own)))
    path = _FOLDER / f"{_called(environment)}.yaml"
    return _read(path, _stamp(path)) if path.is_file() else None


def _called(environment: Environment) -> str:
    return "_".join(part for part in (environment.name, environment.family) if part)


def _stamp(path: Path) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116
    except OSError as error:
        raise FormatError(f"exemplar file {str(path)!r} cannot be read: {error.strerror}") from error


@lru_cache(maxsize=64)
def _read(path: Path, stamp: int) -> Library:
    try:
        return Library.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise FormatError(f"exemplar file {str(path)!r} cannot be read: {reason}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the top"
        raise FormatError(
            f"exemplar file {str(path)!r}, at {where}: {first['msg']}, not {str(first['input'])[:80]!r}; "
            "quote words such as yes, no and numbers"
        ) from error


def _derived(example: WorkedExample, style: str, environment: Environment) -> Exemplar:
    if style == "cot" and not example.cot.strip():
        raise FormatError(
            f"exemplar {example.instruction[:60]!r} of {_called(environment)} has no cot paragraph; add one"
        )
    if style in ("standard", "cot"):
        steps = (Step(thought=example.cot if style == "cot" else "", action=finish(example.answer)),)
        instruction = example.instruction
    else:
        instruction = extended(example.instruction, example.opening)
        steps = tuple(
            Step(
                thought=_thought(step, style, environment),
                action=step.action,
                observation=step.observation,
            )
            for step in example.steps
        )
    return Exemplar(instruction=instruction, steps=steps, answer=example.answer)


def _thought(step: WorkedStep, style: str, environment: Environment) -> str:
    if style == "react_im" and not step.inner.strip():
        raise FormatError(
            f"the exemplars of {_called(environment)} have no inner monologue; add it to each step"
        )
    return {"react": step.thought, "react_im": step.inner}.get(style, "")


def _described(environment: Environment, style: str) -> str:
    lines = [_ZERO_SHOT[style]]
    if style in ("act", "react") and getattr(environment, "free_form", False):
        lines.append("An action is plain text on one line, without brackets.")
        lines += [f"Every action {tool.description}." for tool in environment.tools]
    elif style in ("act", "react"):
        lines.append("The actions are:")
        lines += [f"- {_called_tool(tool)}: {tool.description}" for tool in environment.tools]
    return "\n".join(lines)


def _called_tool(tool: ToolSpec) -> str:
    return f"{tool.name}[{tool.argument}]" if tool.argument else tool.name
