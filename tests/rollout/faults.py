"""The shared cases of faults that other projects had, where they are at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

CASES = Path(__file__).resolve().parents[2] / "../shared/cases/known_faults.jsonl"


def fault(name: str) -> dict[str, Any]:
    """One case by its id; skips the test where there are none."""
    if not CASES.exists():
        pytest.skip("the shared cases are not here")
    return next(case for case in map(json.loads, CASES.read_text().split("\n")) if case["id"] == name)
