"""Steps a second in ScienceWorld: our simulator against the package's own `ScienceWorldEnv.step`.

    python benchmarks/scienceworld_steps.py
    python benchmarks/scienceworld_steps.py --rounds 3 --json out.json

Both play the same gold paths in the same run, each in one Java process with its own settings; loading
is not counted, and a first round warms up. `ratio` is ours to plain on one simulator. Then several
simulators play the same paths at once, each in a thread of its own, up to the number of processors;
every number in turn, and again, so that all see the machine alike.
Needs the extra scienceworld.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from pipeline.environments.scienceworld.simulator import Simulator

PATHS = (
    ("boil", 21),
    ("find-animal", 225),
    ("grow-plant", 93),
    ("lifespan-longest-lived", 93),
    ("power-component", 15),
    ("chemistry-mix-paint-secondary-color", 27),
)
"""The first test variation of a task of each sort; the long and the slow are left out."""

WARM = 3
"""Rounds before several simulators are measured."""

Gold = tuple[str, int, list[str]]


def gold_paths(simulator: Simulator) -> list[Gold]:
    paths: list[Gold] = []
    for name, variation in PATHS:
        simulator.load(name, variation, "easy", gold=True)
        paths.append((name, variation, simulator.gold_path()))
    return paths


def play(paths: list[Gold], load: Callable[[str, int], Any], step: Callable[[str], Any]) -> tuple[int, float]:
    """Steps taken and the seconds that they took."""
    count, seconds = 0, 0.0
    for name, variation, actions in paths:
        load(name, variation)
        start = time.perf_counter()
        for action in actions:
            step(action)
        seconds += time.perf_counter() - start
        count += len(actions)
    return count, seconds


def play_ours(simulator: Simulator, paths: list[Gold]) -> tuple[int, float]:
    def load(name: str, variation: int) -> None:
        simulator.load(name, variation, "easy")
        simulator.act("look around")

    return play(paths, load, simulator.act)


def play_plain(plain: Any, paths: list[Gold]) -> tuple[int, float]:
    def load(name: str, variation: int) -> None:
        plain.load(name, variation, "easy")
        plain.reset()

    return play(paths, load, plain.step)


def rate(counts: list[tuple[int, float]]) -> float:
    """The median rate of the rounds, steps a second."""
    return median(count / seconds for count, seconds in counts)


def together(number: int, paths: list[Gold], rounds: int) -> float:
    """Steps a second of several simulators at once, loading included in the time."""
    simulators = [Simulator() for _ in range(number)]
    try:
        with ThreadPoolExecutor(number) as threads:
            # Each thread keeps to one simulator: none may be shared. A Java process that is young also
            # compiles, on another processor.
            for _ in range(WARM):
                list(threads.map(play_ours, simulators, [paths] * number))
            start = time.perf_counter()
            played = list(
                threads.map(lambda each: [play_ours(each, paths) for _ in range(rounds)], simulators)
            )
            seconds = time.perf_counter() - start
    finally:
        for simulator in simulators:
            simulator.close()
    return sum(count for each in played for count, _ in each) / seconds


def measure(rounds: int, most: int) -> dict[str, Any]:
    from scienceworld import ScienceWorldEnv

    simulator, plain = Simulator(), ScienceWorldEnv("", envStepLimit=10_000)
    try:
        paths = gold_paths(simulator)
        play_ours(simulator, paths), play_plain(plain, paths)
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(play_ours(simulator, paths))
            theirs.append(play_plain(plain, paths))
        start = time.perf_counter()
        valid = [simulator.valid_actions() for _ in range(5)]
        listing = (time.perf_counter() - start) / len(valid)
    finally:
        simulator.close()
        plain.close()
    scaling: dict[int, list[float]] = {number: [] for number in range(1, most + 1)}
    for _ in range(rounds):
        for number, rates in scaling.items():
            rates.append(together(number, paths, rounds))
    return {
        "steps": sum(len(actions) for _, _, actions in paths),
        "rounds": rounds,
        "ours": round(rate(ours), 1),
        "plain": round(rate(theirs), 1),
        "ratio": round(rate(ours) / rate(theirs), 2),
        "valid_actions_ms": round(1000 * listing, 1),
        "simulators": {str(number): round(median(rates), 1) for number, rates in scaling.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often all paths are played and counted")
    parser.add_argument("--simulators", type=int, default=os.cpu_count() or 1, help="how many at most")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    figures = measure(options.rounds, options.simulators)
    print("| way | steps/s |\n| --- | ---: |")
    print(f"| ScienceWorldEnv.step | {figures['plain']} |")
    print(f"| ours, one simulator | {figures['ours']} ({figures['ratio']} times) |")
    for number, found in figures["simulators"].items():
        print(f"| ours, {number} at once, with loading | {found} |")
    print(f"\nListing the valid actions takes {figures['valid_actions_ms']} ms where it is asked for.")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
