"""Tool calls, there and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.models.base import Completion, Request, Sampling
from pipeline.models.calls import call_text
from pipeline.models.dialect import Dialect
from pipeline.models.openai import OpenAIModel
from pipeline.models.replies import read_reply
from pipeline.models.wire import chat_messages, prompt_text
from pipeline.rendering.base import ChatPrompt, Message, ToolCall, ToolSpec
from pipeline.rendering.tools import tool_schema, write_call
from tests.models.asking import ask, recipe, text_prompt
from tests.models.server import DONE, Answer, counted, delta, serving, stream
from tests.rollout.faults import fault

SEARCH = ToolSpec("search", "entity", "looks a page up")
CALL = ToolCall("search", {"entity": "Milhouse Van Houten"}, "call_1")
OTHER = ToolCall("lookup", {"keyword": "named after"})


def prompt(*stop: str) -> ChatPrompt:
    said = (
        Message("user", "Question: q"),
        Message("assistant", "I look.", calls=(CALL,)),
        Message("tool", "A page.", answers="call_1"),
    )
    return ChatPrompt(said, stop, (SEARCH,))


def function(call: ToolCall) -> dict[str, Any]:
    return {"name": call.name, "arguments": json.dumps(call.arguments)}


def message(content: str | None, *calls: Any, **fields: Any) -> dict[str, Any]:
    listed = [{"id": str(n), "type": "function", "function": call} for n, call in enumerate(calls)]
    return {"role": "assistant", "content": content, "tool_calls": listed or None, **fields}


def answer(message: dict[str, Any], finish: str = "tool_calls", tokens: int | None = 5) -> Answer:
    usage = {"prompt_tokens": 10, "completion_tokens": tokens}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return Answer({"choices": [choice], **({"usage": usage} if tokens is not None else {})})


def read(found: Answer, *stop: str, max_tokens: int = 100) -> Completion:
    request = Request(prompt(*stop), Sampling(max_tokens=max_tokens))
    return read_reply(json.dumps(found.body)).completions(request, 1, max_tokens, 0.0, (0.0, 0.0))[0]


def test_tools_calls_and_answers_are_sent_as_the_api_has_them() -> None:
    with serving(lambda _: answer(message("I go on.", function(OTHER)))) as server:
        found = ask(OpenAIModel(recipe(server)), prompt())
    (sent,) = server.requests
    assert sent["tools"] == [tool_schema(SEARCH)]
    assert "stop" not in sent
    assert "parallel_tool_calls" not in sent
    assert sent["messages"] == [
        {"role": "user", "content": "Question: q"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "search", "arguments": '{"entity": "Milhouse Van Houten"}'},
                }
            ],
        },
        {"role": "tool", "content": "A page.", "tool_call_id": "call_1"},
    ]
    assert found.text == "I go on.\n" + write_call(OTHER)
    assert (found.stop_reason, found.flags) == ("stop", ())


def test_only_openai_is_asked_for_one_call_a_turn() -> None:
    official = Dialect("https://api.openai.com/v1", "chat")
    assert official.tools([]) == {"tools": [], "parallel_tool_calls": False}
    refusal = {"param": "parallel_tool_calls", "code": "unsupported_parameter"}
    assert official.learn(refusal, "Unsupported parameter", official.tools([]))
    assert official.tools([]) == {"tools": []}
    assert official.flags == ()


@pytest.mark.parametrize("content", [None, "", "I look."])
@pytest.mark.parametrize("arguments", [CALL.arguments, json.dumps(CALL.arguments)])
def test_a_call_is_written_after_the_thought(content: str | None, arguments: Any) -> None:
    found = read(answer(message(content, {"name": "search", "arguments": arguments})))
    thought = f"{content}\n" if content else ""
    assert found.text == thought + write_call(ToolCall("search", CALL.arguments))


def test_every_call_is_written_and_the_old_one_too() -> None:
    found = read(answer(message("T", function(CALL), function(OTHER))))
    assert found.text == "\n".join(["T", write_call(CALL), write_call(OTHER)])
    old = message(None, function_call=function(OTHER))
    del old["tool_calls"]
    assert read(answer(old, "function_call")).text == write_call(OTHER)


def test_values_that_are_no_text_are_written_as_json() -> None:
    found = read(answer(message(None, {"name": "f", "arguments": '{"a": 5, "b": null, "c": ["é"]}'})))
    assert found.text == write_call(ToolCall("f", {"a": "5", "b": "null", "c": '["é"]'}))
    assert read(answer(message(None, {"name": "f"}))).text == write_call(ToolCall("f", {}))
    assert read(answer(message(None, {"name": "f", "arguments": ""}))).text == write_call(ToolCall("f", {}))


@pytest.mark.parametrize(
    "called",
    [
        {"name": "search", "arguments": '{"entity": "Mil'},
        {"name": "search", "arguments": "[1]"},
        {"name": "search", "arguments": 5},
        {"name": "search", "arguments": "[" * 100_000},
        {"name": None, "arguments": "{}"},
        {"arguments": "{}"},
        {},
    ],
)
def test_a_call_that_cannot_be_read_is_no_call(called: dict[str, Any]) -> None:
    found = read(answer(message("T", called)))
    assert "<tool_call>" not in found.text
    assert found.text.startswith("T")
    assert found.flags == ("malformed_call",)


@pytest.mark.parametrize("calls", ["x", 5, {"a": 1}, [None, 3, {"function": 4}, {}]])
def test_calls_of_any_shape_do_no_harm(calls: Any) -> None:
    found = read(answer(message("T") | {"tool_calls": calls}, "stop"))
    assert (found.text, found.stop_reason) == ("T", "stop")


@pytest.mark.parametrize("tokens", [800, None])
def test_a_call_that_the_budget_cut_is_not_called_stopped(tokens: int | None) -> None:
    """The server says ``tool_calls``; the count, or the torn arguments, say otherwise."""
    case = fault("C01")["input"]
    cut = message(None, {"name": "write", "arguments": case["arguments_raw"]})
    found = read(answer(cut, case["finish_reason"], tokens), max_tokens=case["request_max_tokens"])
    assert found.stop_reason == fault("C01")["expected"]["treated_as"]
    assert "<tool_call>" not in found.text


def test_stops_end_the_thought_but_never_the_arguments() -> None:
    torn = ToolCall("search", {"entity": "a\nObservation: b"})
    found = read(answer(message("T\nObservation: x", function(torn))), "\nObservation:")
    assert found.text == "T\n" + write_call(torn)


def pieces(*deltas: dict[str, Any]) -> Answer:
    return stream(*[delta(**fields) for fields in deltas], delta(finish="tool_calls"), counted(), DONE)


def call_piece(
    index: int | None, arguments: Any, name: str | None = None, identity: str | None = None
) -> Any:
    place = {} if index is None else {"index": index}
    function = {"arguments": arguments, **({"name": name} if name else {})}
    return {"tool_calls": [{**place, **({"id": identity} if identity else {}), "function": function}]}


@pytest.mark.parametrize(
    "deltas",
    [
        [
            call_piece(0, "", "search", "a"),
            call_piece(0, '{"entity": "Milhouse '),
            call_piece(0, 'Van Houten"}'),
            call_piece(1, '{"keyword": "named after"}', "lookup", "b"),
        ],
        [
            call_piece(0, json.dumps(CALL.arguments), "search", "a"),
            call_piece(0, json.dumps(OTHER.arguments), "lookup", "b"),
        ],
        [
            call_piece(None, json.dumps(CALL.arguments), "search", "a"),
            call_piece(None, OTHER.arguments, "lookup", "b"),
        ],
    ],
)
def test_streamed_calls_are_put_together(deltas: list[dict[str, Any]]) -> None:
    """Numbered, all numbered 0, or not numbered at all."""
    with serving(lambda _: pieces({"text": "I look. STOP"}, *deltas)) as server:
        found = ask(OpenAIModel(recipe(server, stream=True)), prompt("STOP"))
    assert found.text == "\n".join(["I look. ", write_call(CALL), write_call(OTHER)])
    assert (found.stop_reason, found.flags, found.usage.completion_tokens) == ("stop", (), 5)


def test_a_streamed_single_call_of_the_old_kind() -> None:
    old = [{"function_call": {"name": "lookup", "arguments": '{"keyword": '}}]
    old.append({"function_call": {"arguments": '"named after"}'}})
    with serving(lambda _: pieces(*old)) as server:
        found = ask(OpenAIModel(recipe(server, stream=True)), prompt())
    assert found.text == write_call(OTHER)


def test_a_prompts_tools_and_calls_are_counted() -> None:
    assert "Milhouse" in prompt_text(prompt())
    assert "looks a page up" in prompt_text(prompt())
    assert prompt_text(text_prompt("abc")) == "abc"


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=3), st.booleans())
def test_any_call_that_was_sent_is_read_back(arguments: dict[str, str], as_text: bool) -> None:
    call = ToolCall("search", arguments)
    sent = chat_messages(ChatPrompt((Message("assistant", "", calls=(call,)),)))[0]["tool_calls"][0][
        "function"
    ]
    if not as_text:
        sent["arguments"] = json.loads(sent["arguments"])
    assert call_text(sent) == (write_call(call), True)
