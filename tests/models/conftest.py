import pytest

from tests.cli.running import Cli


@pytest.fixture
def cli(monkeypatch, capsys):
    return Cli(monkeypatch, capsys)
