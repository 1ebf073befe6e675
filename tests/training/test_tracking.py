"""wandb and trackio for real, on this machine alone: what they are told, and what they never see."""

from __future__ import annotations

import importlib
import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.recipe.models import LoraRecipe, TrainRecipe
from pipeline.training.episodes import Episodes
from pipeline.training.plan.gpus import by_device_name
from pipeline.training.plan.student import count
from pipeline.training.tracking_table import LONGEST, ROWS, episode_rows, harmless, scrubbed
from pipeline.training.utilisation import Utilisation, utilisation
from pipeline.trajectories.schema import Grade, Outcome, Step, Task, Trajectory
from pipeline.trajectories.store import write_trajectories
from tests.training.making import make_model
from tests.training.test_causal import Place, record_order

KEY = "sk-planted-0123456789"
IN_URL = ("hunter2hunter2", "planted-query")
WATCHED = """batch_size: 2
packing: false
save_every: 2
validate_on: {method: {name: react}}
"""


def played(number: int = 1, **changes: Any) -> Trajectory:
    task = Task(
        id=f"task-{number:02}", environment="atlas", split="dev", instruction=f"Where <script>? {KEY}"
    )
    step = Step(thought="hm", action="Search[Lima](javascript:x)", observation="![a](http://b/?c) \x1b[31m")
    return Trajectory(
        id=f"id-{number}",
        task=task,
        method="react",
        model="student",
        steps=[step],
        outcome=Outcome.FINISHED,
        answer="Lima",
        grade=Grade(reward=0.5),
    ).model_copy(update=changes)


@pytest.fixture(autouse=True)
def _surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_PROJECT", "TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SOME_API_KEY", KEY)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "wandb-config"))
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def score(self: Episodes, checkpoint: Path, step: int) -> float:
        write_trajectories(self._folder / f"episodes-{step}.jsonl", [played()])
        return step / 10

    monkeypatch.setattr(Episodes, "score", score)


@pytest.fixture
def wandb() -> Iterator[Any]:
    library: Any = importlib.import_module("wandb")
    library.teardown()
    yield library
    library.teardown()


