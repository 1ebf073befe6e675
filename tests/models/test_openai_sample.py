"""Several completions of one prompt."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ModelError, QuotaError
from pipeline.models.base import Request, Sampling
from pipeline.models.openai import OpenAIModel
from pipeline.models.replies import Choice, Counts, Message, Reply
from pipeline.trajectories.schema import Usage, digest
from tests.models.asking import ask_for, recipe, text_prompt, total
from tests.models.server import Answer, chat, failure, serving, several


def echo(asked: dict[str, Any], most: int = 1000) -> Answer:
    """Texts that tell of the seed; at most so many choices."""
    return several([f"{asked['seed']}-{index}" for index in range(min(asked.get("n", 1), most))])


def seed(call: int) -> int:
    return (int(digest([7, call]), 16) >> 1) & 0x7FFFFFFF


def test_one_call_pays_the_prompt_once() -> None:
    with serving(echo) as server:
        found = ask_for(OpenAIModel(recipe(server, price_per_million=(1e6, 1e6))), 21)
    assert [sent["n"] for sent in server.requests] == [21]
    assert [one.text for one in found] == [f"{seed(0)}-{index}" for index in range(21)]
    spent = total(found)
    assert (spent.prompt_tokens, spent.completion_tokens, spent.calls) == (10, 105, 1)
    assert spent.cost == pytest.approx(115)
    assert [one.usage.calls for one in found] == [1] + [0] * 20
    assert all(one.stop_reason == "stop" and one.flags == () for one in found)


def test_a_server_that_ignores_n_is_asked_for_the_rest_and_remembered() -> None:
    with serving(lambda asked: echo(asked, most=1)) as server:
        found = ask_for(OpenAIModel(recipe(server)), 5, times=2)
    assert [one.text for one in found[:5]] == [f"{seed(call)}-0" for call in range(5)]
    assert [sent.get("n") for sent in server.requests] == [5] + [None] * 9
    assert len({one.text for one in found}) == 10
    spent = total(found)
    assert (spent.prompt_tokens, spent.completion_tokens, spent.calls) == (100, 50, 10)


def test_a_server_that_caps_n_is_asked_in_its_portions() -> None:
    with serving(lambda asked: echo(asked, most=4)) as server:
        found = ask_for(OpenAIModel(recipe(server)), 10, times=2)
    texts = [f"{seed(call)}-{index}" for call, size in enumerate([4, 4, 2]) for index in range(size)]
    assert [one.text for one in found[:10]] == texts
    assert sorted(sent["n"] for sent in server.requests) == [2, 2, 4, 4, 4, 10]
    assert total(found).calls == len(server.requests)


@pytest.mark.parametrize(
    ("message", "fields", "most"),
    [
        ("n is not supported", {}, 1),
        ("Invalid n value (currently only n = 1 is supported)", {}, 1),
        ("bad value", {"param": "n"}, 1),
        ("Invalid 'n': Expected a value <= 3, but got 7 instead.", {"param": "n"}, 3),
        ("n must be between 1 and 3", {}, 3),
    ],
)
def test_a_refusal_of_n_says_what_is_taken(message: str, fields: dict[str, Any], most: int) -> None:
    def respond(asked: dict[str, Any]) -> Answer:
        return failure(400, message, **fields) if asked.get("n", 1) > most else echo(asked)

    with serving(respond) as server:
        found = ask_for(OpenAIModel(recipe(server)), 7, times=2)
    assert len(found) == len({one.text for one in found}) == 14
    taken = [sent.get("n", 1) for sent in server.requests]
    assert taken.count(7) == 1
    assert max(taken[1:]) == most
    assert total(found).calls == len(server.requests) - 1
    assert all(one.flags == () for one in found)


def test_a_server_that_always_refuses_is_asked_a_few_times_only() -> None:
    with (
        serving(lambda _: failure(400, "n must be up to 9999")) as server,
        pytest.raises(ModelError, match="status 400"),
    ):
        ask_for(OpenAIModel(recipe(server)), 21)
    assert [sent.get("n") for sent in server.requests] == [21, None]


def test_the_rest_is_asked_for_at_once() -> None:
    together = threading.Barrier(4, timeout=5)

    def respond(asked: dict[str, Any]) -> Answer:
        if "n" not in asked:
            together.wait()
        return chat("one")

    with serving(respond) as server:
        assert len(ask_for(OpenAIModel(recipe(server)), 5)) == 5


def test_greedy_samples_are_legal() -> None:
    """Some servers refuse several choices at temperature 0."""
    with serving(lambda asked: failure(400, "n must be 1") if "n" in asked else chat("same")) as server:
        model = OpenAIModel(recipe(server))
        found = ask_for(model, 3, temperature=0.0)
    assert [one.text for one in found] == ["same"] * 3
    assert len(server.requests) == 3


def test_more_choices_than_asked_for_are_left_out_but_paid() -> None:
    with serving(lambda _: several(["a", "b", "c"])) as server:
        found = ask_for(OpenAIModel(recipe(server)), 2)
    assert [one.text for one in found] == ["a", "b"]
    assert total(found).completion_tokens == 15


def test_what_every_choice_spent_tells_of_a_cut() -> None:
    with serving(lambda _: several(["a", "b"])) as server:
        cut = ask_for(OpenAIModel(recipe(server)), 2, max_tokens=5)
        whole = ask_for(OpenAIModel(recipe(server)), 2, max_tokens=6)
    assert [one.stop_reason for one in cut] == ["length", "length"]
    assert [one.stop_reason for one in whole] == ["stop", "stop"]


@pytest.mark.parametrize(
    ("answer", "kind"), [(failure(402, "pay"), QuotaError), (failure(500, "no"), ModelError)]
)
def test_one_failure_ends_the_other_calls(answer: Answer, kind: type[ModelError]) -> None:
    release = threading.Event()

    def respond(asked: dict[str, Any]) -> Answer:
        if "n" in asked:
            return chat("first")
        if asked["seed"] == seed(2):
            return answer
        release.wait(20)
        return chat("late")

    async def run(model: OpenAIModel) -> int:
        start = time.monotonic()
        with pytest.raises(kind):
            await model.sample(Request(text_prompt(), Sampling(0.7), "", 7), 4)
        assert time.monotonic() - start < 10
        left = len(asyncio.all_tasks()) - 1
        await model.close()
        return left

    with serving(respond) as server:
        try:
            assert asyncio.run(run(OpenAIModel(recipe(server)))) == 0
        finally:
            release.set()


def test_completion_tokens_are_shared_out_by_length() -> None:
    with serving(lambda _: several(["abcd" * 3, "abcd", ""])) as server:
        found = ask_for(OpenAIModel(recipe(server)), 3)
    assert [one.usage.completion_tokens for one in found] == [11, 4, 0]
    with serving(lambda _: several(["", ""])) as server:
        silent = ask_for(OpenAIModel(recipe(server)), 2)
    assert [one.usage.completion_tokens for one in silent] == [10, 0]


@given(
    texts=st.lists(st.text(max_size=40), min_size=1, max_size=8),
    prompt=st.integers(0, 10**6),
    completion=st.integers(0, 10**6),
)
def test_the_sum_is_what_the_server_reported(texts: list[str], prompt: int, completion: int) -> None:
    choices = [Choice(message=Message(content=text), finish_reason="stop") for text in texts]
    reply = Reply(choices=choices, usage=Counts(prompt_tokens=prompt, completion_tokens=completion))
    found = reply.completions(Request(text_prompt()), len(texts), 10**7, 1.5, (2.0, 3.0))
    spent = sum((one.usage for one in found), Usage())
    assert (spent.prompt_tokens, spent.completion_tokens) == (prompt, completion)
    assert (spent.calls, spent.seconds) == (1, 1.5)
    assert spent.cost == pytest.approx((2 * prompt + 3 * completion) / 1e6)
    assert all(one.usage.completion_tokens >= 0 for one in found)
