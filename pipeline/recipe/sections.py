"""What several stages of a recipe speak of: environments, models, methods and panels."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

LOGIN = re.compile(r"https?://[^/?#]*@")
"""A url that holds a name, and perhaps a password."""
LOGIN_ERROR = "login"
"""The type of the error about such a url, whose value must not be repeated."""


class Section(BaseModel):
    """Base of every part of a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class EnvironmentRecipe(Section):
    """Which world, and which of its tasks. Keys beyond these go to the environment itself."""

    name: str
    family: str = ""
    kinds: list[str] = Field(default_factory=list)
    """Only tasks of these kinds; empty means all."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Settings of the environment's own (paths, dialects)."""


class ModelRecipe(Section):
    """Where a model is and how it is run.

    ``address`` is a hub id, a local folder (full or adapter), ``package:<module>/<file>.gguf``,
    ``openai:<model>@<base url>``, ``expert`` or ``scripted``.
    """

    address: str
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """``auto`` is bfloat16 where the processor has bfloat16 arithmetic, else float32."""
    device: str = "auto"
    batch_size: int = Field(default=32, ge=1)
    """How many sequences a local model decodes at once; of an encoder-decoder, inputs with their beams."""
    context: int | None = Field(default=None, ge=8)
    """Tokens of prompt and completion together; by default what the model's config says. Of an
    encoder-decoder, tokens of the input alone, 1,024 by default."""
    api: Literal["chat", "completions"] = "chat"
    """For ``openai:`` addresses."""
    api_key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the key; the key itself never stands in a recipe."""
    stream: bool = False
    """Let a server send the answer piece by piece, so that long answers outlive gateways that cut silence."""
    max_retries: int = Field(default=5, ge=0)
    timeout: float = Field(default=120.0, gt=0)
    size: float | None = Field(default=None, gt=0)
    """Billions of parameters: models of several sizes get a picture of score against size."""
    price_per_million: tuple[float, float] = (0.0, 0.0)
    """Cost of a million prompt tokens and of a million completion tokens."""

    @field_validator("address")
    @classmethod
    def _no_login(cls, address: str) -> str:
        if LOGIN.search(address):
            # Said in a way that does not repeat the value: errors and run folders are written to disk.
            raise PydanticCustomError(
                LOGIN_ERROR, "a url with a name and password is refused: use api_key_env"
            )
        return address


class VoteRecipe(Section):
    """The vote of CoT-SC: many sampled chains of thought, the commonest answer (ReAct paper, section 3.2)."""

    samples: int = Field(default=21, ge=1)
    temperature: float = Field(default=0.7, gt=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int = Field(default=100, ge=1)
    """Completion tokens a sample."""


class SwitchRecipe(Section):
    """When SwiftSage hands an action over from SWIFT to SAGE.

    ``paper`` is the paper's plain rule: any of its four conditions calls SAGE. ``released`` is the richer
    rule of the public code, on which the published numbers rest.
    """

    rule: Literal["paper", "released"] = "released"
    stuck: int = Field(default=5, ge=1)
    """Steps in a row without reward that count as stuck (paper), or that may pass without one (released)."""
    critical: list[str] = Field(default=["focus on"])
    """Beginnings of actions that cannot be undone (paper)."""
    whole_words: bool = True
    """Read failure from whole words; the public code takes the ``not`` in ``nothing`` for one."""
    idle: int = Field(default=2, ge=1)
    """Passes without an action, or failed actions, that force SAGE (released)."""
    early: int = Field(default=10, ge=0)
    """SWIFT's valid actions are taken while there are fewer actions, the opening look counted (released)."""
    fresh: int = Field(default=5, ge=0)
    """… and while SAGE spoke fewer steps ago than this."""
    repeats: int = Field(default=3, ge=0)
    """… and where the action is none of the last so many."""
    planned: int = Field(default=2, ge=0)
    """SAGE is not asked again within so many steps, but SWIFT's best (released)."""
    consecutive: int = Field(default=2, ge=1)
    """Answers of SAGE's in a row after which SWIFT must act (released)."""
    focus_tries: int = Field(default=3, ge=1)
    """Times that SWIFT must want to focus before it may, where SAGE never has (released)."""


class SwiftRecipe(Section):
    """How SWIFT is asked, by itself or as the fast half of SwiftSage (Lin et al. 2023, section 3.2)."""

    model: str | None = None
    """For ``swiftsage``: a key of ``models``, or ``student``. By itself SWIFT is the entry's own model."""
    beams: int = Field(default=5, ge=1)
    """Beams searched, all of which count when an action is looked for."""
    history: int = Field(default=10, ge=1, le=99)
    """K, as the model was trained with."""
    embedder: str | None = None
    """A sentence model that finds the valid action most alike to what was written; without one, words are
    compared. A local folder, a hub id or ``package:<module>``."""
    stops_in_loops: bool = True
    """Give up where the last five actions are two in turn, as published (``swift`` alone)."""


class MethodRecipe(Section):
    """How episodes are driven."""

    name: str
    renderer: Literal["text", "chat", "tools"] = "text"
    shots: int | None = Field(default=None, ge=0)
    """Exemplars in the prompt: all by default, 0 for a fine-tuned model."""
    max_steps: int | None = Field(default=None, ge=1)
    """The environment's custom by default."""
    max_tokens: int = Field(default=100, ge=1)
    """Completion tokens a step."""
    episode_tokens: int | None = Field(default=None, ge=1)
    """Completion tokens an episode."""
    episode_seconds: float | None = Field(default=None, gt=0)
    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    format_errors: int = Field(default=2, ge=0)
    """Unreadable steps that an episode may have; one more ends it as ``format_error``."""
    vote: VoteRecipe = VoteRecipe()
    """For ``cot_sc`` and the two hybrids."""
    swift: SwiftRecipe = SwiftRecipe()
    """For ``swift`` and ``swiftsage``."""
    switch: SwitchRecipe = SwitchRecipe()
    """For ``swiftsage``."""


class PanelRecipe(Section):
    """A panel: tasks of one split, drawn by a seed, the same for ever.

    Instead of being drawn, it can be one that the environment names (``react500``) or a file of one's own.
    """

    split: Literal["train", "dev", "test"] | None = None
    size: int | None = Field(default=None, ge=1)
    seed: int = 0
    draw: Literal["hashed", "shuffled"] = "hashed"
    """``hashed`` ranks tasks by a hash of their content, kinds in turn, whatever their order in the file.
    ``shuffled`` is what published samples do: positions in the file, shuffled by ``random.Random(seed)``."""
    among: int | None = Field(default=None, ge=1)
    """For ``shuffled``: only the first so many positions are shuffled."""
    name: str | None = None
    """A panel that the environment names."""
    file: str | None = None
    """A saved panel, or a JSON list of task ids (then of ``split``)."""

    @model_validator(mode="after")
    def _one_way(self) -> PanelRecipe:
        if not (self.split or self.name or self.file):
            raise ValueError("a panel needs a split to draw from, the name of a panel, or a file")
        if self.name and self.file:
            raise ValueError("a panel has a name or a file, not both")
        return self
