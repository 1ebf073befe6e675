"""What one server takes of the API: learnt from its refusals, and kept for the model's life."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from pipeline.models.base import Sampling
from pipeline.models.refusals import most_choices, refused_parameter

MAX_STOPS = 4
"""How many stop strings the API takes; all of them are applied again to what comes back."""
_BUDGETS = ("max_tokens", "max_completion_tokens")
_SAMPLING = ("temperature", "top_p", "seed", "stop", *_BUDGETS)
"""Without these an answer may differ from what the recipe asks for: completions are flagged."""
_OPTIONAL = frozenset({*_SAMPLING, "n", "stream", "stream_options", "parallel_tool_calls"})


class Dialect:
    """The parameters that a server takes, as far as it is known.

    Reasoning models refuse ``temperature`` and ``stop``, some servers ``n`` or ``stream_options``, and
    the budget has two names. What was refused once is not sent again.

    Attributes:
        most: how many choices a call gives at most; None as long as every call gave what was asked for.
    """

    def __init__(self, url: str, api: str) -> None:
        self.most: int | None = None
        self._official = urlsplit(url).hostname == "api.openai.com"
        # OpenAI's reasoning models refuse the old name, most other servers know only that.
        self._budget = "max_completion_tokens" if self._official and api == "chat" else "max_tokens"
        self._other_budget_refused = False
        self._refused: set[str] = set()

    @property
    def flags(self) -> tuple[str, ...]:
        """``dropped_<parameter>`` for each setting of the request that the server is not told."""
        return tuple(f"dropped_{name}" for name in _SAMPLING if name in self._refused)

    def choices(self, wanted: int, sampling: Sampling) -> int:
        """How many choices to ask for in one call. Some servers refuse several greedy ones."""
        most = 1 if sampling.temperature == 0 else self.most
        return wanted if most is None else min(wanted, most)

    def settings(
        self, sampling: Sampling, seed: int, stops: tuple[str, ...], budget: int, count: int, *, stream: bool
    ) -> dict[str, Any]:
        """The parameters of a call that concern sampling and transport, without those refused before."""
        settings: dict[str, Any] = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            # Some servers read seeds as 32-bit numbers.
            "seed": seed & 0x7FFFFFFF,
            self._budget: budget,
        }
        if stops:
            settings["stop"] = list(stops[:MAX_STOPS])
        if count > 1:
            settings["n"] = count
        if stream and "stream" not in self._refused:
            settings |= {"stream": True, "stream_options": {"include_usage": True}}
        return {name: value for name, value in settings.items() if name not in self._refused}

    def tools(self, schemas: list[dict[str, Any]]) -> dict[str, Any]:
        """The parameters that offer tools; one call a turn is asked for where that can be said."""
        if self._official and "parallel_tool_calls" not in self._refused:
            return {"tools": schemas, "parallel_tool_calls": False}
        return {"tools": schemas}

    def learn(self, body: Any, message: str, sent: dict[str, Any]) -> bool:
        """Take note of a refusal. True when it is about a parameter, so that asking again makes sense."""
        name = refused_parameter(body, message, _OPTIONAL & sent.keys())
        if name is None:
            return False
        if name == "n":
            most = most_choices(message)
            self.most = most if most < sent["n"] else 1
        elif name == self._budget and not self._other_budget_refused:
            self._other_budget_refused = True
            self._budget = _BUDGETS[1 - _BUDGETS.index(name)]
        elif name not in _BUDGETS or name == self._budget:
            self._refused.add(name)
        return True
