"""Reading an answer that comes in pieces: server-sent events of either API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from typing import Any

import openai
from pydantic import BaseModel, Field, ValidationError

from pipeline.models.replies import Choice, Counts, Message, Reply, first_problem
from pipeline.trajectories.files import clean_text

_PATIENCE = 0.25
"""Seconds to read on after the last stop string: a server that stopped there sends its count at once."""


class BrokenStream(Exception):
    """The answer broke off: nothing of it counts, and asking again may help."""


class _Piece(BaseModel):
    """What a chunk adds to one choice: ``delta`` in chat, ``text`` in completions."""

    index: int = Field(default=0, ge=0)
    delta: Message | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Chunk(BaseModel):
    choices: list[_Piece] | None = None
    usage: Counts | None = None


class StreamedAnswer:
    """What has come so far.

    Args:
        count: how many choices were asked for.
        stops: the strings that end a choice, whatever the server does about them.
    """

    def __init__(self, count: int = 1, stops: Collection[str] = ()) -> None:
        self._count = count
        self._stops = stops
        self._choices: dict[int, _Pieces] = {}
        self._usage: Counts | None = None

    def add(self, chunk: Any) -> None:
        """Take a chunk, decoded from JSON.

        Raises:
            ValueError: it is none.
        """
        try:
            read = _Chunk.model_validate(chunk)
        except ValidationError as error:
            raise ValueError(first_problem(error)) from None
        # Some servers count in every chunk: the last count is the whole.
        self._usage = read.usage or self._usage
        for piece in read.choices or ():
            self._choices.setdefault(piece.index, _Pieces()).add(piece, self._stops)

    @property
    def finished(self) -> bool:
        """Whether every choice that has begun has ended."""
        return bool(self._choices) and all(choice.ended for choice in self._choices.values())

    @property
    def overruns(self) -> bool:
        """Whether all that is wanted is there, but the server has not said that it stopped."""
        said = all(choice.finish is not None for choice in self._choices.values())
        return self.finished and len(self._choices) >= self._count and not said

    def reply(self) -> Reply:
        """The whole answer.

        Raises:
            BrokenStream: a choice did not end, or there is none.
        """
        if not self.finished:
            raise BrokenStream("the stream ended in the middle of the answer")
        ordered = [self._choices[index].choice() for index in sorted(self._choices)]
        return Reply(choices=ordered, usage=self._usage)


@dataclass
class _Call:
    """A tool call, put together."""

    index: object
    identity: object
    function: dict[str, Any] = field(default_factory=dict[str, Any])


class _Pieces:
    """One choice, put together."""

    def __init__(self) -> None:
        self.ended = False
        self.finish: str | None = None
        self._content: str | None = None
        self._hidden = ""
        self._calls: list[_Call] = []
        self._legacy: dict[str, Any] | None = None

    def add(self, piece: _Piece, stops: Collection[str]) -> None:
        delta = piece.delta or Message()
        said = piece.text if piece.text is not None else delta.content
        if said is not None:
            self._say(said, stops)
        if isinstance(delta.reasoning_content, str):
            self._hidden += delta.reasoning_content
        for number, call in enumerate(delta.tool_calls if isinstance(delta.tool_calls, list) else []):
            self._call(call, number)
        if isinstance(delta.function_call, dict):
            self._legacy = self._legacy or {}
            _extend(self._legacy, delta.function_call)
        if piece.finish_reason is not None:
            self.finish, self.ended = piece.finish_reason, True

    def choice(self) -> Choice:
        message = Message(
            content=self._content,
            reasoning_content=self._hidden or None,
            tool_calls=[{"function": call.function} for call in self._calls] or None,
            function_call=self._legacy,
        )
        return Choice(message=message, finish_reason=self.finish)

    def _say(self, said: str, stops: Collection[str]) -> None:
        before = self._content or ""
        self._content = before + said
        for stop in stops:
            if stop and self._content.find(stop, max(0, len(before) - len(stop) + 1)) >= 0:
                self.ended = True

    def _call(self, call: Any, number: int) -> None:
        function: Any = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            return
        index, identity = call.get("index", number), call.get("id")
        known = next((other for other in reversed(self._calls) if other.index == index), None)
        # Some servers number every call 0: a name under another id begins the next one.
        if known is None or (function.get("name") and identity != known.identity):
            known = _Call(index, identity)
            self._calls.append(known)
        _extend(known.function, function)


def _extend(known: dict[str, Any], piece: dict[str, Any]) -> None:
    """Add a piece of a function: the name comes once, the arguments bit by bit (or as one object)."""
    known["name"] = known.get("name") or piece.get("name")
    arguments, more = known.get("arguments"), piece.get("arguments")
    if isinstance(arguments, str) and isinstance(more, str):
        known["arguments"] = arguments + more
    elif more is not None:
        known["arguments"] = more


async def read_stream(events: AsyncIterator[Any], answer: StreamedAnswer) -> Reply:
    """Read events until the answer is whole: its end, or a little after the last stop string.

    Raises:
        BrokenStream: the connection was cut, fell silent, or the answer has no end.
        ValueError: an event is no chunk of a completion.
        openai.APIError: the server reported an error of the request's own making.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as patience:
            async for chunk in events:
                answer.add(chunk)
                if not answer.overruns:
                    patience.reschedule(None)
                elif patience.when() is None:
                    patience.reschedule(loop.time() + _PATIENCE)
    except TimeoutError:
        return answer.reply()
    except openai.APIConnectionError as error:
        # What is lost after the end is a count at most.
        if not answer.finished:
            raise BrokenStream(clean_text(str(error.__cause__ or error))) from None
    except RecursionError:
        raise ValueError("a chunk is not JSON") from None
    return answer.reply()
