"""Claims to be checked against the pages: supported, refuted, or not decided by them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.environments.atlas.drafts import Draft, Hop
from pipeline.environments.atlas.pairs import CLEARLY, both, city_people, clear, deal, element_year, facts_of
from pipeline.environments.atlas.phrases import seen
from pipeline.environments.atlas.wording import capital_letter, pick
from pipeline.environments.atlas.world import World

SUPPORTS, REFUTES, UNDECIDED = "SUPPORTS", "REFUTES", "NOT ENOUGH INFO"


@dataclass(frozen=True)
class Statement:
    """Hops to a true value, and wordings that state it (``{x}``) or a false one in its place."""

    hops: tuple[Hop, ...]
    wordings: tuple[str, ...]
    subject: str


ABOUT_COUNTRY: dict[str, tuple[str, ...]] = {
    "capital": ("The capital of {t} is {x}.", "{x} is the capital of {t}."),
    "currency": ("The currency of {t} is the {x}.", "{t} uses the {x}."),
    "language": ("The main language of {t} is {x}.", "{x} is the main language of {t}."),
    "region": ("{t} is a country in {x}.", "{t} lies in {x}."),
}
ABOUT_CITY: dict[str, tuple[str, ...]] = {
    "capital": (
        "The capital of the country where {t} lies is {x}.",
        "{t} is in the country with the capital {x}.",
    ),
    "currency": ("People in {t} pay with the {x}.", "The currency of the country of {t} is the {x}."),
    "language": ("The main language of the country where {t} lies is {x}.",),
    "region": ("{t} lies in a country of {x}.",),
}
ABOUT_ELEMENT: dict[str, tuple[str, ...]] = {
    "place": ("{t} was discovered in {x}.", "The place where {t} was discovered is {x}."),
    "year": ("{t} was discovered in {x}.", "The discovery of {t} dates from {x}."),
    "symbol": ("The symbol of {t} is {x}.", "{x} is the symbol of {t}."),
    "series": ("{t} is one of the {x}.", "{t} belongs to the {x}."),
    "number": ("The atomic number of {t} is {x}.", "{t} has the atomic number {x}."),
}
UNDECIDABLE: dict[str, tuple[str, ...]] = {
    "country": (
        "The national *flower* of {t} is a rose.",
        "{t} has more than twenty *universities*.",
        "The highest *mountain* of {t} is a volcano.",
        "The *parliament* of {t} has two chambers.",
        "{t} exports more *coffee* than tea.",
        "{t} has won an *Olympic* medal in rowing.",
        "The longest *river* of {t} flows to the east.",
        "*Football* is the favourite sport in {t}.",
        "The *flag* of {t} was adopted before 1950.",
    ),
    "city": (
        "A *river* runs through the centre of {t}.",
        "{t} has an underground *railway*.",
        "The *mayor* of {t} is a woman.",
        "{t} was *founded* before the year 1500.",
        "{t} has a *museum* of modern art.",
        "The oldest *building* in {t} is a church.",
        "The *football* club of {t} plays in red.",
        "{t} has held an international film *festival*.",
        "{t} has an *airport* with two runways.",
    ),
    "element": (
        "{t} *costs* more than silver.",
        "{t} is used in *medicine*.",
        "{t} was *named after* a village.",
        "{t} *melts* below 900 degrees.",
        "{t} is *harder* than glass.",
        "{t} *burns* with a green flame.",
        "{t} is used in *batteries*.",
    ),
    "person": (
        "{t} was *born* in a village.",
        "{t} *taught* at a university for ten years.",
        "{t} played the *violin*.",
        "{t} received a gold *medal*.",
        "{t} was *married* twice.",
        "{t} spoke four *languages*.",
    ),
}
"""What no page says. Between asterisks stands the word that a reader would look up."""


def claims(world: World) -> Iterator[Draft]:
    """Every claim."""
    pools = _Pools(world)
    for statement in _statements(world):
        yield from _stated(world, pools, statement)
    yield from _borders(world)
    yield from _compared(world)
    yield from _large_cities(world)
    yield from _undecided(world)


class _Pools:
    """Values to put in a true one's place: those that the same split has for the same relation."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._values: dict[tuple[str, str], list[str]] = {}
        for country in world.facts.countries.values():
            for relation in ABOUT_COUNTRY:
                self._add(country.name, relation, getattr(country, relation))
        for title, city in world.cities.items():
            self._add(title, "country", city.country)
        for element in world.facts.elements.values():
            for relation in ABOUT_ELEMENT:
                self._add(element.name, relation, getattr(element, relation))
            for person in element.discoverers:
                self._add(element.name, "discoverers", person)

    def _add(self, title: str, relation: str, value: str | int | None) -> None:
        if value is not None:
            values = self._values.setdefault((self._world.splits[title], relation), [])
            if str(value) not in values:
                values.append(str(value))

    def other(self, title: str, relation: str, true: Sequence[str]) -> str | None:
        """A false value, always the same for the same thing; None where the split knows no other."""
        values = [v for v in self._values[self._world.splits[title], relation] if v not in true]
        return pick(values, f"{title} {relation}") if values else None


