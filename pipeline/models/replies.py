"""Reading what an OpenAI-compatible server answered."""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from pipeline.models.base import Completion, Request
from pipeline.models.wire import cut_at_stop, estimate_tokens, prompt_text
from pipeline.trajectories.files import clean_text
from pipeline.trajectories.schema import StopReason, Usage


class Message(BaseModel):
    """An assistant message, or one piece of it. What may have any shape is read later."""

    content: str | None = None
    reasoning_content: Any = None
    """Thinking that some servers report apart: counted, never shown."""
    tool_calls: Any = None
    function_call: Any = None
    """The single call of older servers."""


class Choice(BaseModel):
    """A choice of either API: ``message`` in chat, ``text`` in completions."""

    message: Message = Field(default_factory=Message)
    text: str | None = None
    finish_reason: str | None = None


class _Cached(BaseModel):
    cached_tokens: int | None = Field(default=None, ge=0)


class Counts(BaseModel):
    """The tokens of one call, all its choices together."""

    prompt_tokens: int | None = Field(default=None, ge=0)
    completion_tokens: int | None = Field(default=None, ge=0)
    prompt_tokens_details: _Cached | None = None


class Reply(BaseModel):
    """The part of an answer that is used; servers add what they like to it."""

    choices: list[Choice] = Field(min_length=1)
    usage: Counts | None = None

    def completions(
        self, request: Request, count: int, budget: int, seconds: float, prices: tuple[float, float]
    ) -> list[Completion]:
        """The completions that the first ``count`` choices stand for.

        What belongs to the call (its prompt, its time) is counted in the first; completion tokens are
        shared out by length. The sum is what the server reported.

        Args:
            request: what was asked.
            count: how many choices were asked for; the answer may have fewer.
            budget: the number of completion tokens that the server was allowed a choice.
            seconds: how long the call took.
            prices: cost of a million prompt tokens and of a million completion tokens.
        """
        written = [_Written(choice) for choice in self.choices[:count]]
        lengths = [choice.estimate for choice in written]
        counts = self.usage or Counts()
        flags = () if counts.completion_tokens is not None else ("usage_estimated",)
        if counts.completion_tokens is None:
            counts = Counts(
                prompt_tokens=estimate_tokens(prompt_text(request.prompt)), completion_tokens=sum(lengths)
            )
        total = counts.completion_tokens or 0
        # Of several choices only the sum is known: it tells of a cut when every choice was cut.
        full = not flags and total >= budget * len(self.choices)
        usages = _usages(counts, _shares(total, lengths), seconds, prices)
        return [
            choice.completion(request.prompt.stop, usage, flags, full=full)
            for choice, usage in zip(written, usages, strict=True)
        ]


class _Written:
    """What one choice says."""

    def __init__(self, choice: Choice) -> None:
        message = choice.message
        self._finish = choice.finish_reason
        self._content = choice.text if choice.text is not None else message.content
        self._calls, self._unread = _calls(message)
        hidden = message.reasoning_content
        pieces = [self._content or "", *self._calls, hidden if isinstance(hidden, str) else ""]
        self.estimate = sum(map(estimate_tokens, pieces))

    def completion(
        self, stops: tuple[str, ...], usage: Usage, flags: tuple[str, ...], *, full: bool
    ) -> Completion:
        """The completion; ``full`` says that the budget was used up."""
        # Stops end what is said: the arguments of a call may hold any text.
        text, stopped = cut_at_stop(clean_text(self._content or ""), stops)
        reason = _stop_reason(self._finish, full=full, stopped=stopped)
        own: list[str] = []
        if self._content is None and not self._calls:
            own.append("truncated_in_reasoning" if reason == "length" else "no_content")
        if self._unread:
            own.append("malformed_call")
            # A server that did not count may have cut the call without saying so.
            reason = "length" if "usage_estimated" in flags else reason
        if reason == "error":
            own.append("content_filter")
        parts = [text, *self._calls] if text else self._calls
        return Completion("\n".join(parts), reason, usage, (*own, *flags))


def read_reply(text: str) -> Reply:
    """Read an answer's body.

    Raises:
        ValueError: it is no answer to a completion request; the message says why.
    """
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("the answer is not JSON") from None
    return as_reply(value)


def as_reply(value: Any) -> Reply:
    """An answer, decoded from JSON. Raises ``ValueError`` as ``read_reply`` does."""
    try:
        return Reply.model_validate(value)
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None


def first_problem(error: ValidationError) -> str:
    """Where an answer is wrong first, and why, without what it holds."""
    first = error.errors(include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the answer"
    return f"{where}: {first['msg']}"


def _calls(message: Message) -> tuple[list[str], bool]:
    """The calls of a message as text, and whether one of them could not be read."""
    if message.tool_calls is None and message.function_call is None:
        return [], False
    from pipeline.models.calls import call_text, called_functions

    read = [call_text(call) for call in called_functions(message.tool_calls, message.function_call)]
    return [text for text, _ in read], not all(known for _, known in read)


def _stop_reason(reported: str | None, *, full: bool, stopped: bool) -> StopReason:
    if stopped:
        return "stop"
    if reported == "content_filter":
        return "error"
    # Some servers report "stop" or "tool_calls" for what the budget cut.
    return "length" if reported == "length" or full else "stop"


def _shares(total: int, lengths: list[int]) -> list[int]:
    """``total`` divided in proportion to lengths, exactly; all to the first where nothing was written."""
    whole = sum(lengths)
    if not whole:
        return [total, *[0] * (len(lengths) - 1)]
    ends = [total * part // whole for part in accumulate(lengths, initial=0)]
    return [after - before for before, after in pairwise(ends)]


def _usages(counts: Counts, shares: list[int], seconds: float, prices: tuple[float, float]) -> list[Usage]:
    """One usage a completion; the first bears what belongs to the call."""
    prompt = counts.prompt_tokens or 0
    cached = (counts.prompt_tokens_details or _Cached()).cached_tokens or 0
    usages = [Usage(completion_tokens=share, cost=share * prices[1] / 1e6) for share in shares]
    usages[0] += Usage(
        prompt_tokens=prompt, cached_tokens=cached, calls=1, seconds=seconds, cost=prompt * prices[0] / 1e6
    )
    return usages
