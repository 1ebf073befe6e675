"""Servers that do not take every parameter."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.errors import ModelError
from pipeline.models.base import Sampling
from pipeline.models.dialect import Dialect
from pipeline.models.openai import OpenAIModel
from pipeline.models.refusals import refused_parameter
from tests.models.asking import ask_for, recipe, text_prompt
from tests.models.server import Answer, chat, failure, serving

SENT = {"temperature", "top_p", "seed", "stop", "max_tokens", "n", "stream"}


def refusing(*names: str, status: int = 400):
    """A server that takes all but some parameters, and complains of one at a time."""

    def respond(asked: dict[str, Any]) -> Answer:
        for name in names:
            if name in asked:
                message = f"Unsupported parameter: '{name}' is not supported with this model."
                return failure(status, message, param=name, code="unsupported_parameter")
        return chat("fine STOP not")

    return respond


def test_a_refused_parameter_is_left_out_from_then_on_and_told() -> None:
    with serving(refusing("temperature", "top_p", "stop")) as server:
        model = OpenAIModel(recipe(server))
        found = ask_for(model, 1, text_prompt(stop=("STOP",)), times=3)
    assert len(server.requests) == 6
    assert not {"temperature", "top_p", "stop"} & server.requests[-1].keys()
    assert server.requests[-1]["max_tokens"] == 100
    assert [one.text for one in found] == ["fine "] * 3
    flags = ("dropped_temperature", "dropped_top_p", "dropped_stop")
    assert [one.flags for one in found] == [flags] * 3


def test_the_budget_has_two_names() -> None:
    with serving(refusing("max_tokens")) as server:
        found = ask_for(OpenAIModel(recipe(server)), 1, times=2)
    assert [sent.get("max_completion_tokens") for sent in server.requests] == [None, 100, 100]
    assert [one.flags for one in found] == [(), ()]
    with serving(refusing("max_tokens", "max_completion_tokens")) as server:
        (found,) = ask_for(OpenAIModel(recipe(server)), 1)
    assert found.flags == ("dropped_max_completion_tokens",)


def test_many_calls_at_once_learn_the_same() -> None:
    with serving(refusing("n", "max_tokens", "temperature")) as server:
        found = ask_for(OpenAIModel(recipe(server)), 4)
    assert [one.flags for one in found] == [("dropped_temperature",)] * 4
    assert len(server.requests) == 3 + 4


def test_a_value_out_of_range_is_the_recipes_mistake() -> None:
    wrong = failure(400, "temperature must be between 0 and 2", param="temperature", code="invalid_value")
    with serving(lambda _: wrong) as server, pytest.raises(ModelError, match="status 400"):
        ask_for(OpenAIModel(recipe(server)), 1)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("message", "body", "name"),
    [
        ("Unsupported value: 'temperature' does not support 0.2", {"param": "temperature"}, "temperature"),
        ("Unsupported parameter: 'max_tokens' … Use 'max_completion_tokens' instead.", None, "max_tokens"),
        ("Unexpected fields in the request: {'seed'}", None, "seed"),
        ("{'type': 'extra_forbidden', 'loc': ['body', 'seed']}", None, "seed"),
        ("Unknown parameter: 'stop_sequences'", None, None),
        ("Unsupported parameter", {"param": "logprobs"}, None),
        ("Unsupported parameter", {"param": ["n"]}, None),
        ("the model is not supported; the prompt said: " + "x" * 1000 + " temperature", None, None),
        ("stopped", None, None),
        ("n must be 1", None, "n"),
        ("no", ["n"], None),
    ],
)
def test_which_parameter_was_refused(message: str, body: Any, name: str | None) -> None:
    assert refused_parameter(body, message, SENT) == name


def test_openai_itself_is_told_the_budget_by_its_new_name() -> None:
    settings = Dialect("https://api.openai.com/v1", "chat").settings(Sampling(), 3, (), 9, 1, stream=False)
    assert settings == {"temperature": 0.0, "top_p": 1.0, "seed": 3, "max_completion_tokens": 9}
    raw = Dialect("https://api.openai.com/v1", "completions")
    assert "max_tokens" in raw.settings(Sampling(), 3, (), 9, 1, stream=False)
