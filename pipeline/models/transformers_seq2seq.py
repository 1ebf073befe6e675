"""Local encoder-decoder models (T5): many coroutines ask, one thread searches answers together."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from pipeline.errors import ContextLimitError, FormatError, ModelError
from pipeline.models.addresses import first_line
from pipeline.models.base import Completion, Request
from pipeline.models.transformers_load import load_seq2seq, pick_device, pick_dtype
from pipeline.models.transformers_seq2seq_search import Answer, Job, Search
from pipeline.models.transformers_thread import Worker, deliver
from pipeline.recipe.models import ModelRecipe
from pipeline.rendering.base import ChatPrompt
from pipeline.rendering.seq2seq_ids import encode_source

CONTEXT = 1024
"""Ids of an input where the recipe names no context: T5 itself has no limit (specification 4.4)."""


class TransformersSeq2Seq:
    """An encoder-decoder of the transformers library behind ``Model``, with beam search.

    Requests that wait with the same number of beams and the same budget are answered together, up to the
    recipe's ``batch_size`` inputs at once, each of which the encoder reads once. What an answer says does
    not depend on what else is in flight (in float32; coarser numbers may tip a tie). ``context`` limits
    the input alone; a longer input of SWIFT's loses its oldest history.

    Args:
        recipe: the model's section of a recipe.

    Raises:
        ModelError: the model cannot be loaded, or is no encoder-decoder.
    """

    def __init__(self, recipe: ModelRecipe) -> None:
        self.address = recipe.address
        model, self.tokenizer = load_seq2seq(
            recipe.address, pick_dtype(recipe.dtype), pick_device(recipe.device)
        )
        if self.tokenizer.eos_token_id is None:
            raise ModelError(f"the tokeniser of {recipe.address!r} has no end token; give it an eos_token")
        self.context = _context(model.config, recipe)
        self._batch_size = recipe.batch_size
        # Encoding sets options on a tokeniser that must not change while another thread decodes.
        self._search = Search(model, copy.deepcopy(self.tokenizer))
        self._worker: Worker[Job] = Worker(recipe.address, self._work)

    async def generate(self, request: Request) -> Completion:
        """Answer the prompt: greedily, or by the request's temperature and seed.

        Raises:
            ContextLimitError: the prompt does not fit and cannot be cut.
            ModelError: the prompt is a conversation, the model is closed, or the search failed.
        """
        return (await self._ask(request, 1))[0]

    async def beams(self, request: Request, count: int) -> list[Completion]:
        """The likeliest answers that a search with ``count`` beams finds, best first.

        A search has no use for a temperature: it is left out of account. The first answer bears the usage
        of all: completion tokens are those of all beams returned.

        Raises:
            ContextLimitError: the prompt does not fit and cannot be cut.
            ModelError: the prompt is a conversation, the model is closed, or the search failed.
        """
        return await self._ask(replace(request, sampling=replace(request.sampling, temperature=0.0)), count)

    def forget(self, session: str) -> None:
        """Nothing is kept between the steps of an episode."""

    async def close(self) -> None:
        """Stop the thread; requests still under way fail."""
        await self._worker.close()

    async def _ask(self, request: Request, count: int) -> list[Completion]:
        ids = self._encode(request)
        job = Job(ids, count, request.sampling, request.seed, request.prompt.stop)
        self._worker.send(job)
        return await asyncio.wrap_future(job.future)

    def _encode(self, request: Request) -> list[int]:
        prompt = request.prompt
        if isinstance(prompt, ChatPrompt):
            raise ModelError(
                f"{self.address!r} is an encoder-decoder, which takes plain text: choose a method that asks "
                "in text, such as swift, or a chat model"
            )
        try:
            ids = encode_source(self.tokenizer, prompt.text, self.context)
        except FormatError as error:
            raise ContextLimitError(
                f"the prompt exceeds the {self.context} tokens that {self.address!r} reads, and only inputs "
                "of SWIFT's can be cut"
            ) from error
        if len(ids) < 2:
            raise ModelError("the prompt is empty: there is nothing to answer")
        return ids

    def _work(self) -> None:
        waiting: list[Job] = []
        with torch.inference_mode():
            while (arrived := self._worker.receive(idle=not waiting)) is not None:
                waiting = [job for job in (*waiting, *arrived) if not job.future.cancelled()]
                together = [job for job in waiting if job.kind == waiting[0].kind][: self._batch_size]
                waiting = [job for job in waiting if job not in together]
                if together:
                    self._answer(together)
        for job in waiting:
            deliver(job.future, self._closed())

    def _answer(self, jobs: Sequence[Job]) -> None:
        def stopped() -> bool:
            return self._worker.closed or all(job.future.cancelled() for job in jobs)

        answers: Sequence[Answer]
        try:
            answers = self._search.answer(jobs, stopped)
        except Exception as error:
            failure = ModelError(f"searching with {self.address!r} failed: {first_line(error)}")
            answers = [self._closed() if self._worker.closed else failure] * len(jobs)
        for job, answer in zip(jobs, answers, strict=True):
            deliver(job.future, answer)

    def _closed(self) -> ModelError:
        return ModelError(f"model {self.address!r} was closed")


def _context(config: Any, recipe: ModelRecipe) -> int:
    """Ids of an input. T5 knows relative places only; others end where their positions do."""
    limit = int(getattr(config, "max_position_embeddings", None) or 0)
    if limit and recipe.context and recipe.context > limit:
        raise ModelError(f"context {recipe.context} is more than {recipe.address!r} can hold ({limit})")
    return recipe.context or min(limit or CONTEXT, CONTEXT)
