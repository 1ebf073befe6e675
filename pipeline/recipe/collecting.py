"""What a recipe says about trajectories: which to collect, which to keep, and how to write them down."""

from __future__ import annotations

import re
from typing import Any, Literal, cast

from pydantic import Field, field_validator, model_validator

from pipeline.recipe.sections import MethodRecipe, PanelRecipe, Section

RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""The name of a run."""


class GenerateRecipe(Section):
    """Trajectories to collect."""

    model: str = "expert"
    """A key of ``models``."""
    method: MethodRecipe = MethodRecipe(name="react")
    panel: PanelRecipe = PanelRecipe(split="train")
    samples: int = Field(default=1, ge=1)
    """Episodes a task at most."""
    until: int | None = Field(default=None, ge=1)
    """Stop when so many trajectories are correct; None plays the whole panel."""
    per_task: int = Field(default=1, ge=1)
    """With ``until``: correct trajectories after which a task is not sampled again."""
    max_cost: float | None = Field(default=None, gt=0)
    """Stop before the run's cost, by the model's prices, exceeds this."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Stop before the run's prompt and completion tokens exceed this."""
    concurrency: int = Field(default=16, ge=1)


class SelectRecipe(Section):
    """Which trajectories to keep."""

    target: int = Field(default=3000, ge=1)
    per_task: int = Field(default=1, ge=1)
    max_steps: int | None = Field(default=None, ge=1)
    exclude: list[PanelRecipe] = Field(default_factory=list[PanelRecipe])
    """Panels beside the evaluation's own whose tasks, and texts, may never be trained on."""
    balance: bool = True
    """Take kinds of task in turn, so that none crowds out another."""
    seed: int = 0


class PairsRecipe(Section):
    """Pairs of a success and a failure of the same task, from their first different step on.

    Source: exploration-based trajectory optimisation (Song et al. 2024).
    """

    runs: list[str] = Field(default_factory=list)
    """Other runs (their recipes' names) whose trajectories are paired with this run's: a teacher's, say."""
    per_task: int = Field(default=1, ge=1)
    """Pairs a task at most."""
    target: int = Field(default=3000, ge=1)
    """Pairs at most."""
    seed: int = 0

    @field_validator("runs")
    @classmethod
    def _plain_names(cls, runs: list[str]) -> list[str]:
        if wrong := [name for name in runs if not RUN.fullmatch(name)]:
            raise ValueError(f"{wrong[0]!r} is no name of a run")
        return runs


class ExportRecipe(Section):
    """The dataset to write."""

    format: Literal["messages", "text", "sharegpt", "tools", "swift"] = "messages"
    """``swift`` is ScienceWorld's format for encoder-decoders: actions alone, so its one style is ``act``."""
    styles: list[Literal["standard", "cot", "act", "react"]] = Field(default=["react"], min_length=1)
    """Each style becomes one subset, made from the same trajectories."""
    dev_fraction: float = Field(default=0.0, ge=0, lt=0.5)
    history: int = Field(default=10, ge=1, le=99)
    """For ``swift``: how many past actions an input shows (K)."""
    skip_first: bool = True
    """For ``swift``: an episode's first action is no target and not shown, as in the public data. A model
    that is to begin episodes by itself needs ``false``."""
    pairs: PairsRecipe | None = None
    """Write pairs to prefer one of, instead of rows to imitate (``messages``, ``text`` and ``tools``)."""

    @model_validator(mode="before")
    @classmethod
    def _swift_acts(cls, given: Any) -> Any:
        if isinstance(given, dict) and cast("dict[str, Any]", given).get("format") == "swift":
            return {"styles": ["act"], **given}
        return given

    @model_validator(mode="after")
    def _one_style(self) -> ExportRecipe:
        if self.format == "swift" and self.styles != ["act"]:
            raise ValueError("the format swift holds actions alone: leave styles out, or write [act]")
        return self

    @model_validator(mode="after")
    def _pairs_are_written(self) -> ExportRecipe:
        if self.pairs is not None and self.format in ("swift", "sharegpt"):
            raise ValueError(f"pairs are not written as {self.format}: take messages, text or tools")
        return self
