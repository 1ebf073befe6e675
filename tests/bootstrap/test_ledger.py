from __future__ import annotations

import pytest
from pydantic import ValidationError

from pipeline.bootstrap.ledger import KEPT, Ledger, Tally, ledger_table
from pipeline.bootstrap.rules import ORDER


def small() -> Ledger:
    tally = Tally()
    tally.add("t2", "bridge2", KEPT)
    tally.add("t1", "a|b\n", "correct")
    tally.add("t1", "a|b\n", KEPT)
    tally.add("t3", "", "target")
    return tally.close(["t3", "t1"])


def test_the_tally_adds_up() -> None:
    ledger = small()
    assert (ledger.seen, ledger.kept, ledger.tasks_kept) == (4, 2, 2)
    assert list(ledger.fallen) == ledger.order == list(ORDER)
    assert {name: count for name, count in ledger.fallen.items() if count} == {"correct": 1, "target": 1}
    assert ledger.kinds["a|b\n"] == {"correct": 1, "kept": 1}
    assert list(ledger.tasks) == ["t1", "t2", "t3"]
    assert ledger.conflicts == ["t1", "t3"]


@pytest.mark.parametrize("change", [{"kept": 3}, {"seen": 5}, {"kinds": {}}, {"tasks": {"t1": {"kept": 9}}}])
def test_a_ledger_that_does_not_add_up_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="does not add up"):
        Ledger.model_validate({**small().model_dump(), **change})


def test_the_table() -> None:
    lines = ledger_table(small()).split("\n")
    assert lines[:3] == [
        "| rule | all | (no kind) | a\\|b  | bridge2 |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| seen | 4 | 1 | 2 | 1 |",
    ]
    assert "| − correct | 1 | 0 | 1 | 0 |" in lines
    assert "| kept | 2 | 0 | 1 | 1 |" in lines
    assert "2 trajectories of 2 tasks kept, of 3 seen." in lines
    assert "2 tasks ask what another asks, with another gold answer." in lines
