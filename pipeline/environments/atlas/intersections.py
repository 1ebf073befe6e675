"""Questions about the one thing that two pages have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.environments.atlas.drafts import Draft, Hop, accepted
from pipeline.environments.atlas.facts import Country, Element
from pipeline.environments.atlas.wording import capital_letter, pick
from pipeline.environments.atlas.world import World


def intersections(world: World) -> Iterator[Draft]:
    """The one thing that two pages have in common."""
    countries = world.facts.countries
    for country in countries.values():
        for other in countries[country.name].borders:
            yield from _neighbour_with(world, country, countries[other])
            for third in country.borders:
                if other < third:
                    yield from _between(world, other, third, country)
    for country in countries.values():
        yield from _of_region(world, country)
    for person, elements in world.persons.items():
        for element in elements if len(elements) > 1 else ():
            yield from _of_family(world, person, element)


def _neighbour_with(world: World, country: Country, answer: Country) -> Iterator[Draft]:
    neighbours = [world.facts.countries[name] for name in (*country.borders, *country.unsure_borders)]
    for relation, listed, page in _lists(answer):
        if not _only(neighbours, relation, answer):
            continue
        text = f"Which country borders {country.spoken} and {_having(relation, answer)}?"
        hops = (Hop(country.name, "borders", answer.name), Hop(page, listed, answer.name))
        facts = ((country.name, "borders"), (answer.name, "borders"), (answer.name, relation))
        yield Draft("intersection", text, accepted(world, answer.name), hops, facts, _on_both(answer))


def _only(countries: Sequence[Country], relation: str, answer: Country) -> bool:
    """Whether one country alone has its value of a relation, and the others' are all known."""
    values = [getattr(country, relation) for country in countries]
    return None not in values and values.count(getattr(answer, relation)) == 1


def _lists(country: Country) -> Iterator[tuple[str, str, str]]:
    """For each fact of a country that has a list page: relation, the list's relation, its title."""
    if country.currency:
        yield "currency", "users", capital_letter(country.currency)
    if country.language:
        yield "language", "speakers", f"{country.language} language"
    yield "region", "members", country.region


def _having(relation: str, country: Country) -> str:
    if relation == "currency":
        return f"uses the {country.currency}"
    if relation == "language":
        return f"has {country.language} as its main language"
    return f"lies in {'the ' if country.region == 'Caribbean' else ''}{country.region}"


def _on_both(country: Country) -> str:
    return f"{country.spoken} is on both lists"


def _between(world: World, one: str, other: str, answer: Country) -> Iterator[Draft]:
    countries = world.facts.countries
    around = [{*countries[name].borders, *countries[name].unsure_borders} for name in (one, other)]
    if around[0] & around[1] != {answer.name}:
        return
    templates = ("Which country borders both {a} and {b}?", "Which country is a neighbour of {a} and of {b}?")
    text = pick(templates, one + other).format(a=world.spoken(one), b=world.spoken(other))
    hops = (Hop(one, "borders", answer.name), Hop(other, "borders", answer.name))
    facts = ((one, "borders"), (other, "borders"), (answer.name, "borders"))
    yield Draft("intersection", text, accepted(world, answer.name), hops, facts, _on_both(answer))


def _of_region(world: World, country: Country) -> Iterator[Draft]:
    for relation, listed, page in [*_lists(country)][:-1]:
        if _only(world.regions[country.region], relation, country):
            text = f"Which country {_having('region', country)} and {_having(relation, country)}?"
            hops = (Hop(country.region, "members", country.name), Hop(page, listed, country.name))
            facts = ((country.name, "region"), (country.name, relation))
            yield Draft("intersection", text, accepted(world, country.name), hops, facts, _on_both(country))


def _of_family(world: World, person: str, element: Element) -> Iterator[Draft]:
    found = world.persons[person]
    if [other for other in found if other.series == element.series] != [element]:
        return
    text = f"Which of the {element.series} did {person} discover?"
    hops = (
        Hop(person, "discovered", element.name),
        Hop(capital_letter(element.series), "members", element.name),
    )
    facts = ((person, "discovered"), (element.name, "series"))
    reason = f"{element.name.lower()} is on both lists"
    yield Draft("intersection", text, accepted(world, element.name), hops, facts, reason)
