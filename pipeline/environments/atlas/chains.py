"""Questions whose answer stands at the end of a chain of pages: bridges of two and three hops."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.environments.atlas.drafts import Draft, Hop, chain
from pipeline.environments.atlas.facts import Country
from pipeline.environments.atlas.wording import amount, capital_letter, pick
from pipeline.environments.atlas.world import World

OF_COUNTRY: dict[str, tuple[str, ...]] = {
    "capital": (
        "What is the capital of the country where {x} lies?",
        "Which city is the capital of the country that {x} belongs to?",
        "{x} is in a country with which capital?",
    ),
    "currency": (
        "What is the currency of the country where {x} lies?",
        "Which currency is used in the country of {x}?",
        "With which currency do people pay in {x}?",
    ),
    "language": (
        "What is the main language of the country where {x} lies?",
        "Which language is the main one in the country of {x}?",
        "{x} is in a country with which main language?",
    ),
    "region": (
        "In which region of the world is the country where {x} lies?",
        "To which part of the world does the country of {x} belong?",
    ),
    "domain": ("What is the internet domain of the country where {x} lies?",),
    "calling": ("What is the calling code of the country where {x} lies?",),
}
"""What a city's country may be asked for."""

BELOW = ("domain", "calling")
"""Relations that need a look-up; asked of every ``BELOW_SHARE``-th city, not to crowd out the others."""

BELOW_SHARE = 5

OF_PLACE: dict[str, tuple[str, ...]] = {
    "capital": (
        "What is the capital of the country where {x} was discovered?",
        "{x} was discovered in a country with which capital?",
    ),
    "currency": (
        "What is the currency of the country where {x} was discovered?",
        "Which currency is used in the country where {x} was discovered?",
    ),
    "language": (
        "What is the main language of the country where {x} was discovered?",
        "{x} was discovered in a country with which main language?",
    ),
    "region": ("In which region of the world is the country where {x} was discovered?",),
}
"""What the country of an element's discovery may be asked for."""

OF_CAPITAL: dict[str, tuple[str, ...]] = {
    "currency": (
        "Which currency is used in the country whose capital is {x}?",
        "What is the currency of the country with the capital {x}?",
    ),
    "language": ("What is the main language of the country whose capital is {x}?",),
    "region": ("In which region of the world is the country whose capital is {x}?",),
}

OF_ELEMENT: dict[str, tuple[str, ...]] = {
    "symbol": ("What is the symbol of the element that {x} discovered?",),
    "series": ("To which family does the element that {x} discovered belong?",),
    "number": ("What is the atomic number of the element that {x} discovered?",),
    "year": ("In which year was the element that {x} discovered first found?",),
    "place": ("In which country was the element that {x} discovered found?",),
}


def value(country: Country, relation: str) -> str | None:
    """A country's value of a relation, as its page writes it."""
    return getattr(country, relation)


def _ask(templates: dict[str, tuple[str, ...]], relation: str, thing: str) -> str:
    return capital_letter(pick(templates[relation], f"{relation} {thing}").format(x=thing))


def bridges_of_two(world: World) -> Iterator[Draft]:
    """City, capital or element to its country to a fact of that; person to element to a fact of that."""
    countries = world.facts.countries
    for title, city in world.cities.items():
        capital = title in world.capitals
        first = Hop(title, "capital of" if capital else "country", city.country)
        for relation in OF_CAPITAL if capital else OF_COUNTRY:
            if relation in BELOW and pick(range(BELOW_SHARE), f"{relation} {title}"):
                continue
            found = value(countries[city.country], relation)
            if found and "(" not in title:
                text = _ask(OF_CAPITAL if capital else OF_COUNTRY, relation, title)
                yield chain(world, "bridge2", text, (first, Hop(city.country, relation, found)))
    for element in world.facts.elements.values():
        for relation in OF_PLACE if element.place else ():
            found = value(countries[element.place or ""], relation)
            if found:
                text = _ask(OF_PLACE, relation, element.name.lower())
                hops = (
                    Hop(element.name, "place", element.place or ""),
                    Hop(element.place or "", relation, found),
                )
                yield chain(world, "bridge2", text, hops)
    yield from _persons(world)


def _persons(world: World) -> Iterator[Draft]:
    for person, elements in world.persons.items():
        if len(elements) > 1:
            continue
        element = elements[0]
        for relation in OF_ELEMENT:
            found = getattr(element, relation)
            if found:
                hops = (Hop(person, "discovered", element.name), Hop(element.name, relation, str(found)))
                yield chain(world, "bridge2", _ask(OF_ELEMENT, relation, person), hops)


def bridges_of_three(world: World) -> Iterator[Draft]:
    """City or element to country to currency or capital to a fact of that; person to element to country."""
    for title, city in world.cities.items():
        if title not in world.capitals and "(" not in title:
            yield from _beyond(world, Hop(title, "country", city.country), title, "where {x} lies")
    for element in world.facts.elements.values():
        if element.place:
            first = Hop(element.name, "place", element.place)
            yield from _beyond(world, first, element.name.lower(), "where {x} was discovered")
    for person, elements in world.persons.items():
        place = elements[0].place
        if len(elements) > 1 or not place:
            continue
        for relation in ("capital", "currency", "language"):
            found = value(world.facts.countries[place], relation)
            if found:
                thing = f"the element of {person}"
                hops = (
                    Hop(person, "discovered", elements[0].name),
                    Hop(elements[0].name, "place", place),
                    Hop(place, relation, found),
                )
                yield chain(world, "bridge3", _ask(OF_PLACE, relation, thing), hops)


def _beyond(world: World, first: Hop, thing: str, where: str) -> Iterator[Draft]:
    """From a country on: to the code of its currency, and to people and time zone of its capital."""
    country = world.facts.countries[first.value]
    where = where.format(x=thing)
    if country.currency:
        currency = capital_letter(country.currency)
        code = world.facts.currencies[country.currency]
        templates = (
            "What is the international code of the currency of the country {}?",
            "What is the code of the money that people use in the country {}?",
        )
        hops = (first, Hop(country.name, "currency", country.currency), Hop(currency, "code", code))
        yield chain(world, "bridge3", pick(templates, thing).format(where), hops)
    capital = world.cities.get(country.capital or "")
    if capital is None or capital.country != country.name:
        return
    people = amount(capital.population)
    asked = {
        "population": (people, "How many people live in the capital of the country {}?"),
        "timezone": (capital.timezone, "What is the time zone of the capital of the country {}?"),
    }
    for relation, (found, template) in asked.items():
        hops = (first, Hop(country.name, "capital", capital.name), Hop(capital.name, relation, found))
        also = (
            (f"{found} people", f"about {found}", f"about {found} people") if relation == "population" else ()
        )
        yield chain(world, "bridge3", template.format(where), hops, *also)
