"""What a recipe may say: one model a stage. Unknown keys and wrong types are refused."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from pipeline.recipe.collecting import (
    ExportRecipe,
    GenerateRecipe,
    PairsRecipe,
    SelectRecipe,
)
from pipeline.recipe.sections import (
    LOGIN,
    LOGIN_ERROR,
    EnvironmentRecipe,
    MethodRecipe,
    ModelRecipe,
    PanelRecipe,
    Section,
    SwiftRecipe,
    SwitchRecipe,
    VoteRecipe,
)
from pipeline.recipe.training import (
    DpoRecipe,
    LoraRecipe,
    TrainRecipe,
    ValidateRecipe,
)

__all__ = [
    "LOGIN",
    "LOGIN_ERROR",
    "DpoRecipe",
    "EntryRecipe",
    "EnvironmentRecipe",
    "EvaluateRecipe",
    "ExecutorRecipe",
    "ExportRecipe",
    "GenerateRecipe",
    "LoraRecipe",
    "MethodRecipe",
    "ModelRecipe",
    "PairsRecipe",
    "PanelRecipe",
    "RationalizeRecipe",
    "Recipe",
    "RoundsRecipe",
    "Section",
    "SelectRecipe",
    "SwiftRecipe",
    "SwitchRecipe",
    "TrainRecipe",
    "ValidateRecipe",
    "VoteRecipe",
]


class EntryRecipe(Section):
    """One row of the comparison: a method × a model."""

    model: str
    """A key of ``models``, or ``student``: the model just trained in the method's style; or ``untrained``:
    what a student that was trained from nothing started from."""
    method: MethodRecipe


class EvaluateRecipe(Section):
    """The comparison: every entry plays the same panel."""

    panel: PanelRecipe = PanelRecipe(split="test")
    entries: list[EntryRecipe] = Field(min_length=1)
    checkpoints: str | None = None
    """A folder of checkpoints: play them all, and plot success against training steps."""
    concurrency: int = Field(default=64, ge=1)
    resamples: int = Field(default=9999, ge=99)
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    seed: int = 0


class RationalizeRecipe(Section):
    """How failed tasks are tried again with the answer as a hint, which is never trained on.

    Source: rationalisation in STaR (Zelikman et al. 2022), section 3.2.
    """

    model: str = "student"
    """A key of ``models``, or ``student``: the round's generator."""
    method: MethodRecipe
    samples: int = Field(default=1, ge=1)
    """Tries a task; the first is greedy where the method's temperature is 0."""


class RoundsRecipe(Section):
    """STaR (Zelikman et al. 2022): the student generates the next round's data, and the base is trained anew.

    Round 0 is what the other sections say. Each later round draws new tasks of the training split, and what
    was kept joins the rows of the rounds before.
    """

    most: int = Field(default=3, ge=1)
    """Rounds after round 0 at most."""
    tasks: int = Field(ge=1)
    """New training tasks a round."""
    method: MethodRecipe
    """How the student plays them."""
    samples: int = Field(default=1, ge=1)
    """Episodes a task."""
    rationalize: RationalizeRecipe | None = None
    dev: PanelRecipe = PanelRecipe(split="dev")
    """What decides whether a round has helped; never the evaluation's panel."""
    gain: float = 0.0
    """A round whose mean dev reward is not more than so much above the best before is the last."""


class ExecutorRecipe(Section):
    """Where episodes are played: in this process, or by workers of a Ray cluster."""

    name: Literal["local", "ray"] = "local"
    workers: int = Field(default=2, ge=1)
    """Ray workers, each with environments of its own (and, where a model is local, a model of its own)."""
    address: str | None = None
    """A Ray cluster to join (``auto``, ``ray://…``); by default one is started on this machine alone."""
    cpus: float = Field(default=1.0, gt=0)
    """Processors that a worker reserves."""
    gpus: float = Field(default=0.0, ge=0)
    """GPUs that a worker reserves."""


class Recipe(Section):
    """Everything about a run. A stage that is absent is not run."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    description: str = ""
    data: str = ""
    """A path, for the rest of the recipe to refer to as ``${data}``."""
    seed: int = 0
    environment: EnvironmentRecipe
    models: dict[str, ModelRecipe] = Field(default_factory=dict)
    generate: GenerateRecipe | None = None
    select: SelectRecipe | None = None
    export: ExportRecipe | None = None
    train: TrainRecipe | None = None
    evaluate: EvaluateRecipe | None = None
    rounds: RoundsRecipe | None = None
    executor: ExecutorRecipe = ExecutorRecipe()

    @field_validator("executor", mode="before")
    @classmethod
    def _executor_by_name(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _models_exist(self) -> Recipe:
        hinted = self.rounds.rationalize if self.rounds else None
        used = {
            "generate.model": self.generate and self.generate.model,
            "generate.method.swift.model": self.generate and self.generate.method.swift.model,
            "train.model": self.train and self.train.model,
            "rounds.rationalize.model": hinted and hinted.model,
        }
        if self.evaluate:
            for index, entry in enumerate(self.evaluate.entries):
                used[f"evaluate.entries.{index}.model"] = entry.model
                used[f"evaluate.entries.{index}.method.swift.model"] = entry.method.swift.model
        known = {*self.models, "expert", "student", "untrained"}
        for where, key in used.items():
            if key and key not in known:
                raise ValueError(f"{where}: {key!r} is not one of models ({', '.join(sorted(known))})")
        return self
