"""The script for a GPU, where there is none: a tiny model goes the same way, and it says so."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu_lora_8b.py"


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU would train the real thing")
def test_without_a_gpu_a_tiny_model_trains_and_nothing_is_claimed(tmp_path, monkeypatch, capsys) -> None:
    found = tmp_path / "found.json"
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--document", "64", "--json", str(found)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    result = json.loads(found.read_text())
    assert (result["device"], result["steps"], result["document"]) == ("processor", 20, 64)
    assert result["tokens_per_second"] > 0
    assert "mfu" not in result
    assert "says nothing about a GPU" in capsys.readouterr().out


def test_a_gpu_is_known_by_its_drivers_name() -> None:
    peak_of = runpy.run_path(str(SCRIPT))["peak_of"]
    assert peak_of("NVIDIA H200", None) == 989.5e12
    assert peak_of("NVIDIA H100 PCIe", None) == 756.5e12
    assert peak_of("NVIDIA H100 80GB HBM3", None) == 989.5e12
    assert peak_of("Some other", None) is None
    assert peak_of("Some other", 100) == 100e12
