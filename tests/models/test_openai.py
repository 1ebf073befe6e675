from __future__ import annotations

import logging
from typing import Any

import pytest

from pipeline.errors import ContextLimitError, ModelError, QuotaError
from pipeline.models.openai import OpenAIModel
from pipeline.models.wire import completion_budget, cut_at_stop, estimate_tokens
from pipeline.recipe.models import ModelRecipe
from pipeline.rendering.base import ChatPrompt, Message
from tests.models.asking import ask, recipe, text_prompt
from tests.models.server import Answer, chat, failure, serving
from tests.rollout.faults import fault

KEY = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def test_raw_text_becomes_one_user_message_and_settings_are_passed() -> None:
    with serving(lambda _: chat(" search for it")) as server:
        model = OpenAIModel(recipe(server, price_per_million=(1000.0, 2000.0)))
        found = ask(model, text_prompt(stop=("\nObservation 1:",)), max_tokens=7, seed=2**62 + 5)
    assert server.paths == ["/v1/chat/completions"]
    assert server.keys == [f"Bearer {KEY}"]
    (sent,) = server.requests
    assert sent == {
        "model": "teacher/large",
        "messages": [{"role": "user", "content": "Question: q\nThought 1:"}],
        "temperature": 0.7,
        "top_p": 0.9,
        "seed": 5,
        "max_tokens": 7,
        "stop": ["\nObservation 1:"],
    }
    assert (found.text, found.stop_reason, found.flags) == (" search for it", "stop", ())
    assert (found.usage.prompt_tokens, found.usage.completion_tokens, found.usage.calls) == (10, 5, 1)
    assert found.usage.cost == pytest.approx(0.02)
    assert found.usage.seconds > 0


def test_a_conversation_is_sent_as_messages() -> None:
    prompt = ChatPrompt((Message("system", "s"), Message("user", "u"), Message("assistant", "a")))
    with serving(lambda _: chat("ok", prompt_tokens_details={"cached_tokens": 4})) as server:
        found = ask(OpenAIModel(recipe(server)), prompt)
    assert [turn["role"] for turn in server.requests[0]["messages"]] == ["system", "user", "assistant"]
    assert "stop" not in server.requests[0]
    assert found.usage.cached_tokens == 4


def test_the_completions_api_takes_raw_text() -> None:
    body = {"choices": [{"text": " a\nb", "finish_reason": "stop"}], "usage": {"completion_tokens": 3}}
    with serving(lambda _: Answer(body)) as server:
        found = ask(OpenAIModel(recipe(server, api="completions")), text_prompt(stop=("\n",)))
    assert server.paths == ["/v1/completions"]
    assert server.requests[0]["prompt"] == "Question: q\nThought 1:"
    assert found.text == " a"


def test_the_completions_api_refuses_a_conversation() -> None:
    with serving(lambda _: chat("never")) as server:
        model = OpenAIModel(recipe(server, api="completions"))
        with pytest.raises(ModelError, match="renderer text, or api chat"):
            ask(model, ChatPrompt((Message("user", "u"),)))
    assert server.requests == []


def test_at_most_four_stops_are_sent_but_all_are_applied() -> None:
    stops = ("s1", "s2", "s3", "s4", "s5")
    with serving(lambda _: chat("good s5 bad s1", "length")) as server:
        found = ask(OpenAIModel(recipe(server)), text_prompt(stop=stops))
    assert server.requests[0]["stop"] == ["s1", "s2", "s3", "s4"]
    assert (found.text, found.stop_reason) == ("good ", "stop")


def test_what_the_budget_cut_is_not_called_stopped() -> None:
    case = fault("C01")["input"]
    cut = chat("unfini", case["finish_reason"], completion_tokens=case["usage"]["completion_tokens"])
    with serving(lambda _: cut) as server:
        found = ask(OpenAIModel(recipe(server)), max_tokens=case["request_max_tokens"])
    assert found.stop_reason == fault("C01")["expected"]["treated_as"]