@pytest.fixture
def trackio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The library as it is when it is first imported: its folder is read then."""
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    for name in [name for name in sys.modules if name.split(".")[0] == "trackio"]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module("trackio")


def written(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def assert_nothing_secret(content: bytes) -> None:
    assert b"share_of_peak" in content, "what is searched is not packed"
    for secret in (KEY, *IN_URL):
        assert secret.encode() not in content


SECRETIVE = f"environment.options.url=https://user:{IN_URL[0]}@host.example/path?key={IN_URL[1]}"


def test_wandb_offline_is_told_everything_but_secrets(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, wandb: Any
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    place = Place(tmp_path, base, train=WATCHED, count=8, dev=2)
    assert place.train("train.tracker=wandb", SECRETIVE) == 0
    [run] = (tmp_path / "wandb").glob("offline-run-*")
    stamp = json.loads((place.checkpoints / "react" / "staract.json").read_text())
    assert run.name.endswith(stamp["digest"]), "the run's id is the training's identity"
    content = written(tmp_path / "wandb")
    assert_nothing_secret(content)
    for told in ("train/loss", "train/labelled_tokens", "train/tokens_per_second", "eval/loss", "eval/score"):
        assert told.encode() in content
    assert b"https://host.example/path" in content, "the recipe is there, without login and query"
    tables = sorted((run / "files" / "media" / "table").glob("episodes_*.json"))
    shown = [json.loads(path.read_text(encoding="utf-8")) for path in tables]
    assert [row[0] for table in shown for row in table["data"]] == [2, 4]
    _, task, story, outcome, answer, reward = shown[0]["data"][0]
    assert (outcome, answer, reward) == ("finished", "Lima", 0.5)
    assert task == "task-01: Where ＜script＞? $SOME_API_KEY"
    assert story == (
        "Thought 1: hm\nAction 1: Search[Lima] (javascript:x)\nObservation 1: ! [a] (http://b/  [31m"
    )
    assert wandb.run is None, "another student gets a run of its own"


def metrics(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """The names of runs, and what was told of them, in order."""
    [database] = (folder / "trackio").glob("*.db")
    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT run_name, metrics FROM metrics ORDER BY id").fetchall()
    return [(name, json.loads(told)) for name, told in rows]


def test_trackio_goes_on_with_the_run_of_a_training_that_was_stopped(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, trackio: Any
) -> None:
    place = Place(tmp_path, base, train=WATCHED, count=10)
    with monkeypatch.context() as patch:
        record_order(patch, stop_at=3)
        assert place.train("train.tracker=trackio", SECRETIVE) == 130
    assert place.train("train.tracker=trackio", SECRETIVE) == 0
    told = metrics(tmp_path)
    assert len({name for name, _ in told}) == 1
    losses = {one["train/global_step"]: one["train/loss"] for _, one in told if "train/loss" in one}
    assert losses == {number: entry["loss"] for number, entry in enumerate(place.log(), 1)}
    assert len(losses) == len([one for _, one in told if "train/loss" in one]) == 5, "each step once"
    scores = [(one["train/global_step"], one["eval/score"]) for _, one in told if "eval/score" in one]
    assert scores == [(2, 0.2), (4, 0.4), (5, 0.5)]
    tables = [one["episodes"]["_value"] for _, one in told if "episodes" in one]
    assert [row["reward"] for table in tables for row in table] == [0.5, 0.5, 0.5]
    assert_nothing_secret(written(tmp_path / "trackio"))


def test_a_tracker_that_fails_in_the_middle_is_left_and_training_ends_well(
    tmp_path: Path,
    base: Path,
    monkeypatch: pytest.MonkeyPatch,
    trackio: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls: list[Any] = []

    def log(*given: Any, **_: Any) -> None:
        calls.append(given)
        if len(calls) > 1:
            raise ConnectionError(f"gone: https://user:{KEY}@host")

    monkeypatch.setattr(trackio, "log", log)
    place = Place(tmp_path, base, train=WATCHED, count=8)
    assert place.train("train.tracker=trackio") == 0
    assert len(place.log()) == 4
    assert len(calls) == 2
    error = capsys.readouterr().err
    assert error.count("is told no more; training goes on") == 1
    assert KEY not in error


def test_a_tracker_that_cannot_start_is_one_sentence(
    tmp_path: Path,
    base: Path,
    monkeypatch: pytest.MonkeyPatch,
    trackio: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def init(**_: Any) -> None:
        raise OSError("the folder is read-only")

    monkeypatch.setattr(trackio, "init", init)
    assert Place(tmp_path, base, count=2).train("train.tracker=trackio") == 2
    error = capsys.readouterr().err
    assert "error: trackio cannot be started: the folder is read-only; set train.tracker=none" in error


def test_wandb_without_a_key_is_refused_before_anything_is_loaded(
    tmp_path: Path,
    base: Path,
    monkeypatch: pytest.MonkeyPatch,
    wandb: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("pipeline.training.causal.load_base", lambda *_: pytest.fail("a model was loaded"))
    place = Place(tmp_path, base, count=2)
    assert place.train("train.tracker=wandb") == 2
    assert "wandb has no key; run `wandb login`, set WANDB_API_KEY" in capsys.readouterr().err
    assert not place.checkpoints.exists()


@pytest.mark.parametrize("where", ["variable", "netrc", "mode"])
def test_wandb_may_start_with_a_key_or_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wandb: Any, where: str
) -> None:
    from pipeline.training.tracking import check

    if where == "variable":
        monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    elif where == "netrc":
        (tmp_path / "netrc").write_text(f"machine api.wandb.ai login user password {'x' * 40}\n")
    else:
        monkeypatch.setenv("WANDB_MODE", "offline")
    check(TrainRecipe(tracker="wandb"))


texts = st.text(max_size=40)
values = st.recursive(
    texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)


@given(before=texts, after=texts, around=values)
def test_no_secret_survives_whatever_stands_around_it(before: str, after: str, around: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOME_API_KEY", KEY)
        shown = json.dumps(scrubbed({before + KEY: [around, {"a": before + KEY + after}]}))
    assert KEY not in shown


def test_of_a_recipe_only_what_opens_doors_is_left_out() -> None:
    plain = {
        "lr": 1e-4,
        "key": "OPENAI_API_KEY",
        "n": None,
        "on": True,
        "address": "openai:m@http://h:8000/v1",
    }
    assert scrubbed(plain) == plain
    assert scrubbed("at https://me:pw@h.example:8080/a/b?token=1#c.") == "at https://h.example:8080/a/b#c."


@given(st.text())
def test_text_from_outside_holds_no_markup(text: str) -> None:
    shown = harmless(text)
    assert len(shown) <= LONGEST
    assert not set(shown) & set("<>`")
    assert not any(mark in shown for mark in ("![", "](", "]:"))
    assert all(char.isprintable() or char == "\n" for char in shown)
    shown.encode("utf-8")


def test_of_many_episodes_the_latest_of_each_task_is_shown(tmp_path: Path) -> None:
    first = [played(number) for number in range(20)]
    again = [played(3, id="again", grade=Grade(reward=1.0))]
    write_trajectories(tmp_path / "episodes-7.jsonl", [*first, *again])
    rows = episode_rows(tmp_path, 7)
    assert [row[0] for row in rows] == [7] * ROWS
    assert [row[5] for row in rows] == [1.0 if number == 3 else 0.5 for number in range(ROWS)]
    assert episode_rows(tmp_path, 8) == []


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA A100-SXM4-40GB", "a100-40"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L40", None),
        ("NVIDIA A10", "a10"),
        ("NVIDIA A10G", None),
        ("NVIDIA RTX A6000", "a6000"),
        ("NVIDIA RTX 6000 Ada Generation", "6000ada"),
        ("NVIDIA GeForce RTX 4090", "4090"),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA H100 NVL", None),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
        ("Tesla T4", None),
    ],
)
def test_a_gpu_is_known_by_its_drivers_name(name: str, key: str | None) -> None:
    found = by_device_name(name)
    assert (found and found.name) == key


def test_the_share_counts_what_the_loss_needs() -> None:
    model = make_model(400)
    # By hand: two layers of width 32; queries and outputs 32 × 32, keys and values 32 × 16, three of
    # 32 × 64 and two norms; a last norm.
    body = 2 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64 + 2 * 32) + 32
    attention, head = 6 * 2 * 32 * 100, 32 * 400
    full = utilisation(model, TrainRecipe(), 100, 0.25, bf16=False, devices=1)
    lora = utilisation(model, TrainRecipe(lora=LoraRecipe(rank=2)), 100, 0.25, bf16=False, devices=1)
    assert full is not None
    assert lora is not None
    assert full.flops == 6 * body + 6 * head * 0.25 + attention
    assert lora.flops == 4 * body + 4 * head * 0.25 + attention
    assert 1e8 < full.peak < 1e15, "measured here"
    assert utilisation(model, TrainRecipe(), 100, 0.25, bf16=False, devices=2) is None, "cores are shared"
    assert Utilisation(flops=2e9, peak=1e12).share(250) == 0.5


def test_the_share_is_counted_on_a_model_that_no_rank_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    # Rank 0 counts by itself: under stage 3 a split model would wait for the others for ever.
    inside: list[bool] = []

    @contextmanager
    def unsharded() -> Iterator[None]:
        inside.append(True)
        yield
        inside.append(False)

    def counted(*given: Any) -> Any:
        assert inside == [True]
        return count(*given)

    monkeypatch.setattr("pipeline.training.utilisation.unsharded", unsharded)
    monkeypatch.setattr("pipeline.training.utilisation.count", counted)
    assert utilisation(make_model(400), TrainRecipe(), 100, 0.25, bf16=False, devices=1) is not None
    assert inside == [True, False]
