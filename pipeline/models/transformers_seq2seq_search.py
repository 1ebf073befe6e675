"""Searching an encoder-decoder's answers to several inputs at once, by the library's ``generate``."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from pipeline.errors import ModelError
from pipeline.models.base import Completion, Sampling
from pipeline.models.transformers_sampling import choose
from pipeline.models.transformers_text import stop_ids
from pipeline.trajectories.schema import StopReason, Usage

Answer = list[Completion] | ModelError


@dataclass(eq=False)
class Job:
    """One request on its way: an input's ids, how many beams to search, and who waits for them."""

    ids: list[int]
    beams: int
    sampling: Sampling
    seed: int
    stops: tuple[str, ...] = ()
    future: Future[list[Completion]] = field(default_factory=Future[list[Completion]])
    began: float = field(default_factory=time.perf_counter)

    @property
    def kind(self) -> tuple[int, int]:
        """What jobs that are searched together have in common."""
        return self.beams, self.sampling.max_tokens


class Search:
    """Runs jobs on an encoder-decoder. Used by one thread only, under ``torch.inference_mode``.

    What the model's folder says about generating is not heeded, but for its special tokens: an answer
    depends on the request alone.

    Args:
        model: a transformers encoder-decoder.
        tokenizer: its own, used by nobody else.

    Raises:
        ModelError: the model does not say with which token an answer begins.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._stops = stop_ids(model, tokenizer)
        start = _start_id(model)
        # Padding is masked by length, so that any id will do where the tokeniser names none.
        self._pad: int = start if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        model.generation_config = GenerationConfig(
            decoder_start_token_id=start, eos_token_id=sorted(self._stops), pad_token_id=self._pad
        )

    def answer(self, jobs: Sequence[Job], stopped: Callable[[], bool]) -> list[Answer]:
        """The beams of jobs of one kind, best first. One beam follows its job's temperature.

        Args:
            jobs: all of one ``kind``.
            stopped: asked before every token; the search is given up when it says so.

        Raises:
            ModelError: the search was given up.
        """
        beams, tokens = jobs[0].kind
        watch = _Watch(jobs, stopped, self._model.device)
        written: torch.Tensor = self._model.generate(
            **self._inputs(jobs),
            num_beams=beams,
            num_return_sequences=beams,
            max_new_tokens=tokens,
            do_sample=False,
            logits_processor=LogitsProcessorList([watch]),
        )
        # The first id only opens the answer.
        rows: list[list[int]] = written[:, 1:].tolist()
        return [
            self._completions(job, rows[place * beams : (place + 1) * beams]) if sound else _unsound()
            for place, (job, sound) in enumerate(zip(jobs, watch.sound.tolist(), strict=True))
        ]

    def _inputs(self, jobs: Sequence[Job]) -> dict[str, torch.Tensor]:
        """Ids and mask, ``[jobs, longest]`` each, padded at the right."""
        width = max(len(job.ids) for job in jobs)
        ids = [job.ids + [self._pad] * (width - len(job.ids)) for job in jobs]
        mask = [[1] * len(job.ids) + [0] * (width - len(job.ids)) for job in jobs]
        device = self._model.device
        return {
            "input_ids": torch.tensor(ids, device=device),
            "attention_mask": torch.tensor(mask, device=device),
        }

    def _completions(self, job: Job, rows: Sequence[list[int]]) -> list[Completion]:
        found = [self._cut(row) for row in rows]
        usage = Usage(
            prompt_tokens=len(job.ids),
            completion_tokens=sum(count for _, count, _ in found),
            calls=1,
            seconds=time.perf_counter() - job.began,
        )
        return [
            self._completion(ids, reason, job.stops, Usage() if place else usage)
            for place, (ids, _, reason) in enumerate(found)
        ]

    def _cut(self, row: list[int]) -> tuple[list[int], int, StopReason]:
        """The ids before the end token, how many were written with it, and why they ended."""
        for place, token in enumerate(row):
            if token in self._stops:
                return row[:place], place + 1, "stop"
        return row, len(row), "length"

    def _completion(
        self, ids: list[int], reason: StopReason, stops: tuple[str, ...], usage: Usage
    ) -> Completion:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        places = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
        return Completion(text[: min(places)], "stop", usage) if places else Completion(text, reason, usage)


class _Watch(LogitsProcessor):
    """Sees every token's scores: notes which inputs went wrong, and draws where chance decides.

    Every input has dice of its own, so what it draws does not depend on the others.
    """

    def __init__(self, jobs: Sequence[Job], stopped: Callable[[], bool], device: torch.device) -> None:
        self.sound = torch.ones(len(jobs), dtype=torch.bool, device=device)
        self._stopped = stopped
        self._sampling = [job.sampling for job in jobs]
        self._dice = [random.Random(job.seed) for job in jobs]
        self._draws = jobs[0].beams == 1 and any(job.sampling.temperature > 0 for job in jobs)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if self._stopped():
            raise ModelError("the search was given up")
        self.sound &= torch.isfinite(scores.amax(-1)).view(len(self.sound), -1).all(-1)
        if not self._draws:
            return scores
        tokens = torch.tensor(choose(scores, self._sampling, self._dice), device=scores.device)
        return torch.full_like(scores, float("-inf")).scatter_(1, tokens[:, None], 0.0)


def _unsound() -> ModelError:
    return ModelError("the model computed no finite number; its weights or its precision are unfit")


def _start_id(model: Any) -> int:
    for settings in (model.generation_config, model.config):
        start = getattr(settings, "decoder_start_token_id", None)
        if start is not None:
            return int(start)
    raise ModelError(
        "the model's config names no decoder_start_token_id; set it (for T5 that is pad_token_id)"
    )
