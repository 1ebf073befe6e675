"""The pages of the atlas, written from its facts: short sentences, one fact each, and redirects.

What questions ask most stands in the first five sentences, which a search shows; areas, internet
domains and calling codes stand below and need a look-up.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.environments.atlas.facts import City, Country, Element
from pipeline.environments.atlas.wording import amount, capital_letter, listing, pick
from pipeline.environments.atlas.world import World
from pipeline.environments.wiki.backend import Page


def pages(world: World) -> Iterator[Page]:
    """Every page of the atlas."""
    for country in world.facts.countries.values():
        yield Page(country.name, " ".join(_country(world, country)))
    for title, city in world.cities.items():
        yield Page(title, " ".join(_city(world, title, city)))
    for element in world.facts.elements.values():
        yield Page(element.name, " ".join(_element(world, element)))
    for person in world.persons:
        yield Page(person, " ".join(_person(world, person)))
    yield from _groups(world)


def redirects(world: World) -> Iterator[tuple[str, str]]:
    """Other titles, each with the title it leads to; one that stands twice is ambiguous."""
    for country in world.facts.countries.values():
        for alias in [*country.aliases, f"the {country.name}"]:
            yield alias, country.name
    for title, city in world.cities.items():
        yield city.name, title
    for american, british in world.facts.spellings.items():
        yield british, american
    for element in world.facts.elements.values():
        yield element.symbol, element.name
    for person in world.persons:
        yield person.split()[-1], person
    for currency, code in world.facts.currencies.items():
        yield code, capital_letter(currency)
        yield f"the {currency}", capital_letter(currency)
    for language in world.facts.languages:
        yield language, f"{language} language"


def _country(world: World, country: Country) -> Iterator[str]:
    name = country.spoken
    people = f" with {amount(country.population)} people" if country.population else ""
    yield f"{capital_letter(name)} is a country in {world.spoken(country.region)}{people}."
    if country.capital:
        yield pick(
            [f"The capital of {name} is {country.capital}.", f"Its capital is {country.capital}."], name
        )
    if country.currency:
        templates = ["Its currency is the {}.", "The currency is the {}."]
        yield pick(templates, name[::-1]).format(country.currency)
    if country.language:
        yield pick(["Its main language is {}.", "The main language is {}."], name[1:]).format(
            country.language
        )
    if country.borders:
        yield f"It borders {listing([world.spoken(other) for other in country.borders])}."
    elif not country.unsure_borders:
        yield "It borders no other country."
    if country.area:
        yield f"It covers an area of {country.area:,} square kilometres."
    if country.domain and country.calling:
        yield f"Its internet domain is {country.domain} and its calling code is {country.calling}."


def _city(world: World, title: str, city: City) -> Iterator[str]:
    country = world.spoken(city.country)
    if title in world.capitals:
        yield f"{city.name} is the capital of {country}."
    else:
        templates = ["{} is a city in {}.", "{} is a large city in {}."]
        yield pick(templates, title).format(city.name, country)
    people = amount(city.population)
    yield pick(["About {} people live there.", "It has about {} people."], title[::-1]).format(people)
    side = "north" if city.latitude >= 0 else "south"
    yield f"Its latitude is {abs(city.latitude)} degrees {side}."
    if title in world.capitals:
        yield f"Its time zone is {city.timezone}."
    if city.nearest:
        yield f"The nearest large city is {city.nearest}."


def _element(world: World, element: Element) -> Iterator[str]:
    yield f"{element.name} is a chemical element with the symbol {element.symbol}."
    yield pick(["It is one of the {}.", "It belongs to the {}."], element.name).format(element.series)
    place = f" in {world.spoken(element.place)}" if element.place else ""
    year = f" in {element.year}" if element.year else ""
    if place or year:
        yield f"It was discovered{place}{year}."
    if element.discoverers:
        many = "s were" if len(element.discoverers) > 1 else " was"
        yield f"Its discoverer{many} {listing(element.discoverers)}."
    yield f"Its atomic number is {element.number}."
    group = f"group {element.group} and " if element.group else ""
    yield f"It stands in {group}period {element.period} of the periodic table."


def _person(world: World, person: str) -> Iterator[str]:
    found = world.persons[person]
    names = listing([element.name.lower() for element in found])
    yield f"{person} is remembered for the history of chemistry."
    yield f"{person} discovered the element{'s' if len(found) > 1 else ''} {names}."
    years = [element.year for element in found if element.year]
    if len(found) == 1 and years:
        yield f"The year of this discovery was {years[0]}."
    elif len(found) > 1 and len(years) == len(found):
        yield f"The first of these discoveries came in {min(years)}."
    partners = sorted({other for element in found for other in element.discoverers} - {person})
    if partners:
        yield f"{listing(partners)} had a part in this work."
    else:
        yield "No partner in this work is named here."


def _groups(world: World) -> Iterator[Page]:
    for currency, code in world.facts.currencies.items():
        users = [country.spoken for country in world.users(currency)]
        yield Page(
            capital_letter(currency),
            f"The {currency} is the currency of {listing(users)}. Its international code is {code}. "
            f"The number of countries that use it is {len(users)}. Central banks issue its notes and coins.",
        )
    for language, code in world.facts.languages.items():
        speakers = [country.spoken for country in world.speakers(language)]
        yield Page(
            f"{language} language",
            f"{language} is the main language of {listing(speakers)}. Its two-letter code is {code}. "
            f"The number of countries that this atlas lists for it is {len(speakers)}. "
            "People may speak it elsewhere too.",
        )
    for region, members in world.regions.items():
        yield Page(
            region,
            f"{capital_letter(world.spoken(region))} is a region of the world. "
            f"Its countries are {listing([country.spoken for country in members])}. "
            f"The number of countries there is {len(members)}. Each has a page of its own.",
        )
    for series, elements in world.series.items():
        yield Page(
            capital_letter(series),
            f"The {series} are a family of chemical elements. "
            f"They are {listing([element.name.lower() for element in elements])}. "
            f"The number of elements in this family is {len(elements)}. Each has a page of its own.",
        )