def test_no_quota_fails_at_once() -> None:
    case = fault("C02")["input"]
    with (
        serving(lambda _: Answer(case["body"], case["status"])) as server,
        pytest.raises(QuotaError, match="no quota left"),
    ):
        ask(OpenAIModel(recipe(server, max_retries=5)))
    assert len(server.requests) == 1 + fault("C02")["expected"]["retries"]


@pytest.mark.parametrize(
    "refusal",
    [
        failure(402, "Payment required"),
        Answer(b"pay first", 402, "text/plain"),
        failure(400, "Billing hard limit has been reached", code="billing_hard_limit_reached"),
        failure(429, "You exceeded your current quota", type="insufficient_quota"),
        failure(429, "Limit reached", code="billing_hard_limit_reached"),
    ],
)
def test_whatever_has_to_be_paid_for_is_a_quota(refusal: Answer) -> None:
    with serving(lambda _: refusal) as server, pytest.raises(QuotaError, match="no quota left"):
        ask(OpenAIModel(recipe(server, max_retries=5)))
    assert len(server.requests) == 1


@pytest.mark.parametrize("body", [{"error": {"message": "slow down", "code": "rate_limit"}}, b"busy", []])
def test_other_rate_limits_are_retried_by_the_sdk(body: Any) -> None:
    answers = [Answer(body, 429, headers={"Retry-After": "0.01"}), chat("at last")]
    with serving(lambda _: answers.pop(0)) as server:
        found = ask(OpenAIModel(recipe(server, max_retries=1)))
    assert (found.text, len(server.requests)) == ("at last", 2)


def test_retry_after_is_honoured() -> None:
    answers = [failure(429, "slow down"), failure(503, "busy"), chat("at last")]
    for answer in answers[:2]:
        answer.headers["Retry-After"] = "0.2"
    with serving(lambda _: answers.pop(0)) as server:
        found = ask(OpenAIModel(recipe(server, max_retries=2)))
    assert (found.text, len(server.requests), found.usage.calls) == ("at last", 3, 1)
    assert 0.4 <= found.usage.seconds < 0.9


@pytest.mark.parametrize(
    "fault", [failure(500, "oops"), Answer({"choices": []}, cut=True), failure(408, "slow")]
)
def test_a_failure_that_may_pass_is_retried_and_counted_once(fault: Answer) -> None:
    fault.headers["Retry-After"] = "0.01"
    answers = [fault, chat("at last")]
    with serving(lambda _: answers.pop(0)) as server:
        found = ask(OpenAIModel(recipe(server, max_retries=1)))
    assert len(server.requests) == 2
    assert (found.usage.prompt_tokens, found.usage.completion_tokens, found.usage.calls) == (10, 5, 1)


def test_an_answer_cut_in_the_middle_is_a_connection_that_failed() -> None:
    with (
        serving(lambda _: Answer(chat("whole").body, cut=True)) as server,
        pytest.raises(ModelError, match="cannot be reached"),
    ):
        ask(OpenAIModel(recipe(server)))
    assert len(server.requests) == 1


def test_the_budget_is_what_the_context_leaves() -> None:
    case = fault("C05")
    context, wanted = case["input"]["max_model_len"], case["input"]["max_tokens"]
    fits, overflows = case["input"]["prompt_tokens"]
    assert completion_budget(context, fits, wanted) == case["expected"]["requests"][0]["max_tokens"]
    with pytest.raises(ContextLimitError):
        completion_budget(context, overflows, wanted)


def test_a_known_context_clamps_or_refuses_before_asking() -> None:
    with serving(lambda _: chat("ok")) as server:
        ask(OpenAIModel(recipe(server, context=100)), text_prompt("x" * 240), max_tokens=50)
        with pytest.raises(ContextLimitError, match="400 tokens"):
            ask(OpenAIModel(recipe(server, context=100)), text_prompt("x" * 1600))
    assert [sent["max_tokens"] for sent in server.requests] == [40]


