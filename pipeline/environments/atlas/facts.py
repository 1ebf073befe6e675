"""The facts of the atlas, read once a process from ``facts.json`` (which ``build.py`` writes)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from pipeline.errors import EnvironmentFault

FACTS_VERSION = 1


@dataclass(frozen=True)
class Country:
    """A country. None is a fact that is not known for sure.

    ``area`` is in square kilometres. ``unsure_borders`` are named by one source only: neither
    their being nor their not being is ever asked.
    """

    name: str
    code: str
    article: bool
    aliases: list[str]
    region: str
    capital: str | None
    currency: str | None
    language: str | None
    population: int | None
    area: int | None
    domain: str | None
    calling: str | None
    borders: list[str]
    unsure_borders: list[str]

    @property
    def spoken(self) -> str:
        """The name as it stands inside a sentence."""
        return f"the {self.name}" if self.article else self.name


@dataclass(frozen=True)
class City:
    """A city. ``latitude`` is in degrees, north positive."""

    name: str
    country: str
    population: int
    latitude: float
    timezone: str
    nearest: str


@dataclass(frozen=True)
class Element:
    """A chemical element. ``place`` is the country, as it is today, where it was discovered."""

    name: str
    symbol: str
    number: int
    group: int | None
    period: int
    series: str
    discoverers: list[str]
    year: int | None
    place: str | None


@dataclass(frozen=True)
class Facts:
    """Everything the atlas knows. ``hash`` names this very content."""

    countries: dict[str, Country]
    cities: list[City]
    elements: dict[str, Element]
    currencies: dict[str, str]
    languages: dict[str, str]
    spellings: dict[str, str]
    hash: str


@cache
def load_facts() -> Facts:
    """The packaged facts.

    Raises:
        EnvironmentFault: the file is missing or of another version.
    """
    path = resources.files("pipeline.environments.atlas") / "facts.json"
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise EnvironmentFault(
            f"the facts of the atlas are missing ({path}): install the package again"
        ) from error
    data: dict[str, Any] = json.loads(raw)
    if data.get("version") != FACTS_VERSION:
        raise EnvironmentFault(
            f"{path} has version {data.get('version')!r}, not {FACTS_VERSION}: "
            "run python -m pipeline.environments.atlas.build"
        )
    return Facts(
        countries={name: Country(name=name, **row) for name, row in data["countries"].items()},
        cities=[City(*row) for row in data["cities"]],
        elements={name: Element(name=name, **row) for name, row in data["elements"].items()},
        currencies=data["currencies"],
        languages=data["languages"],
        spellings=data["spellings"],
        hash=hashlib.sha256(raw).hexdigest()[:12],
    )
