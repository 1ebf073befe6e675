"""Questions about two things: which of them has more, and whether something holds for both."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from pipeline.environments.atlas.drafts import Draft, Hop, accepted
from pipeline.environments.atlas.phrases import seen
from pipeline.environments.atlas.wording import amount, pick
from pipeline.environments.atlas.world import World
from pipeline.trajectories.schema import Split

CLEARLY = 1.25
"""How many times larger a thing must be than another to be compared with it: sources differ."""

ROUNDS = 3
"""How often the things of a split are dealt into pairs."""

Readings = dict[str, tuple[float, str]]
"""By title: the number to compare, and how its page writes it."""


def deal(world: World, titles: Sequence[str], key: str, rounds: int = ROUNDS) -> Iterator[tuple[str, str]]:
    """Pairs of things of the same split, always the same for the same key."""
    groups: dict[Split, list[str]] = {}
    for title in titles:
        split = world.splits.get(title)
        if split:
            groups.setdefault(split, []).append(title)
    for split, members in groups.items():
        for number in range(rounds):
            order = sorted(members)
            random.Random(f"{key} {split} {number}").shuffle(order)
            yield from zip(order[::2], order[1::2], strict=False)


def city_people(world: World) -> Readings:
    """People of every city."""
    return {title: (city.population, amount(city.population)) for title, city in world.cities.items()}


def city_north(world: World) -> Readings:
    """Latitude of every northern city, in degrees."""
    return {
        title: (city.latitude, f"{city.latitude} degrees north")
        for title, city in world.cities.items()
        if city.latitude > 1
    }


def country_people(world: World) -> Readings:
    """People of every country where they are known."""
    countries = world.facts.countries.values()
    return {c.name: (c.population, amount(c.population)) for c in countries if c.population}


def country_area(world: World) -> Readings:
    """Area of every country where it is known."""
    return {c.name: (c.area, f"{c.area:,}") for c in world.facts.countries.values() if c.area}


def element_year(world: World) -> Readings:
    """Year of discovery of every element where it is known."""
    return {e.name: (e.year, str(e.year)) for e in world.facts.elements.values() if e.year}


def element_number(world: World) -> Readings:
    """Atomic number of every element."""
    return {e.name: (e.number, str(e.number)) for e in world.facts.elements.values()}


COMPARISONS: tuple[tuple[str, Callable[[World], Readings], bool, tuple[str, ...], int], ...] = (
    (
        "population",
        city_people,
        True,
        ("Which city has more people, {a} or {b}?", "Which is the larger city, {a} or {b}?"),
        2,
    ),
    ("latitude", city_north, True, ("Which city lies further north, {a} or {b}?",), 1),
    (
        "population",
        country_people,
        True,
        ("Which country has more people, {a} or {b}?", "Do more people live in {a} or in {b}?"),
        6,
    ),
    ("area", country_area, True, ("Which country covers a larger area, {a} or {b}?",), 3),
    (
        "year",
        element_year,
        False,
        ("Which element was discovered first, {a} or {b}?", "Was {a} or {b} discovered earlier?"),
        12,
    ),
    ("number", element_number, True, ("Which element has the higher atomic number, {a} or {b}?",), 6),
)
"""Relation, readings, whether the larger wins, wordings, rounds of pairs."""


def clear(relation: str, one: float, other: float) -> bool:
    """Whether two readings differ enough to be compared."""
    if relation in ("latitude", "year", "number"):
        return abs(one - other) >= 3
    return max(one, other) >= CLEARLY * min(one, other)


def comparisons(world: World) -> Iterator[Draft]:
    """Which of two has more, lies further, came first."""
    for relation, readings_of, larger, templates, rounds in COMPARISONS:
        readings = readings_of(world)
        for a, b in deal(world, list(readings), f"{relation} {templates[0]}", rounds):
            one, other = readings[a], readings[b]
            if not clear(relation, one[0], other[0]) or "(" in a + b:
                continue
            winner = a if (one[0] > other[0]) == larger else b
            text = pick(templates, a + b).format(a=world.spoken(a), b=world.spoken(b))
            hops = (Hop(a, relation, one[1]), Hop(b, relation, other[1]))
            reason = f"{both(world, hops[:1])}, {world.spoken(b)} {hops[1].value}"
            yield Draft("comparison", text, accepted(world, winner), hops, facts_of(hops), reason)


def facts_of(hops: Sequence[Hop]) -> tuple[tuple[str, str], ...]:
    """The facts that hops over pages of single things use."""
    return tuple((hop.title, hop.relation) for hop in hops)


def both(world: World, hops: Sequence[Hop], joint: str = "and") -> str:
    """Two readings in one clause."""
    return f" {joint} ".join(seen(world, hop.relation, hop.title, hop.value) for hop in hops)


def yes_or_no(world: World) -> Iterator[Draft]:
    """Same country, same currency, same language, a border, an order of years."""
    yield from _same_country(world)
    countries = world.facts.countries
    for relation, text in (
        ("currency", "Do {a} and {b} use the same currency?"),
        ("language", "Do {a} and {b} have the same main language?"),
        ("region", "Are {a} and {b} in the same region of the world?"),
    ):
        known = {c.name: getattr(c, relation) for c in countries.values() if getattr(c, relation)}
        for a, b in [*deal(world, list(known), text, 6), *_alike(world, known)]:
            hops = (Hop(a, relation, known[a]), Hop(b, relation, known[b]))
            yield _closed(
                world, text.format(a=world.spoken(a), b=world.spoken(b)), hops, known[a] == known[b]
            )
    for a, b in deal(world, list(element_year(world)), "before", 10):
        years = element_year(world)
        if clear("year", years[a][0], years[b][0]):
            text = f"Was {world.spoken(a)} discovered before {world.spoken(b)}?"
            hops = (Hop(a, "year", years[a][1]), Hop(b, "year", years[b][1]))
            yield _closed(world, text, hops, years[a][0] < years[b][0])
    yield from _borders(world)


def _closed(world: World, text: str, hops: tuple[Hop, ...], true: bool) -> Draft:
    joint = "and" if true else "but"
    answer = "yes" if true else "no"
    return Draft("yesno", text, (answer,), hops, facts_of(hops), both(world, hops, joint))


def _alike(world: World, known: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Pairs that share a value, which chance alone would seldom bring together."""
    groups: dict[str, list[str]] = {}
    for title, shared in known.items():
        groups.setdefault(shared, []).append(title)
    for shared, members in groups.items():
        yield from deal(world, members, f"alike {shared}", 6)


def _same_country(world: World) -> Iterator[Draft]:
    plain = [title for title in world.cities if title not in world.capitals and "(" not in title]
    homes = {title: world.cities[title].country for title in plain}
    for a, b in [*deal(world, plain, "same country", 1), *_alike(world, homes)]:
        hops = (Hop(a, "country", homes[a]), Hop(b, "country", homes[b]))
        yield _closed(world, f"Are {a} and {b} in the same country?", hops, homes[a] == homes[b])


def _borders(world: World) -> Iterator[Draft]:
    countries = world.facts.countries
    pairs = [(country.name, other) for country in countries.values() for other in country.borders]
    for a, b in [*pairs, *deal(world, list(countries), "borders", 6)]:
        if b in countries[a].unsure_borders or not countries[a].borders:
            continue
        true = b in countries[a].borders
        text = f"Does {world.spoken(a)} border {world.spoken(b)}?"
        reason = seen(world, "borders", a, b) if true else f"{world.spoken(b)} is not among the neighbours"
        facts = ((a, "borders"), (b, "borders"))
        yield Draft(
            "yesno", text, ("yes" if true else "no",), (Hop(a, "borders", b if true else ""),), facts, reason
        )
