"""SWIFT as it is asked, by itself and in SwiftSage: one line in, beams out, beams to a valid action."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipeline.environments.base import Environment
from pipeline.errors import RecipeError
from pipeline.methods.base import Seat
from pipeline.methods.prompted import step_seed
from pipeline.methods.prompts import spec_for
from pipeline.methods.swiftsage.matching import Match, clean_beam, match
from pipeline.models.base import Completion, Model, Request, Sampling, beams
from pipeline.recipe.models import SwiftRecipe
from pipeline.rendering import swift
from pipeline.rendering.base import Segment, TextPrompt
from pipeline.rendering.digest import spec_digest
from pipeline.trajectories.schema import Step, StopReason, Usage

MAX_TOKENS: Final = 16
"""Tokens of an action, as published."""
STYLE: Final = "act"
"""The rows that train SWIFT hold actions alone."""


@dataclass(frozen=True)
class Beams:
    """What SWIFT wrote, best first: ``raw`` as the model gave it, ``clean`` without control tokens."""

    raw: tuple[str, ...]
    clean: tuple[str, ...]
    usage: Usage
    stop_reason: StopReason = "stop"

    @classmethod
    def of(cls, written: Sequence[Completion]) -> Beams:
        """The beams of one search, whose first completion bears the usage."""
        raw = tuple(each.text for each in written)
        return cls(raw, tuple(map(clean_beam, raw)), written[0].usage, written[0].stop_reason)


class Fast:
    """SWIFT in one episode.

    Args:
        seat: whose episode.
        model: SWIFT.
        recipe: how it is asked.
    """

    def __init__(self, seat: Seat, model: Model, recipe: SwiftRecipe) -> None:
        self._seat = seat
        self._model = model
        self._recipe = recipe

    async def write(self, steps: Sequence[Step]) -> Beams:
        """What SWIFT would do after these steps.

        Raises:
            ModelError: as ``Model.generate``.
        """
        seat = self._seat
        text = swift.swift_input(seat.task, seat.opening, steps, self._recipe.history)
        request = Request(
            TextPrompt((Segment(text),)),
            Sampling(max_tokens=MAX_TOKENS),
            seat.session,
            step_seed(seat.seed, len(steps) + 1),
        )
        return Beams.of(await beams(self._model, request, self._recipe.beams))

    async def match(self, written: Sequence[str], valid: Sequence[str]) -> Match:
        """The valid action that the beams mean; the sentence model is loaded when first needed.

        Raises:
            ModelError: the sentence model cannot be loaded.
        """
        found = match(written, valid)
        address = self._recipe.embedder
        if found.how == "exact" or address is None:
            return found
        return await asyncio.to_thread(_by_meaning, written, valid, address)


def settings(recipe: SwiftRecipe) -> dict[str, Any]:
    """All that changes what SWIFT writes, and what becomes of it."""
    return {
        "renderer": f"{swift.NAME}/{swift.VERSION}",
        "history": recipe.history,
        "beams": recipe.beams,
        "embedder": recipe.embedder,
    }


def trained_as(environment: Environment, history: int) -> dict[str, Any]:
    """Which rows train SWIFT: those that the export of the format ``swift`` writes with this history.

    Raises:
        FormatError: the environment's exemplar file cannot be read.
    """
    spec = spec_for(environment, STYLE, 0)
    return {
        "renderer": swift.NAME,
        "style": STYLE,
        "spec_digest": spec_digest(spec),
        "history": history,
    }


def needs_valid_actions(seat: Seat, name: str) -> None:
    """Make sure that the episode can list what may be done.

    Raises:
        RecipeError: it cannot.
    """
    if seat.valid_actions is None:
        raise RecipeError(
            f"method.name: {name!r} needs an environment that lists valid actions, as scienceworld does;"
            f" {seat.environment.name!r} does not: choose another method"
        )


def _by_meaning(written: Sequence[str], valid: Sequence[str], address: str) -> Match:
    from pipeline.models.embedding import load_embedder

    return match(written, valid, load_embedder(address))
