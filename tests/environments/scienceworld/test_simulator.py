"""The real simulator: what it says, and that its process never outlives its use."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from pipeline.environments.scienceworld.descriptions import Descriptions
from pipeline.environments.scienceworld.names import BY_ID, TYPES
from pipeline.environments.scienceworld.scoring import points
from pipeline.environments.scienceworld.simulator import Simulator
from pipeline.errors import EnvironmentFault


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def is_gone(pid, seconds=20.0):
    deadline = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_running(pid)


def loaded(simulator, identity, variation, simplifications="easy"):
    simulator.load(BY_ID[identity].name, variation, simplifications)
    return simulator.act("look around")


def test_folds_are_what_the_simulator_says(simulator):
    for kind in TYPES:
        simulator.load(kind.name, 0, "easy")
        folds = simulator.folds()
        assert folds == {split: list(kind.fold(split)) for split in ("train", "dev", "test")}


# The order of the two planes is drawn at random when a variation is loaded.
@pytest.mark.parametrize(
    ("identity", "variation"),
    [("9-1", 5), ("9-2", 1330), ("9-3", 97), ("10-2", 400), ("2-1", 500), ("4-4", 299), ("1-4", 29)],
)
def test_descriptions_are_those_of_loaded_variations(simulator, world, identity, variation):
    name = BY_ID[identity].name
    texts: Descriptions = {
        name: [
            task.instruction
            for split in ("train", "dev", "test")
            for task in world.tasks(split)
            if task.kind == identity
        ]
    }
    simulator.load(name, variation, "easy")
    said = simulator.act("task").text
    assert said.replace("Task description:\n", "", 1).strip() == texts[name][variation]


def test_points_and_moves(simulator):
    seen = loaded(simulator, "4-4", 225)
    # A twelfth, which the published wrapper rounds to 8 points (specs, section 4.1).
    assert (points(seen.score), seen.moves, seen.completed) == (8, 0, False)
    assert seen.score == pytest.approx(1 / 12, abs=1e-6)
    # What it does not understand, and looking, take no time (specs, section 4.1).
    costs = {
        "frobnicate": 0,
        "look around": 0,
        "inventory": 0,
        "open door to hallway": 1,
        "wait1": 2,
        "wait": 11,
    }
    for action, cost in costs.items():
        before = seen.moves
        seen = simulator.act(action)
        assert seen.moves - before == cost, action


def test_a_wrong_focus_costs_a_hundred(simulator):
    loaded(simulator, "7-1", 93)
    seen = simulator.act("focus on air")
    assert seen.score == -1


def test_it_agrees_with_the_package(simulator):
    """The package's own wrapper says the same; it lists things in any order, so words are compared sorted."""
    plain = pytest.importorskip("scienceworld").ScienceWorldEnv("", envStepLimit=1000)

    def words(text):
        return sorted(re.findall(r"\w+", text))

    try:
        plain.load("lifespan-longest-lived", 93, "easy")
        _, info = plain.reset()
        seen = loaded(simulator, "7-1", 93)
        for action in [
            "go to outside",
            "wait1",
            "frobnicate",
            "look at door",
            "1",
            "pick up axe",
            "focus on axe",
        ]:
            assert words(info["look"]) == words(seen.look) and words(info["inv"]) == words(seen.inventory)
            assert (info["score"], info["moves"]) == (points(seen.score), seen.moves)
            assert set(info["valid"]) == set(simulator.valid_actions())
            text, reward, _, info = plain.step(action)
            before, seen = seen, simulator.act(action)
            assert words(text) == words(seen.text) and reward == points(seen.score) - points(before.score)
        assert points(seen.score) == info["score"] == -100
    finally:
        plain.close()


def test_the_same_actions_give_the_same_in_another_process(simulator):
    # Without equal identity hash codes this variation differs from its first words on.
    simulator.load("find-animal", 225, "easy", gold=True)
    path = simulator.gold_path()

    def played(player):
        player.load("find-animal", 225, "easy")
        return [player.act(action) for action in ["look around", *path]]

    first = played(simulator)
    second = played(simulator)
    simulator.valid_actions()
    other = Simulator(300)
    try:
        third = played(other)
        other.load("find-animal", 225, "easy", gold=True)
        assert other.gold_path() == path
    finally:
        other.close()
    assert first == second == third
    assert first[-1].score == 1


def test_a_variation_that_does_not_exist(simulator):
    with pytest.raises(EnvironmentFault, match="cannot load boil 30"):
        simulator.load("boil", 30, "easy")
    assert loaded(simulator, "1-1", 29).score == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_dies(installed, number):
    threads = threading.active_count()
    simulator = Simulator(300)
    loaded(simulator, "7-1", 0)
    os.kill(simulator.pid, number)
    with pytest.raises(EnvironmentFault, match=r"ended by itself .* while carrying out an action"):
        while True:
            simulator.act("look around")
    assert not simulator.alive and is_gone(simulator.pid)
    assert threading.active_count() <= threads
    with pytest.raises(EnvironmentFault, match="ended before"):
        simulator.act("look around")


def test_a_process_that_hangs(installed):
    simulator = Simulator(300)
    loaded(simulator, "7-1", 0)
    simulator._seconds = 0.5
    os.kill(simulator.pid, signal.SIGSTOP)
    start = time.monotonic()
    with pytest.raises(EnvironmentFault, match=r"did not answer within 0\.5 seconds"):
        simulator.act("look around")
    assert time.monotonic() - start < 10 and is_gone(simulator.pid)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_the_process_ends_with_its_owner(installed, number):
    script = """
        import time
        from pipeline.environments.scienceworld.simulator import Simulator
        simulator = Simulator(300)
        print(simulator.pid, flush=True)
        time.sleep(600)
    """
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with owner:
        pid = int(owner.stdout.readline())
        assert is_running(pid)
        os.kill(owner.pid, number)
        owner.wait(30)
    assert is_gone(pid)


def test_no_java(monkeypatch, tmp_path):
    broken = tmp_path / "bin" / "java"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'no room here' >&2\nexit 3\n")
    broken.chmod(0o755)
    pytest.importorskip("py4j")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentFault, match=r"ended by itself \(status 3\) while starting no room here"):
        Simulator()
