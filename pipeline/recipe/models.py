"""What a recipe may say: one model a stage. Unknown keys and wrong types are refused."""

from __future__ import annotations

import re
from typing import Any, Literal, cast

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


class LoraRecipe(Section):
    """A low-rank adapter on every linear layer."""

    rank: int = Field(default=16, ge=1)
    alpha: float = Field(default=32.0, gt=0)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    quantize: Literal["nf4"] | None = None
    """Hold the base's weights in four bits (QLoRA); needs bitsandbytes."""


class ValidateRecipe(Section):
    """Episodes that intermediate checkpoints play while a student trains."""

    panel: PanelRecipe = PanelRecipe(split="dev")
    method: MethodRecipe
    concurrency: int = Field(default=16, ge=1)


class TrainRecipe(Section):
    """How to fine-tune: one student a style of ``export.styles``, on the rows that export wrote.

    Rows in the ``text`` format train the text renderer, ``messages`` and ``sharegpt`` the chat one,
    ``tools`` the one that calls tools; ``swift`` trains an encoder-decoder.
    """

    model: str = "base"
    """A key of ``models``: the model to start from. An encoder-decoder may start from nothing: its address is
    then ``new:<config.json>``, and its tokeniser is trained on the rows."""
    run: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """Train on the dataset that another run exported (its recipe's name); by default this run's."""
    styles: list[Literal["standard", "cot", "act", "react"]] | None = Field(default=None, min_length=1)
    """Which of the dataset's styles to train, one student each; by default all that were exported."""
    lora: LoraRecipe | None = None
    """None fine-tunes every weight."""
    epochs: float = Field(default=1.0, gt=0)
    max_steps: int | None = Field(default=None, ge=1)
    learning_rate: float = Field(default=1e-4, gt=0)
    schedule: str = "cosine"
    warmup: float = Field(default=0.1, ge=0)
    """A share of all steps below 1, a number of steps from 1 on."""
    weight_decay: float = Field(default=0.0, ge=0)
    rows_a_step: int | None = Field(default=None, ge=1)
    """Rows (packed: blocks) of an optimiser step over all devices; ``accumulation`` then follows from it."""
    batch_size: int = Field(default=4, ge=1)
    """Rows (packed: blocks) a device and a forward pass."""
    accumulation: int | None = Field(default=1, ge=1)
    """Forward passes of a step on each device; None where ``rows_a_step`` decides."""
    max_length: int = Field(default=1024, ge=16)
    """Tokens a row; a longer episode loses its oldest turns."""
    packing: bool = True
    label_only_head: bool = True
    """Project only labelled positions on the vocabulary."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    tracker: Literal["none", "wandb", "trackio"] = "none"
    project: str = "staract"
    log_every: int = Field(default=1, ge=1)
    save_every: int | None = Field(default=None, ge=1)
    """Steps between checkpoints, and between looks at the development set where there is a ``stop_on``."""
    keep_checkpoints: bool = False
    """Keep every checkpoint's model, under ``<style>.checkpoints``, to be compared in the end."""
    activation_checkpointing: bool | None = None
    """Compute activations twice to hold fewer; by default on a GPU, from two billion weights on."""
    target_length: int = Field(default=16, ge=2)
    """Tokens of a target, for encoder-decoders (``max_length`` is the source's)."""
    adam_epsilon: float = Field(default=1e-8, gt=0)
    validate_on: ValidateRecipe | None = None
    """Let every checkpoint play these episodes: their mean score, on the scale of the grade's reward."""
    stop_on: Literal["loss", "score"] | None = None
    """Keep the best checkpoint by development loss, or by the score of ``validate_on``, and stop early."""
    patience: int = Field(default=20, ge=1)
    """For ``stop_on``: checkpoints in a row without a better one after which training stops."""
    seed: int = 0
    accelerate: str | None = None
    """A config file of ``accelerate launch`` (a path, or a name under recipes/accelerate)."""
    processes: int | None = Field(default=None, ge=1)
    """Processes, over all machines, instead of what the config file says."""

    @model_validator(mode="before")
    @classmethod
    def _accumulation_follows(cls, given: Any) -> Any:
        # Written down as None: a recipe that is recorded and read again says the same.
        if isinstance(given, dict) and cast("dict[str, Any]", given).get("rows_a_step") is not None:
            return {"accumulation": None, **given}
        return given

    @model_validator(mode="after")
    def _one_size_of_a_step(self) -> TrainRecipe:
        if self.rows_a_step is not None and self.accumulation is not None:
            raise ValueError("rows_a_step decides the accumulation: set one of the two")
        return self

    @model_validator(mode="after")
    def _something_to_stop_on(self) -> TrainRecipe:
        if self.stop_on and not self.save_every:
            raise ValueError("stop_on compares checkpoints: set save_every as well")
        if self.keep_checkpoints and not self.save_every:
            raise ValueError("keep_checkpoints keeps what is saved: set save_every as well")
        if self.stop_on == "score" and self.validate_on is None:
            raise ValueError("stop_on: score needs validate_on, the episodes to be played")
        return self


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
