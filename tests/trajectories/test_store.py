from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import StoreError
from pipeline.trajectories.schema import SCHEMA_VERSION, Outcome, Step
from pipeline.trajectories.store import (
    TrajectoryStore,
    read_trajectories,
    trajectory_line,
    write_trajectories,
)
from tests.rollout.faults import fault
from tests.trajectories.making import room_for, trajectory


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "trajectories.jsonl"


def fill(path: Path, *names: str) -> None:
    with TrajectoryStore(path) as store:
        for name in names:
            store.append(trajectory(name))


def names(path: Path) -> list[str]:
    return [found.id for found in TrajectoryStore(path).read()]


def test_what_is_appended_comes_back(path: Path) -> None:
    first = trajectory("a", steps=[Step(observation="\u2028 \u00e9\x85", score=0.5)], opening="Hello")
    with TrajectoryStore(path) as store:
        assert len(store) == 0
        store.append(first)
        store.append(trajectory("b", outcome=Outcome.STEP_LIMIT))
        assert store.ids() == {"a", "b"}
        assert list(store.read()) == [first, trajectory("b", outcome=Outcome.STEP_LIMIT)]
    assert store.outcomes() == {"a": Outcome.FINISHED, "b": Outcome.STEP_LIMIT}
    assert "\u2028 \u00e9\x85" in path.read_bytes().decode()


def test_lone_surrogates_are_replaced(path: Path) -> None:
    with TrajectoryStore(path) as store:
        store.append(trajectory("a", answer="x\ud800"))
    assert [found.answer for found in TrajectoryStore(path).read()] == ["x\ufffd"]


def test_reading_what_is_not_there(path: Path) -> None:
    store = TrajectoryStore(path)
    assert (list(store.read()), store.ids()) == ([], set())
    store.close()
    assert not path.parent.exists()


def test_the_latest_row_of_an_id_counts(path: Path) -> None:
    case = fault("G02")
    with TrajectoryStore(path) as store:
        for row in case["input"]["rows"]:
            outcome = Outcome.FINISHED if row["ok"] else Outcome.MODEL_ERROR
            store.append(trajectory(row["id"], outcome=outcome))
    found = list(TrajectoryStore(path).read())
    assert len(found) == len(TrajectoryStore(path)) == case["expected"]["n"]
    assert sum(one.outcome is Outcome.FINISHED for one in found) == case["expected"]["success"]


def test_ids_choose_and_order(path: Path) -> None:
    fill(path, "a", "b", "c")
    assert [found.id for found in TrajectoryStore(path).read(["c", "x", "a"])] == ["c", "a"]


def test_a_torn_end_is_cut_by_the_next_writer(path: Path) -> None:
    fault("G01")
    fill(path, "a", "b")
    whole = path.read_bytes()
    torn = whole[: len(whole) - 30]
    path.write_bytes(torn)
    assert names(path) == ["a"]
    assert path.read_bytes() == torn, "a reader changes nothing"
    fill(path, "b")
    assert path.read_bytes() == whole


@given(cut=st.integers(min_value=0, max_value=700))
def test_wherever_it_is_torn_whole_rows_stay(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("torn") / "t.jsonl"
    lines = [trajectory_line(trajectory(name)) for name in "abc"]
    path.write_bytes(b"".join(lines)[:cut])
    ends = [sum(map(len, lines[: count + 1])) - 1 for count in range(3)]
    kept = sum(cut >= end for end in ends)
    fill(path, "d")
    assert names(path) == [*"abc"[:kept], "d"]
    assert path.read_bytes() == b"".join(lines[:kept]) + trajectory_line(trajectory("d"))


def test_a_last_line_that_lacks_only_its_line_feed_is_kept(path: Path) -> None:
    fill(path, "a", "b")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    store = TrajectoryStore(path)
    assert store.ids() == {"a", "b"}
    with store:
        store.append(trajectory("c"))
    assert names(path) == ["a", "b", "c"]
    assert path.read_bytes() == whole + trajectory_line(trajectory("c"))


@pytest.mark.parametrize(
    "broken", [b'{"id": "x"', b'{"version": 1, "id": "x"}', b"\xff\xfe", b"\0\0\0", b"[]"]
)
def test_a_broken_line_in_the_middle_is_named(path: Path, broken: bytes) -> None:
    fill(path, "a", "b")
    first, second, _ = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([first, b"", broken, second, b""]))
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"trajectories\.jsonl, line 3 is broken") as caught:
        TrajectoryStore(path).ids()
    assert "\n" not in str(caught.value)
    with pytest.raises(StoreError, match="line 3"):
        fill(path, "c")
    assert path.read_bytes() == before
    # The failed writer holds no lock.
    path.write_bytes(first + b"\n")
    fill(path, "c")


