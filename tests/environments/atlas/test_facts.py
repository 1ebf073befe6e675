import json

import pytest

from pipeline.environments.atlas import facts
from pipeline.errors import EnvironmentFault


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(facts.resources, "files", lambda _: tmp_path)
    facts.load_facts.cache_clear()
    yield tmp_path
    facts.load_facts.cache_clear()


def test_missing_facts(folder):
    with pytest.raises(EnvironmentFault, match="facts of the atlas are missing"):
        facts.load_facts()


def test_facts_of_another_version(folder):
    (folder / "facts.json").write_text(json.dumps({"version": 99}))
    with pytest.raises(EnvironmentFault, match="has version 99, not 1"):
        facts.load_facts()
