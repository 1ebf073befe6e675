"""Known faults of other systems, where the shared folder holds them."""

import json
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "../shared/cases/known_faults.jsonl"


def known_fault(identity):
    """Input and expectation of one case; skips the test where there is no shared folder."""
    if not SHARED.is_file():
        pytest.skip("no shared folder beside the repository")
    for line in SHARED.read_text(encoding="utf-8").split("\n"):
        if line and json.loads(line)["id"] == identity:
            case = json.loads(line)
            return case["input"], case["expected"]
    pytest.fail(f"no case {identity} in {SHARED}")
