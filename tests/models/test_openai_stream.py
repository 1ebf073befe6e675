"""Answers that come in pieces, whole and broken."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pipeline.errors import ContextLimitError, ModelError, QuotaError
from pipeline.models import openai as client
from pipeline.models.base import Completion
from pipeline.models.openai import OpenAIModel
from tests.models.asking import ask, ask_for, recipe, text_prompt, total
from tests.models.server import (
    DONE,
    Answer,
    chat,
    counted,
    delta,
    event,
    failure,
    serving,
    several,
    stream,
)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_PAUSES", (0.01,))


def whole() -> Answer:
    return stream(delta(role="assistant"), delta(" sea"), delta("rch"), delta(finish="stop"), counted(), DONE)


def streamed(respond: Callable[[], Answer], **fields: Any) -> tuple[Completion, int]:
    stop = fields.pop("stop", ())
    with serving(lambda _: respond()) as server:
        found = ask(OpenAIModel(recipe(server, stream=True, **fields)), text_prompt(stop=stop))
    return found, len(server.requests)


def same(one: Completion, other: Completion) -> bool:
    return (one.text, one.stop_reason, one.flags, one.usage.model_copy(update={"seconds": 0})) == (
        other.text,
        other.stop_reason,
        other.flags,
        other.usage.model_copy(update={"seconds": 0}),
    )


def test_a_stream_says_what_one_piece_would() -> None:
    prices = {"price_per_million": (10.0, 20.0)}
    with serving(lambda asked: whole() if asked.get("stream") else chat(" search")) as server:
        pieces = ask(OpenAIModel(recipe(server, stream=True, **prices)))
        piece = ask(OpenAIModel(recipe(server, **prices)))
    assert server.requests[0]["stream"] is True
    assert server.requests[0]["stream_options"] == {"include_usage": True}
    assert pieces.text == " search"
    assert same(pieces, piece)


def test_several_choices_are_streamed_side_by_side() -> None:
    pieces = [delta(f"{index}", index=index) for index in (2, 0, 1)]
    pieces += [delta("b", "stop", index=1), delta("a", "stop", index=0), delta("c", "length", index=2)]
    with serving(lambda _: stream(*pieces, counted(10, 15), DONE)) as server:
        found = ask_for(OpenAIModel(recipe(server, stream=True)), 3)
    assert [sent["n"] for sent in server.requests] == [3]
    assert [one.text for one in found] == ["0a", "1b", "2c"]
    assert [one.stop_reason for one in found] == ["stop", "stop", "length"]
    assert (total(found).completion_tokens, total(found).calls) == (15, 1)


def test_the_completions_api_streams_too() -> None:
    pieces = [event({"choices": [{"index": 0, "text": text, "finish_reason": None}]}) for text in "ab"]
    last = event({"choices": [{"text": "", "finish_reason": "stop"}], "usage": {"completion_tokens": 2}})
    found, _ = streamed(lambda: stream(*pieces, last), api="completions")
    assert (found.text, found.usage.completion_tokens, found.flags) == ("ab", 2, ())


def test_a_stream_without_a_count_is_estimated() -> None:
    found, _ = streamed(lambda: stream(delta("12345678", "stop"), DONE))
    assert (found.text, found.usage.completion_tokens) == ("12345678", 2)
    assert found.flags == ("usage_estimated",)


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_without_stream_options_is_asked_without(status: int) -> None:
    def respond(asked: dict[str, Any]) -> Answer:
        refused = "stream_options" in asked
        return failure(status, "Unexpected fields in the request: {'stream_options'}") if refused else whole()

    with serving(respond) as server:
        found = ask_for(OpenAIModel(recipe(server, stream=True)), 1, times=2)
    assert ["stream_options" in sent for sent in server.requests] == [True, False, False]
    assert [one.flags for one in found] == [(), ()]


def test_a_server_that_knows_no_streams_answers_in_one_piece() -> None:
    def refuse(asked: dict[str, Any]) -> Answer:
        return failure(400, "Unsupported", param="stream") if "stream" in asked else several(["a", "b"])

    with serving(refuse) as server:
        assert len(ask_for(OpenAIModel(recipe(server, stream=True)), 2)) == 2
    assert "stream_options" not in server.requests[1]
    with serving(lambda _: chat("deaf")) as server:
        assert ask(OpenAIModel(recipe(server, stream=True))).text == "deaf"


def test_a_stop_string_ends_the_reading() -> None:
    """It may come in pieces, and the server may never stop by itself."""
    pieces = [delta(" search\nObs"), delta("ervation 1: made up")]
    with serving(lambda _: stream(*pieces, endless=delta(" more"))) as server:
        start = time.monotonic()
        found = ask(OpenAIModel(recipe(server, stream=True)), text_prompt(stop=("\nObservation 1:",)))
        assert time.monotonic() - start < 5
    assert (found.text, found.stop_reason, found.flags) == (" search", "stop", ("usage_estimated",))
    assert len(server.abandoned) == 1
    assert server.abandoned[0] < 5000


def test_a_stop_string_that_the_server_left_in_is_cut_and_counted() -> None:
    found, _ = streamed(lambda: stream(delta("a STOP"), delta("", "stop"), counted(), DONE), stop=("STOP",))
    assert (found.text, found.usage.completion_tokens, found.flags) == ("a ", 5, ())


def test_choices_that_have_not_begun_are_waited_for() -> None:
    """A server may write one choice after the other."""

    def slowly() -> Answer:
        def sent():
            yield delta("a STOP and on", index=0)
            time.sleep(0.4)
            yield delta("b STOP and on", index=1)

        return Answer(content_type="text/event-stream", pieces=sent())

    with serving(lambda _: slowly()) as server:
        prompt = text_prompt(stop=("STOP",))
        found = ask_for(OpenAIModel(recipe(server, stream=True)), 2, prompt)
    assert [one.text for one in found] == ["a ", "b "]
    assert len(server.requests) == 1


def broken(kind: str) -> Answer:
    start = delta("half an ans")
    return {
        "cut": lambda: stream(start, cut=True),
        "no end": lambda: stream(start, DONE),
        "ends at once": stream,
        "only done": lambda: stream(DONE),
        "error": lambda: stream(start, event({"error": {"message": "worker died", "code": 500}})),
        "error text": lambda: stream(start, event({"error": "worker died"})),
        "cut in one piece": lambda: Answer(chat("x").body, cut=True),
    }[kind]()


BROKEN = ["cut", "no end", "ends at once", "only done", "error", "error text", "cut in one piece"]


@pytest.mark.parametrize("kind", BROKEN)
def test_a_stream_that_breaks_off_is_asked_for_again_and_counted_once(kind: str) -> None:
    answers = [broken(kind), broken(kind), whole()]
    found, asked = streamed(lambda: answers.pop(0), max_retries=2)
    assert (found.text, found.usage.calls, asked) == (" search", 1, 3)
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (10, 5)


@pytest.mark.parametrize("kind", BROKEN)
def test_a_stream_that_always_breaks_off_is_an_error(kind: str) -> None:
    with (
        serving(lambda _: broken(kind)) as server,
        pytest.raises(ModelError, match="broke off its answer") as caught,
    ):
        ask(OpenAIModel(recipe(server, stream=True, max_retries=1)))
    assert len(server.requests) == 2
    assert "\n" not in str(caught.value)
    if "error" in kind:
        assert "worker died" in str(caught.value)


def test_retries_of_the_sdk_and_of_streams_are_one_budget() -> None:
    answers = [failure(500, "no"), broken("cut"), failure(500, "no"), whole()]
    for answer in answers:
        answer.headers["Retry-After"] = "0.01"
    found, asked = streamed(lambda: answers.pop(0), max_retries=3)
    assert (found.text, asked) == (" search", 4)
    answers = [failure(500, "no"), broken("cut"), failure(500, "no"), whole()]
    with serving(lambda _: answers.pop(0)) as server, pytest.raises(ModelError, match="status 500"):
        ask(OpenAIModel(recipe(server, stream=True, max_retries=2)))
    assert len(server.requests) == 3


def test_what_breaks_off_after_the_end_is_whole() -> None:
    found, asked = streamed(lambda: stream(delta("all", "stop"), cut=True), max_retries=2)
    assert (found.text, found.flags, asked) == ("all", ("usage_estimated",), 1)


def test_silence_in_the_middle_is_a_stream_that_broke_off() -> None:
    def silent() -> Answer:
        def sent():
            yield delta("half")
            time.sleep(0.5)

        return Answer(content_type="text/event-stream", pieces=sent())

    with serving(lambda _: silent()) as server, pytest.raises(ModelError, match="broke off"):
        ask(OpenAIModel(recipe(server, stream=True, timeout=0.1)))


@pytest.mark.parametrize(
    "piece",
    [
        event("{not json"),
        event("[1, 2]"),
        event("null"),
        event("[" * 100_000),
        event({"choices": "x"}),
        event({"choices": [{"index": -1}]}),
        event({"choices": [{"delta": {"content": ["parts"]}}]}),
        b"data: \xff\xfe\n\n",
    ],
)
def test_a_chunk_that_is_none_is_one_clear_sentence(piece: bytes) -> None:
    with (
        serving(lambda _: stream(delta("half"), piece, delta("way", "stop"), DONE)) as server,
        pytest.raises(ModelError, match="did not answer as an OpenAI-compatible server") as caught,
    ):
        ask(OpenAIModel(recipe(server, stream=True, max_retries=3)))
    assert len(server.requests) == 1
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "pay", "code": "insufficient_quota"}, QuotaError),
        ({"message": "maximum context length is 4096 tokens"}, ContextLimitError),
    ],
)
def test_an_error_within_a_stream_is_told_apart(error: dict[str, Any], kind: type[ModelError]) -> None:
    with serving(lambda _: stream(delta("h"), event({"error": error}))) as server, pytest.raises(kind):
        ask(OpenAIModel(recipe(server, stream=True, max_retries=3)))
    assert len(server.requests) == 1


def test_odd_chunks_that_mean_nothing_are_passed_over() -> None:
    pieces = [
        b": keep-alive\n\n",
        event({"choices": None}),
        event({"id": "x"}),
        delta("\u2028a\ud800"),
        delta(reasoning_content="hm"),
        event({"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}], "usage": None}),
        counted(),
    ]
    found, _ = streamed(lambda: stream(*pieces))
    assert (found.text, found.flags) == ("\u2028a\ufffd", ())


def test_reasoning_that_eats_a_streamed_budget_is_flagged() -> None:
    found, _ = streamed(lambda: stream(delta(reasoning_content="long"), delta(finish="length"), counted()))
    assert (found.text, found.stop_reason, found.flags) == ("", "length", ("truncated_in_reasoning",))
