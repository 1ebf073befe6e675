"""How much memory a device needs while a student is trained, part by part."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from pipeline.recipe.models import TrainRecipe
from pipeline.training.layout import accumulation
from pipeline.training.plan.sharding import Sharding
from pipeline.training.plan.student import Base, Counts
from pipeline.training.plan.trace import Activations, Work, trace
from pipeline.training.trainer import CHECKPOINTED_FROM

MASTER, MOMENTS = 4, 8
"""Bytes a trained weight: the float32 weight that the optimiser moves, and AdamW's two moments."""
LIVE: Final = 1_000_000_000
"""Weights that stage 3 keeps gathered at most (DeepSpeed's ``stage3_max_live_parameters``)."""
BUCKET: Final = 500_000_000
"""Gradients that DeepSpeed reduces at a time (``reduce_bucket_size``)."""
SUBGROUP: Final = 1_000_000_000
"""Weights that stage 3 updates at a time (``sub_group_size``)."""
NF4: Final = 0.5 + 1 / 64 + 4 / (64 * 256)
"""Bytes of a weight in four bits: 64 share a byte of scale, 256 such bytes a float32 (QLoRA, section 3)."""
CONTEXT: Final = 1.0e9
"""Bytes of the CUDA context, its kernels and the workspace of matrix products: a customary figure."""
COLLECTIVES: Final = 1.0e9
"""Bytes of NCCL's buffers, where there are several GPUs: a customary figure."""
FRAGMENTATION: Final = 0.05
"""Share of the tensors' bytes that the allocator cannot use: a customary figure."""


@dataclass(frozen=True)
class Memory:
    """Bytes on one device at the worst moment of a step, and on the host of all devices.

    ``reference`` is a frozen copy of the model that preferences are measured against. ``gradients`` are those
    that are there at that moment. ``reserve`` is fragmentation, the CUDA context
    and NCCL together.
    """

    weights: float
    reference: float
    gradients: float
    optimizer: float
    communication: float
    gathered: float
    activations: float
    reserve: float
    host: float = 0.0

    @property
    def tensors(self) -> float:
        """What torch itself allocates."""
        held = self.weights + self.reference + self.gradients + self.optimizer
        return held + self.communication + self.gathered + self.activations

    @property
    def total(self) -> float:
        """All of it, on one device."""
        return self.tensors + self.reserve

    def as_dict(self) -> dict[str, float]:
        """The parts and their sum, by name."""
        return {**asdict(self), "total": self.total}


def checkpoints(counts: Counts, train: TrainRecipe) -> bool:
    """Whether training will compute activations twice on a GPU: the recipe's word, or by the model's size."""
    asked = train.activation_checkpointing
    return counts.total >= CHECKPOINTED_FROM if asked is None else asked


def work_of(
    train: TrainRecipe, sharding: Sharding, *, labelled: float, checkpointing: bool, gpu: bool = True
) -> Work:
    """The pass that a device makes: every row as long as the recipe allows. A pair is two rows.

    Args:
        train: how to train.
        sharding: decides in which precision the weights are used.
        labelled: share of tokens that are labels.
        checkpointing: compute activations twice.
        gpu: whether the device is one; a processor computes in float32 here.
    """
    half = gpu and train.dtype != "float32"
    # DeepSpeed and FSDP compute with bfloat16 weights; torch alone casts float32 ones as it goes.
    uniform = half and sharding.engine != "torch"
    return Work(
        batch=train.batch_size * (2 if train.dpo else 1),
        length=train.max_length,
        target=train.target_length,
        packing=train.packing,
        label_only=train.label_only_head,
        labelled=labelled,
        lora=train.lora,
        half=uniform or (half and train.lora is not None),
        autocast=half and not uniform,
        uniform=uniform,
        checkpointing=checkpointing,
        preference=train.dpo is not None,
        gpu=gpu,
    )


def memory(
    base: Base, counts: Counts, train: TrainRecipe, work: Work, sharding: Sharding, gpus: int
) -> Memory:
    """The memory that each device needs.

    Raises:
        ModelError: the model cannot be traced.
    """
    return memory_of(counts, trace(base, work), work, sharding, gpus, accumulation(train, gpus))


