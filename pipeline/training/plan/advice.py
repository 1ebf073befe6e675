"""What would make a recipe fit, tried by the same model that says it does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipeline.recipe.models import LoraRecipe, TrainRecipe
from pipeline.training.plan.plan import Machine, Plan, gigabytes, make_plan
from pipeline.training.plan.sharding import SHARDINGS, Sharding

_LADDER = ("zero2", "zero3", "zero3_offload")
"""Ways to split, each of which needs less than the one before."""


@dataclass(frozen=True)
class Change:
    """Another way to train the same; ``words`` is what to add to the command."""

    words: str
    train: TrainRecipe
    sharding: Sharding


def refusal(plan: Plan) -> str:
    """One sentence: why a plan does not fit, and the first change that makes it fit."""
    gpu = plan.machine.gpu
    needs = f"{gigabytes(plan.memory.total)} GB a GPU are needed and {gigabytes(gpu.memory)} are there"
    for change in changes(plan):
        machine: Machine = replace(plan.machine, sharding=change.sharding)
        other = make_plan(plan.base, change.train, plan.data, machine)
        if other.fits:
            return (
                f"does not fit: {needs}; with {change.words} it would take {gigabytes(other.memory.total)} GB"
            )
    return (
        f"does not fit: {needs}, and no smaller batch, sharding or adapter helps; take GPUs with more "
        "memory, more of them, a smaller model or a smaller train.max_length"
    )


def changes(plan: Plan) -> Iterator[Change]:
    """What to try, the gentlest first: smaller passes, more splitting, both, an adapter, a base in four bits.

    Rows a step stay what they are. Computing activations twice is no choice: training decides on it by
    the model's size.
    """
    train, sharding = plan.train, plan.machine.sharding
    stronger = [] if _in_four_bits(train) else _stronger(sharding, plan.machine.gpus)
    yield from _smaller(train, sharding, "")
    for other in stronger:
        yield Change(f"train.accelerate={other.name}", train, other)
        yield from _smaller(train, other, f"train.accelerate={other.name}")
    if plan.base.encoder_decoder or _in_four_bits(train):
        return
    if train.lora is None:
        yield from _adapters(train, [sharding, *stronger])
    yield from _four_bits(train, sharding, plan.machine.gpus)


def _in_four_bits(train: TrainRecipe) -> bool:
    return train.lora is not None and train.lora.quantize is not None


def _adapters(train: TrainRecipe, shardings: list[Sharding]) -> Iterator[Change]:
    adapter = train.model_copy(update={"lora": LoraRecipe()})
    for other in shardings:
        words = f"train.lora.rank={LoraRecipe().rank}"
        words += f" train.accelerate={other.name}" if other is not shardings[0] else ""
        yield Change(words, adapter, other)
        yield from _smaller(adapter, other, words)


def _four_bits(train: TrainRecipe, sharding: Sharding, gpus: int) -> Iterator[Change]:
    """Every device holds such a base whole."""
    lora = (train.lora or LoraRecipe()).model_copy(update={"quantize": "nf4"})
    words = ("" if train.lora else f"train.lora.rank={lora.rank} ") + "train.lora.quantize=nf4"
    if sharding.engine != "torch":
        sharding = SHARDINGS["ddp" if gpus > 1 else "none"]
        words += f" train.accelerate={'ddp' if gpus > 1 else 'single_gpu'}"
    packed = train.model_copy(update={"lora": lora})
    yield Change(words, packed, sharding)
    yield from _smaller(packed, sharding, words)


def _smaller(train: TrainRecipe, sharding: Sharding, words: str) -> Iterator[Change]:
    """Fewer rows a pass and as many more passes a step."""
    for size in range(train.batch_size - 1, 0, -1):
        if train.batch_size % size:
            continue
        update = {"batch_size": size}
        if train.rows_a_step is None:
            update["accumulation"] = (train.accumulation or 1) * (train.batch_size // size)
        said = " ".join([words, *(f"train.{key}={value}" for key, value in update.items())]).strip()
        yield Change(said, train.model_copy(update=update), sharding)


def _stronger(sharding: Sharding, gpus: int) -> list[Sharding]:
    """Splitting over one GPU spares nothing; its host can still hold the optimiser."""
    names = _LADDER if gpus > 1 else _LADDER[-1:]
    if sharding.offload_optimizer and sharding.offload_weights:
        return []
    done = {"fsdp2": "zero3"}.get(sharding.name) or (f"zero{sharding.stage}" if sharding.stage else "")
    return [SHARDINGS[name] for name in names[names.index(done) + 1 if done in names else 0 :]]
