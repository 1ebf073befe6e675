"""The facts of the atlas as a world: titles, who belongs to whom, and which split a thing is of.

Every country is of one split, together with its cities, the elements discovered there and their
discoverers. A task may only use things of one split, so that no fact of a test task is ever part of
a training task.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import cache, cached_property

from pipeline.environments.atlas.facts import City, Country, Element, Facts, load_facts
from pipeline.environments.atlas.wording import capital_letter
from pipeline.trajectories.schema import Split

SHARES: tuple[tuple[Split, float], ...] = (("test", 0.27), ("dev", 0.11), ("train", 0.62))
"""Shares of the countries; whole neighbourhoods are dealt out, so these are met only roughly."""

NEIGHBOURHOOD = 7
"""At most so many countries that border each other are dealt out together: questions about borders
need neighbours in one split."""

PROMINENT = 10.0
"""A city with so many times the people of its namesakes, or a capital, has the plain title."""


class World:
    """Lookups over the facts. ``cities`` and ``persons`` are by title, in a fixed order."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.cities = _city_titles(facts)
        by_place = {(city.name, city.country): title for title, city in self.cities.items()}
        self.capitals: dict[str, str] = {}
        for country in facts.countries.values():
            title = by_place.get((country.capital or "", country.name))
            if title:
                self.capitals[title] = country.name
        self.persons: dict[str, list[Element]] = {}
        for element in facts.elements.values():
            for person in element.discoverers:
                self.persons.setdefault(person, []).append(element)
        self.currency_titles = {capital_letter(name): name for name in facts.currencies}
        self.series: dict[str, list[Element]] = {}
        for element in facts.elements.values():
            self.series.setdefault(element.series, []).append(element)
        self.regions: dict[str, list[Country]] = {}
        for country in facts.countries.values():
            self.regions.setdefault(country.region, []).append(country)

    def users(self, currency: str) -> list[Country]:
        """The countries that use a currency."""
        return [country for country in self.facts.countries.values() if country.currency == currency]

    def speakers(self, language: str) -> list[Country]:
        """The countries whose main language it is."""
        return [country for country in self.facts.countries.values() if country.language == language]

    def spoken(self, title: str) -> str:
        """A title as it stands inside a sentence: ``the Netherlands``, ``the Caribbean``, ``hafnium``."""
        country = self.facts.countries.get(title)
        if country:
            return country.spoken
        if title in self.facts.elements:
            return title.lower()
        return f"the {title}" if title == "Caribbean" else title

    @cached_property
    def splits(self) -> dict[str, Split]:
        """The split of every country, city, element, person and currency that is of one split only."""
        splits = _country_splits(self.facts)
        splits |= {title: splits[city.country] for title, city in self.cities.items()}
        for element in self.facts.elements.values():
            splits[element.name] = splits[element.place] if element.place else _dealt(element.name)
        for person, elements in self.persons.items():
            _join(splits, person, [element.name for element in elements])
        for currency in self.facts.currencies:
            _join(splits, capital_letter(currency), [country.name for country in self.users(currency)])
        return splits

    def split(self, titles: Iterable[str]) -> Split | None:
        """The one split that all these things are of, or None."""
        found: set[Split | None] = {self.splits.get(title) for title in titles}
        return found.pop() if len(found) == 1 else None


@cache
def load_world() -> World:
    """The world of the packaged facts, built once a process."""
    return World(load_facts())


def _city_titles(facts: Facts) -> dict[str, City]:
    groups: dict[str, list[City]] = {}
    for city in facts.cities:
        groups.setdefault(city.name, []).append(city)
    titles: dict[str, City] = {}
    for name, cities in groups.items():
        capitals = [city for city in cities if facts.countries[city.country].capital == name]
        first, *others = [*capitals, *sorted(cities, key=lambda city: -city.population)]
        others = [city for city in others if city is not first]
        prominent = bool(capitals) or all(first.population >= PROMINENT * city.population for city in others)
        titles[name if prominent else f"{name} ({first.country})"] = first
        titles |= {f"{name} ({city.country})": city for city in others}
    return titles


def _join(splits: dict[str, Split], title: str, members: list[str]) -> None:
    found: set[Split] = {splits[member] for member in members}
    if len(found) == 1:
        splits[title] = found.pop()


def _dealt(name: str) -> Split:
    draw = random.Random(f"split of {name}").random()
    for split, share in SHARES:
        if draw < share:
            return split
        draw -= share
    return "train"


def _country_splits(facts: Facts) -> dict[str, Split]:
    names = sorted(facts.countries)
    random.Random("neighbourhoods of the atlas, 1").shuffle(names)
    splits: dict[str, Split] = {}
    for name in names:
        if name in splits:
            continue
        members = _neighbourhood(facts, name, set(splits))
        counts = {split: sum(1 for other in splits.values() if other == split) for split, _ in SHARES}
        # Deal to the split that is furthest behind its share: the result is even and stable.
        behind = max(SHARES, key=lambda item: item[1] * len(splits) - counts[item[0]])[0]
        splits |= dict.fromkeys(members, behind)
    return splits


def _neighbourhood(facts: Facts, name: str, taken: set[str]) -> list[str]:
    members = [name]
    for member in members:
        for other in facts.countries[member].borders:
            if len(members) < NEIGHBOURHOOD and other not in taken and other not in members:
                members.append(other)
    return members