def test_the_servers_own_count_is_used_once() -> None:
    def vllm(asked: dict[str, Any]) -> Answer:
        if asked["max_tokens"] + 2089 <= 4096:
            return chat("ok")
        return failure(
            400,
            "This model's maximum context length is 4096 tokens. However, you requested 4137 tokens"
            " (2089 in the messages, 2048 in the completion).",
        )

    with serving(vllm) as server:
        assert ask(OpenAIModel(recipe(server)), max_tokens=2048).text == "ok"
    assert [sent["max_tokens"] for sent in server.requests] == [2048, 2007]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("This model's maximum context length is 4096 tokens. However, 4282 input tokens were sent", None),
        ("You passed 4282 input tokens, but the model's context length is only 4096", None),
        ("nope", "context_length_exceeded"),
    ],
)
def test_a_prompt_that_does_not_fit_is_a_context_limit(message: str, code: str | None) -> None:
    with serving(lambda _: failure(400, message, code=code)) as server, pytest.raises(ContextLimitError):
        ask(OpenAIModel(recipe(server)))
    assert len(server.requests) == 1


def test_reasoning_that_eats_the_budget_is_an_empty_text_with_a_flag() -> None:
    case = fault("C08")
    choice = {"message": case["input"]["message"], "finish_reason": case["input"]["finish_reason"]}
    with serving(lambda _: Answer({"choices": [choice], "usage": {"completion_tokens": 9}})) as server:
        found = ask(OpenAIModel(recipe(server)))
    assert found.text == case["expected"]["text"]
    assert found.flags == (case["expected"]["flag"],)
    assert found.stop_reason == "length"
    assert len(server.requests) == 1


def test_null_content_without_a_cut_and_a_filter_are_flagged() -> None:
    answers = [chat(None), chat("half", "content_filter")]
    with serving(lambda _: answers.pop(0)) as server:
        silent = ask(OpenAIModel(recipe(server)))
        filtered = ask(OpenAIModel(recipe(server)))
    assert (silent.text, silent.stop_reason, silent.flags) == ("", "stop", ("no_content",))
    assert (filtered.text, filtered.stop_reason, filtered.flags) == ("half", "error", ("content_filter",))


def test_uncounted_usage_is_estimated_and_says_so() -> None:
    choice = {"message": {"content": "12345678"}, "finish_reason": "stop"}
    with serving(lambda _: Answer({"choices": [choice]})) as server:
        found = ask(OpenAIModel(recipe(server)), text_prompt("12345"))
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (2, 2)
    assert found.flags == ("usage_estimated",)


def test_thinking_is_not_shown_but_counted() -> None:
    choice = {"message": {"content": "12345678", "reasoning_content": "1234"}, "finish_reason": "stop"}
    with serving(lambda _: Answer({"choices": [choice]})) as server:
        found = ask(OpenAIModel(recipe(server)))
    assert (found.text, found.usage.completion_tokens) == ("12345678", 3)


