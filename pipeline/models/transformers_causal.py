"""Local causal models: many coroutines ask, one thread decodes them together."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import torch

from pipeline.errors import ContextLimitError, ModelError
from pipeline.models.addresses import first_line
from pipeline.models.base import Completion, Request
from pipeline.models.transformers_attention import ATTENTION
from pipeline.models.transformers_decode import Decoder, Job
from pipeline.models.transformers_load import load_causal, pick_device, pick_dtype
from pipeline.models.transformers_text import TextStream, stop_ids
from pipeline.models.transformers_thread import Worker, deliver
from pipeline.recipe.models import ModelRecipe
from pipeline.rendering import tokens

_CACHE_BYTES = 2 << 30
"""Keys and values held on a processor; a GPU gives a third of its free memory."""
_UNBOUNDED = 1 << 20
"""Tokens of context for an architecture whose config names no limit."""

Encode = Callable[..., tokens.Encoded]


@dataclass(frozen=True)
class _Forget:
    session: str


class TransformersCausal:
    """A causal model of the transformers library behind ``Model``.

    Requests are decoded together by one thread, which starts with the first of them. What an answer
    says does not depend on what else is in flight (in float32; coarser numbers may tip a tie).

    Args:
        recipe: the model's section of a recipe.
        encode: how a prompt becomes ids; the project's own function unless a test says otherwise.

    Raises:
        ModelError: the model cannot be loaded, or its attention cannot be computed here.
    """

    def __init__(self, recipe: ModelRecipe, *, encode: Encode = tokens.encode) -> None:
        self.address = recipe.address
        model, self.tokenizer = load_causal(
            recipe.address, pick_dtype(recipe.dtype), pick_device(recipe.device)
        )
        _use_shared_prefix(model, recipe.address)
        self.context = _context(model.config, recipe)
        self._encode = encode
        # Encoding sets options on a tokeniser that must not change while another thread decodes.
        self._speller = copy.deepcopy(self.tokenizer)
        self._decoder = Decoder(
            model,
            stop_ids(model, self.tokenizer),
            batch_size=recipe.batch_size,
            limit=_token_limit(model),
        )
        self._worker: Worker[Job | _Forget] = Worker(recipe.address, self._work)

    async def generate(self, request: Request) -> Completion:
        """Continue the prompt.

        Raises:
            ContextLimitError: the prompt fills the context.
            ModelError: the model is closed, or decoding failed.
        """
        future: Future[Completion] = Future()
        self._worker.send(self._job(request, future))
        return await asyncio.wrap_future(future)

    def forget(self, session: str) -> None:
        """Drop the keys and values of an episode."""
        if session:
            self._worker.tell(_Forget(session))

    async def close(self) -> None:
        """Stop the thread; requests still under way fail."""
        await self._worker.close()

    def _job(self, request: Request, future: Future[Completion]) -> Job:
        encoded = self._encode(request.prompt, self.tokenizer, generate=True)
        room = self.context - len(encoded.ids)
        if room < 1:
            raise ContextLimitError(
                f"the prompt has {len(encoded.ids)} tokens, and the context of {self.address!r} "
                f"is {self.context}"
            )
        if not encoded.ids:
            raise ModelError("the prompt is empty: there is nothing to continue")
        return Job(
            ids=list(encoded.ids),
            shared=encoded.shared,
            budget=min(request.sampling.max_tokens, room),
            sampling=request.sampling,
            seed=request.seed,
            session=request.session,
            text=TextStream(self._speller, encoded.ids[-1], request.prompt.stop),
            deliver=lambda result: deliver(future, result),
            cancelled=future.cancelled,
        )

    def _work(self) -> None:
        with torch.inference_mode():
            while (arrived := self._worker.receive(idle=self._decoder.idle)) is not None:
                try:
                    for message in arrived:
                        self._take(message)
                    self._decoder.step()
                except Exception as error:
                    self._decoder.fail(
                        ModelError(f"decoding with {self.address!r} failed: {first_line(error)}")
                    )
        self._decoder.fail(ModelError(f"model {self.address!r} was closed"))

    def _take(self, message: Job | _Forget) -> None:
        if isinstance(message, Job):
            self._decoder.add(message)
        else:
            self._decoder.forget(message.session)


def _use_shared_prefix(model: Any, address: str) -> None:
    kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"])
    fit = getattr(model, "_supports_attention_backend", False) and kinds <= {
        "full_attention",
        "sliding_attention",
    }
    if not fit:
        raise ModelError(
            f"model {address!r} ({type(model).__name__}) has layers that local decoding does not "
            "offer; serve it with an OpenAI-compatible server and give 'openai:<model>@<base url>'"
        )
    model.set_attn_implementation(ATTENTION)


def _context(config: Any, recipe: ModelRecipe) -> int:
    """Tokens of prompt and completion. Inside a sliding window, sliding attention is full attention."""
    limits = [int(getattr(config, "max_position_embeddings", None) or _UNBOUNDED)]
    window = getattr(config, "sliding_window", None)
    # Older configs name a window and no kinds of layer: every layer then slides.
    if window and "sliding_attention" in (getattr(config, "layer_types", None) or ["sliding_attention"]):
        limits.append(int(window))
    if recipe.context and recipe.context > min(limits):
        raise ModelError(f"context {recipe.context} is more than {recipe.address!r} can hold ({min(limits)})")
    return recipe.context or min(limits)


def _token_limit(model: Any) -> int:
    config = model.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    token = 2 * config.num_hidden_layers * heads * size * model.dtype.itemsize
    if model.device.type == "cuda":
        return max(1024, torch.cuda.mem_get_info(model.device)[0] // 3 // token)
    return _CACHE_BYTES // token
