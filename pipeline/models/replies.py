"""Reading what an OpenAI-compatible server answered."""

from __future__ import annotations

import json

from pydantic import BaseModel, Field, ValidationError

from pipeline.models.base import Completion, Request
from pipeline.models.wire import cut_at_stop, estimate_tokens, prompt_text
from pipeline.trajectories.files import clean_text
from pipeline.trajectories.schema import StopReason, Usage


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    """A choice of either API: ``message`` in chat, ``text`` in completions."""

    message: _Message = Field(default_factory=_Message)
    text: str | None = None
    finish_reason: str | None = None


class _Cached(BaseModel):
    cached_tokens: int | None = None


class _Counts(BaseModel):
    prompt_tokens: int | None = Field(default=None, ge=0)
    completion_tokens: int | None = Field(default=None, ge=0)
    prompt_tokens_details: _Cached | None = None


class Reply(BaseModel):
    """The part of an answer that is used; servers add what they like to it."""

    choices: list[_Choice] = Field(min_length=1)
    usage: _Counts | None = None

    def completion(
        self, request: Request, budget: int, seconds: float, prices: tuple[float, float]
    ) -> Completion:
        """The completion that the first choice stands for.

        Args:
            request: what was asked.
            budget: the number of completion tokens that the server was allowed.
            seconds: how long the call took.
            prices: cost of a million prompt tokens and of a million completion tokens.
        """
        choice = self.choices[0]
        content = choice.text if choice.text is not None else choice.message.content
        text, stopped = cut_at_stop(clean_text(content or ""), request.prompt.stop)
        counts = self.usage or _Counts()
        reason = _stop_reason(choice.finish_reason, counts.completion_tokens, budget, stopped=stopped)
        flags: list[str] = []
        if content is None:
            flags.append("truncated_in_reasoning" if reason == "length" else "no_content")
        if reason == "error":
            flags.append("content_filter")
        if counts.completion_tokens is None:
            flags.append("usage_estimated")
            counts = _Counts(
                prompt_tokens=estimate_tokens(prompt_text(request.prompt)),
                completion_tokens=estimate_tokens(content or ""),
            )
        usage = _usage(counts, seconds, prices)
        return Completion(text, reason, usage, tuple(flags))


def read_reply(text: str) -> Reply:
    """Read an answer's body.

    Raises:
        ValueError: it is no answer to a completion request; the message says why.
    """
    try:
        return Reply.model_validate(json.loads(text))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the answer"
        raise ValueError(f"{where}: {first['msg']}") from None
    except (ValueError, RecursionError):
        raise ValueError("the answer is not JSON") from None


def _stop_reason(reported: str | None, tokens: int | None, budget: int, *, stopped: bool) -> StopReason:
    if stopped:
        return "stop"
    if reported == "content_filter":
        return "error"
    # Some servers report "stop" or "tool_calls" for what the budget cut.
    if reported == "length" or (tokens is not None and tokens >= budget):
        return "length"
    return "stop"


def _usage(counts: _Counts, seconds: float, prices: tuple[float, float]) -> Usage:
    prompt, completion = counts.prompt_tokens or 0, counts.completion_tokens or 0
    cached = counts.prompt_tokens_details.cached_tokens if counts.prompt_tokens_details else None
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=cached or 0,
        calls=1,
        seconds=seconds,
        cost=(prompt * prices[0] + completion * prices[1]) / 1e6,
    )