def _statements(world: World) -> Iterator[Statement]:
    for country in world.facts.countries.values():
        for relation, wordings in ABOUT_COUNTRY.items():
            value = getattr(country, relation)
            if value:
                yield Statement((Hop(country.name, relation, value),), wordings, country.spoken)
    for title, city in world.cities.items():
        if "(" in title or title in world.capitals:
            continue
        first = Hop(title, "country", city.country)
        yield Statement((first,), ("{t} is a city in {x}.", "{t} lies in {x}."), title)
        for relation, wordings in ABOUT_CITY.items():
            value = getattr(world.facts.countries[city.country], relation)
            if value:
                yield Statement((first, Hop(city.country, relation, value)), wordings, title)
    for element in world.facts.elements.values():
        for relation, wordings in ABOUT_ELEMENT.items():
            value = getattr(element, relation)
            if value:
                yield Statement((Hop(element.name, relation, str(value)),), wordings, element.name.lower())
        if element.discoverers:
            hop = Hop(element.name, "discoverers", element.discoverers[0])
            wordings = ("{x} was a discoverer of {t}.", "{t} was discovered by {x}.")
            yield Statement((hop,), wordings, element.name.lower())


def _stated(world: World, pools: _Pools, statement: Statement) -> Iterator[Draft]:
    last = statement.hops[-1]
    true = [last.value]
    if last.relation == "discoverers":
        true = world.facts.elements[last.title].discoverers
    key = f"{statement.subject} {last.relation}"
    for label, value in ((SUPPORTS, last.value), (REFUTES, pools.other(last.title, last.relation, true))):
        if value is None:
            continue
        template = pick(statement.wordings, f"{key} {label}")
        text = capital_letter(template.format(t=statement.subject, x=world.spoken(value)))
        article = "the " if last.relation == "currency" else ""
        joint = "" if label == SUPPORTS else f", not {article}{world.spoken(value)}"
        reason = seen(world, last.relation, last.title, last.value) + joint
        yield Draft(label, text, (label,), statement.hops, facts_of(statement.hops), reason)


def _borders(world: World) -> Iterator[Draft]:
    countries = world.facts.countries
    pairs = [(country.name, other) for country in countries.values() for other in country.borders]
    for a, b in [*pairs, *deal(world, list(countries), "claimed borders", 6)]:
        if b in countries[a].unsure_borders or not countries[a].borders:
            continue
        label = SUPPORTS if b in countries[a].borders else REFUTES
        names = capital_letter(world.spoken(a)), world.spoken(b)
        text = pick(["{} borders {}.", "{} and {} share a border."], a + b).format(*names)
        reason = (
            seen(world, "borders", a, b) if label == SUPPORTS else f"{names[1]} is not among the neighbours"
        )
        hops = (Hop(a, "borders", b if label == SUPPORTS else ""),)
        yield Draft(label, text, (label,), hops, ((a, "borders"), (b, "borders")), reason)


def _compared(world: World) -> Iterator[Draft]:
    for relation, readings, template, rounds in (
        ("population", city_people(world), "More people live in {a} than in {b}.", 1),
        ("year", element_year(world), "{a} was discovered after {b}.", 6),
    ):
        for a, b in deal(world, list(readings), f"claimed {relation}", rounds):
            if "(" in a + b or not clear(relation, readings[a][0], readings[b][0]):
                continue
            label = SUPPORTS if readings[a][0] > readings[b][0] else REFUTES
            text = capital_letter(template.format(a=world.spoken(a), b=world.spoken(b)))
            hops = (Hop(a, relation, readings[a][1]), Hop(b, relation, readings[b][1]))
            yield Draft(label, text, (label,), hops, facts_of(hops), both(world, hops))


def _large_cities(world: World) -> Iterator[Draft]:
    million = 1_000_000
    for title, (people, written) in city_people(world).items():
        if "(" in title or million / CLEARLY < people < million * CLEARLY or people < million / 10:
            continue
        label = SUPPORTS if people > million else REFUTES
        hop = Hop(title, "population", written)
        text = f"More than a million people live in {title}."
        reason = seen(world, "population", title, written)
        yield Draft(label, text, (label,), (hop,), facts_of([hop]), reason)


def _undecided(world: World) -> Iterator[Draft]:
    things = {
        "country": list(world.facts.countries),
        "city": [title for title in world.cities if "(" not in title],
        "element": list(world.facts.elements),
        "person": list(world.persons),
    }
    for kind, titles in things.items():
        for title in titles:
            for template in random.Random(f"undecided {title}").sample(
                UNDECIDABLE[kind], 5 if kind != "city" else 1
            ):
                yield from _silent(world, template, world.spoken(title), (), title)
    for title in things["city"][::3]:
        city = world.cities[title]
        capital = world.facts.countries[city.country].capital
        if capital and title not in world.capitals:
            hops = (Hop(title, "country", city.country), Hop(city.country, "capital", capital))
            subject = f"the capital of the country where {title} lies"
            yield from _silent(world, pick(UNDECIDABLE["city"], title), subject, hops, capital)


def _silent(world: World, template: str, subject: str, hops: tuple[Hop, ...], title: str) -> Iterator[Draft]:
    """The claim, unless the word that a reader would look up is part of a name on the page."""
    before, keyword, after = template.split("*")
    text = capital_letter(f"{before}{keyword}{after}".format(t=subject))
    near = world.cities[title].nearest if title in world.cities else ""
    if keyword.casefold() in f"{title} {near}".casefold():
        return
    hops = (*hops, Hop(title, "unknown", keyword))
    reason = seen(world, "unknown", title, keyword, len(text))
    yield Draft(UNDECIDED, text, (UNDECIDED,), hops, facts_of(hops), reason)
