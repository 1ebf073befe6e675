"""Calls the command line in this process, as a shell would."""

import sys

import pytest

from pipeline.cli.main import main


class Cli:
    """``cli("run", recipe)`` gives the exit status; ``out`` and ``err`` are what it printed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self.out = self.err = ""

    def __call__(self, *arguments: object) -> int:
        self._monkeypatch.setattr(sys, "argv", ["staract", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
            sys.exit(0)
        captured = self._capsys.readouterr()
        self.out, self.err = captured.out, captured.err
        return int(ended.value.code or 0)
