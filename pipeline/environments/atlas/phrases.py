"""How each relation is spoken of: what one needs, what one has seen, and what one looks up.

``{t}`` stands for the thing whose page it is, ``{v}`` for the value.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.environments.atlas.world import World


@dataclass(frozen=True)
class Phrases:
    """Wordings of one relation. ``keyword`` finds its sentence on the page ("" where none does)."""

    need: str
    seen: tuple[str, ...]
    keyword: str = ""


RELATIONS: dict[str, Phrases] = {
    "country": Phrases("the country of {t}", ("{t} is in {v}", "{t} is a city in {v}", "{t} lies in {v}")),
    "capital of": Phrases(
        "the country whose capital is {t}",
        ("{t} is the capital of {v}", "the country of {t} is {v}"),
        "capital of",
    ),
    "capital": Phrases(
        "the capital of {t}",
        ("the capital of {t} is {v}", "{t} has the capital {v}", "{v} is the capital of {t}"),
        "capital",
    ),
    "currency": Phrases(
        "the currency of {t}", ("the currency of {t} is the {v}", "{t} uses the {v}"), "currency"
    ),
    "language": Phrases(
        "the main language of {t}",
        ("the main language of {t} is {v}", "{t} has the main language {v}"),
        "language",
    ),
    "region": Phrases("the region of {t}", ("{t} is in {v}", "{t} lies in {v}")),
    "population": Phrases(
        "the population of {t}", ("{t} has {v} people", "{v} people live in {t}"), "people"
    ),
    "latitude": Phrases("the latitude of {t}", ("the latitude of {t} is {v}",), "degrees"),
    "timezone": Phrases("the time zone of {t}", ("the time zone of {t} is {v}",), "time zone"),
    "area": Phrases("the area of {t}", ("{t} covers {v} square kilometres",), "area"),
    "domain": Phrases("the internet domain of {t}", ("the internet domain of {t} is {v}",), "domain"),
    "calling": Phrases("the calling code of {t}", ("the calling code of {t} is {v}",), "calling code"),
    "borders": Phrases("the neighbours of {t}", ("{t} borders {v}", "{v} is a neighbour of {t}"), "borders"),
    "place": Phrases(
        "where {t} was discovered", ("{t} was discovered in {v}", "{t} comes from {v}"), "discovered"
    ),
    "year": Phrases(
        "when {t} was discovered", ("{t} was discovered in {v}", "{t} was first found in {v}"), "discovered"
    ),
    "discoverers": Phrases("who discovered {t}", ("{t} was discovered by {v}",), "discoverer"),
    "symbol": Phrases("the symbol of {t}", ("the symbol of {t} is {v}", "{t} has the symbol {v}"), "symbol"),
    "series": Phrases("the family of {t}", ("{t} is one of the {v}", "{t} belongs to the {v}")),
    "number": Phrases(
        "the atomic number of {t}",
        ("the atomic number of {t} is {v}", "{t} has the atomic number {v}"),
        "number",
    ),
    "discovered": Phrases("what {t} discovered", ("{t} discovered {v}",), "discovered"),
    "code": Phrases(
        "the code of the {t}", ("the code of the {t} is {v}", "the {t} has the code {v}"), "code"
    ),
    "users": Phrases("the countries with the {t}", ("the {t} is used in {v}",), "currency of"),
    "speakers": Phrases("the countries of the {t}", ("the {t} is the main one of {v}",), "main language"),
    "members": Phrases("the countries of {t}", ("{v} is a country of {t}",), "countries"),
    "unknown": Phrases("the page of {t}", ("the page of {t} does not say so", "no more is said about {t}")),
}


def need(world: World, relation: str, title: str) -> str:
    """What one looks for: ``the capital of the Netherlands``."""
    return RELATIONS[relation].need.format(t=_inside(world, title))


def seen(world: World, relation: str, title: str, value: str, choice: int = 0) -> str:
    """What one has read: ``the capital of the Netherlands is Amsterdam``."""
    wordings = RELATIONS[relation].seen
    text = wordings[choice % len(wordings)]
    return text.format(t=_inside(world, title), v=world.spoken(value))


def _inside(world: World, title: str) -> str:
    return world.currency_titles.get(title) or world.spoken(title)