@pytest.mark.parametrize(
    "answer",
    [
        Answer({"choices": []}),
        Answer({"choices": None}),
        Answer({"choices": [{"message": {"content": ["parts"]}}]}),
        Answer({"choices": "x", "usage": 3}),
        Answer([1, 2]),
        Answer(b"null"),
        Answer(b'{"choices": [{"mess'),
        Answer(b"[" * 100_000),
        Answer(b"<html>hello</html>", content_type="text/html"),
        Answer(b"\xff\xfe"),
        Answer(b""),
    ],
)
def test_an_answer_that_is_none_is_one_clear_sentence(answer: Answer) -> None:
    with (
        serving(lambda _: answer) as server,
        pytest.raises(ModelError, match="did not answer as an OpenAI-compatible server") as caught,
    ):
        ask(OpenAIModel(recipe(server)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (failure(401, f"Incorrect API key provided: {KEY}"), "refused the key in OPENAI_API_KEY"),
        (failure(403, "no"), "refused the key in OPENAI_API_KEY"),
        (failure(404, "The model does not exist"), "has no model 'teacher/large'"),
        (failure(400, f"bad\nfield {KEY}" + "x" * 5000), "status 400"),
        (failure(500, "overloaded"), "status 500"),
        (Answer(b"\x00\xff broken", 502, "text/plain"), "status 502"),
    ],
)
def test_a_refusal_is_one_clear_sentence_without_the_key(
    answer: Answer, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with serving(lambda _: answer) as server:
        model = OpenAIModel(recipe(server))
        with pytest.raises(ModelError, match=said) as caught:
            ask(model)
    message = str(caught.value)
    assert KEY not in message + repr(model) + caplog.text
    assert caught.value.__cause__ is None
    assert "\n" not in message
    assert len(message) < 500


def test_a_body_that_cannot_be_unpacked() -> None:
    garbled = Answer(b"no gzip", headers={"Content-Encoding": "gzip"})
    with serving(lambda _: garbled) as server, pytest.raises(ModelError, match="cannot be reached"):
        ask(OpenAIModel(recipe(server)))


def test_nobody_listens() -> None:
    with serving(lambda _: chat("x")) as server:
        pass
    with pytest.raises(ModelError, match="cannot be reached"):
        ask(OpenAIModel(recipe(server)))


def test_a_slow_server_times_out() -> None:
    import threading

    release = threading.Event()

    def slow(_: dict[str, Any]) -> Answer:
        release.wait(5)
        return chat("late")

    with serving(slow) as server:
        try:
            with pytest.raises(ModelError, match=r"within 0\.05 seconds"):
                ask(OpenAIModel(recipe(server, timeout=0.05)))
        finally:
            release.set()


def test_lone_surrogates_pass_both_ways() -> None:
    with serving(lambda _: chat("\ud800 back\u2028")) as server:
        found = ask(OpenAIModel(recipe(server)), text_prompt("there \udfff"))
    assert server.requests[0]["messages"][0]["content"] == "there \ufffd"
    assert found.text == "\ufffd back\u2028"


def test_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    far = ModelRecipe(address="openai:m@https://teacher.example/v1", api_key_env="TEACHER_KEY")
    with pytest.raises(ModelError, match="set the environment variable TEACHER_KEY"):
        OpenAIModel(far)
    monkeypatch.setenv("TEACHER_KEY", "kéy")
    with pytest.raises(ModelError, match="no key has"):
        OpenAIModel(far)
    with serving(lambda _: chat("ok")) as server:
        ask(OpenAIModel(recipe(server, api_key_env="ABSENT_KEY")))
    assert server.keys == ["Bearer EMPTY"]


@pytest.mark.parametrize(
    "address",
    [
        "expert",
        "openai:m",
        "openai:m@https://h/v1?key=abc",
        "openai:m@http://h:notaport/v1",
        "openai:m@http://[/v1",
        "openai:m@https://user:key=abc@h/v1",
        "openai:m@HTTPS://key=abc@h/v1",
    ],
)
def test_addresses_that_cannot_be_used(address: str) -> None:
    with pytest.raises(ModelError) as caught:
        OpenAIModel(ModelRecipe.model_construct(**{**ModelRecipe(address="x").__dict__, "address": address}))
    assert "key=abc" not in str(caught.value)


def test_cutting_takes_the_earliest_stop() -> None:
    assert cut_at_stop("a b c", ("c", "b")) == ("a ", True)
    assert cut_at_stop("a b c", ("d", "")) == ("a b c", False)


def test_estimates_never_fail() -> None:
    assert [estimate_tokens(text) for text in ("", "abcd", "abcde", "é\ud800")] == [0, 1, 2, 1]