def test_a_row_without_provenance_is_not_a_trajectory(path: Path) -> None:
    fault("E09")
    row = trajectory("a").model_dump(mode="json")
    del row["task"]["id"]
    path.parent.mkdir()
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(StoreError, match=r"line 1 is not a trajectory: task\.id: Field required"):
        list(TrajectoryStore(path).read())
    with pytest.raises(StoreError, match=r"line 1 is not a trajectory: task\.id"):
        list(read_trajectories(path))


def test_a_newer_schema_is_refused(path: Path) -> None:
    row = {**trajectory("a").model_dump(mode="json"), "version": SCHEMA_VERSION + 1, "news": 1}
    path.parent.mkdir()
    path.write_text(json.dumps(row) + "\n")
    for read in (TrajectoryStore(path).ids, lambda: list(read_trajectories(path)), lambda: fill(path, "b")):
        with pytest.raises(StoreError, match="line 1 has schema version 2, newer than 1: update staract"):
            read()


def test_one_writer_at_a_time(path: Path) -> None:
    with TrajectoryStore(path) as first:
        first.append(trajectory("a"))
        second = TrajectoryStore(path)
        assert second.ids() == {"a"}
        with pytest.raises(StoreError, match=r"trajectories\.jsonl is being written by another process"):
            second.append(trajectory("b"))
        first.append(trajectory("c"))
        assert second.ids() == {"a", "c"}, "a reader sees what has come"
    with second:
        second.append(trajectory("b"))
    assert names(path) == ["a", "c", "b"]


def test_the_lock_holds_between_processes(path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from pipeline.trajectories.store import TrajectoryStore\n"
        "TrajectoryStore(Path(sys.argv[1])).lock()"
    )
    with TrajectoryStore(path) as store:
        store.lock()
        refused = subprocess.run(
            [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
        )
    assert "another process" in refused.stderr
    assert refused.returncode == 1


def test_a_full_disk_leaves_whole_lines(path: Path) -> None:
    fill(path, "a")
    before = path.read_bytes()
    with TrajectoryStore(path) as store:
        with room_for(len(before) + 50), pytest.raises(StoreError, match="cannot be written: No space left"):
            store.append(trajectory("b"))
        assert path.read_bytes() == before
        assert store.ids() == {"a"}
        store.append(trajectory("c"))
    assert names(path) == ["a", "c"]


def test_numbers_that_json_lacks_are_refused(path: Path) -> None:
    with TrajectoryStore(path) as store, pytest.raises(StoreError, match="JSON"):
        store.append(trajectory("a", seconds=float("nan")))
    assert path.read_bytes() == b""


def test_places_that_cannot_be_written_or_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        TrajectoryStore(tmp_path / "file" / "t.jsonl").lock()
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(StoreError, match="cannot be read: Is a directory"):
        TrajectoryStore(tmp_path / "folder.jsonl").ids()


def test_syncs_are_spaced_but_every_line_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr("pipeline.trajectories.store.os.fsync", lambda _: synced.append(1))
    with TrajectoryStore(path, sync_seconds=3600) as store:
        store.append(trajectory("a"))
        after_one = len(synced)
        store.append(trajectory("b"))
        assert len(synced) == after_one
        assert path.read_bytes().count(b"\n") == 2
    assert len(synced) == after_one + 1
    with TrajectoryStore(path, sync_seconds=0) as store:
        store.lock()
        before = len(synced)
        store.append(trajectory("c"))
        store.append(trajectory("d"))
        assert len(synced) == before + 2


def test_a_selection_is_written_whole_or_not_at_all(path: Path) -> None:
    assert write_trajectories(path, (trajectory(name) for name in "ab")) == 2
    assert [found.id for found in read_trajectories(path)] == ["a", "b"]
    with room_for(100), pytest.raises(StoreError, match="cannot be written"):
        write_trajectories(path, [trajectory("c")])
    assert [found.id for found in read_trajectories(path)] == ["a", "b"]
    assert list(path.parent.iterdir()) == [path]


def test_reading_holds_a_fraction_of_the_file_in_memory(path: Path) -> None:
    text = "x" * 10_000
    write_trajectories(path, (trajectory(f"{number:016}", opening=text) for number in range(2000)))
    tracemalloc.start()
    assert sum(1 for _ in TrajectoryStore(path).read()) == 2000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 20e6
    assert peak < 2e6