def memory_of(
    counts: Counts, pass_: Activations, work: Work, sharding: Sharding, gpus: int, passes: int
) -> Memory:
    """As ``memory``, from an ``Activations`` that is known.

    Args:
        counts: parameters.
        pass_: bytes of one forward and backward pass.
        work: that pass.
        sharding: what is split.
        gpus: over how many.
        passes: of an optimiser step.
    """
    split = {"torch": _plain, "deepspeed": _deepspeed, "fsdp": _fsdp}[sharding.engine]
    part = split(counts, pass_, work, sharding, gpus, passes)
    if not work.gpu:
        return part
    around = CONTEXT + (COLLECTIVES if gpus > 1 else 0.0)
    return Memory(**{**asdict(part), "reserve": around + FRAGMENTATION * part.tensors})


def _plain(counts: Counts, pass_: Activations, work: Work, _: Sharding, gpus: int, passes: int) -> Memory:
    """Everything on every device; DDP adds a second copy of the gradients, which it sends."""
    frozen = counts.total - counts.trained
    size = 2 if work.half else 4
    # A matrix in four bits is unpacked when it is used, one at a time.
    four = work.lora is not None and work.lora.quantize is not None
    packed, unpacked = (counts.linear, size * counts.matrix) if four else (0, 0)
    gradients = 4.0 * counts.trained
    if passes == 1:
        # They come while activations go: what counts is the worst moment of both together.
        gradients = max(gradients, float(pass_.growing)) - pass_.peak
    return Memory(
        weights=4.0 * counts.trained + NF4 * packed + size * (frozen - packed),
        reference=4.0 * _compared(counts, work),
        gradients=gradients,
        optimizer=float(MOMENTS * counts.trained),
        communication=4.0 * counts.trained if gpus > 1 else 0.0,
        gathered=float(unpacked),
        activations=float(pass_.peak),
        reserve=0.0,
    )


def _deepspeed(
    counts: Counts, pass_: Activations, work: Work, sharding: Sharding, gpus: int, _: int
) -> Memory:
    """Stage 2 splits gradients and optimiser, stage 3 the weights as well."""
    size = 2 if work.half else 4
    share = counts.trained / gpus
    split = sharding.stage == 3
    weights = size * counts.total / (gpus if split else 1)
    # A single device has nothing to gather, unless its weights lie on the host.
    gathers = split and (gpus > 1 or sharding.offload_weights)
    gathered = size * min(counts.total, max(LIVE, counts.embedding)) if gathers else 0
    states = (MASTER + MOMENTS) * share
    # The update turns gradients to float32, when the activations are gone.
    update = 0.0 if sharding.offload_optimizer else MASTER * (min(share, SUBGROUP) if split else share)
    host = gpus * (states + MASTER * share) if sharding.offload_optimizer else 0.0
    return Memory(
        weights=0.0 if sharding.offload_weights else weights,
        # TRL gives the copy a config without offloading.
        reference=size * _compared(counts, work) / (gpus if split else 1),
        gradients=0.0 if sharding.offload_optimizer else size * share,
        optimizer=0.0 if sharding.offload_optimizer else states,
        communication=float(size * min(BUCKET, counts.trained)),
        gathered=float(gathered),
        activations=max(float(pass_.peak), update - gathered),
        reserve=0.0,
        host=host + (gpus * weights if sharding.offload_weights else 0.0),
    )


def _fsdp(counts: Counts, pass_: Activations, work: Work, _: Sharding, gpus: int, __: int) -> Memory:
    """Float32 shards of everything; two blocks at a time are gathered, and what is outside of blocks."""
    size = 2 if work.half else 4
    frozen = counts.total - counts.trained
    gathered = size * min(counts.total, counts.rest + 2 * counts.layer) if gpus > 1 else 0
    trained = counts.trained / counts.total
    return Memory(
        weights=(4.0 * counts.trained + size * frozen) / gpus,
        reference=4.0 * _compared(counts, work) / gpus,
        gradients=4.0 * counts.trained / gpus,
        optimizer=MOMENTS * counts.trained / gpus,
        communication=2 * size * trained * max(counts.rest, counts.layer) if gpus > 1 else 0.0,
        gathered=float(gathered),
        activations=float(pass_.peak),
        reserve=0.0,
    )


def _compared(counts: Counts, work: Work) -> int:
    """The weights of the copy that preferences are measured against; an adapter is left out instead."""
    return counts.total if work.preference and work.lora is None else 0
