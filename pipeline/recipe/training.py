"""What a recipe says about fine-tuning."""

from __future__ import annotations

from typing import Any, Literal, cast

from pydantic import Field, model_validator

from pipeline.recipe.sections import MethodRecipe, PanelRecipe, Section


class LoraRecipe(Section):
    """A low-rank adapter on every linear layer."""

    rank: int = Field(default=16, ge=1)
    alpha: float = Field(default=32.0, gt=0)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    quantize: Literal["nf4"] | None = None
    """Hold the base's weights in four bits (QLoRA); needs bitsandbytes."""


class DpoRecipe(Section):
    """Direct preference optimisation (Rafailov et al. 2023) on pairs that ``export.pairs`` wrote."""

    beta: float = Field(default=0.1, gt=0)
    """How dear it is to leave the model that training starts from."""
    loss: Literal["sigmoid", "ipo", "hinge"] = "sigmoid"
    imitate: float = Field(default=0.0, ge=0)
    """Weight of a plain imitation loss on the better half."""


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
    dpo: DpoRecipe | None = None
    """Prefer instead of imitate: ``model`` is then a student, whom the pairs correct."""
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
