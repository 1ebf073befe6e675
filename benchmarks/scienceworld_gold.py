"""The gold oracle on the published evaluation set: ten test variations a task.

    python benchmarks/scienceworld_gold.py
    python benchmarks/scienceworld_gold.py --kinds 4-1 7-1 --json out.json

Generates each of the 271 gold paths, plays it with a limit of 1,000 moves and lists every episode that
does not reach 100 with what happened. Also checks that the text of each task is the simulator's own.
Needs the extra scienceworld; generating a path takes from half a second to half a minute.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from pipeline.environments.base import Observation
from pipeline.environments.scienceworld.environment import ScienceWorldEnvironment
from pipeline.environments.scienceworld.episode import ScienceWorldEpisode
from pipeline.environments.scienceworld.names import BY_ID, GOLD_STEPS
from pipeline.errors import EnvironmentFault
from pipeline.trajectories.panels import named_panel
from pipeline.trajectories.schema import Task


def play(world: ScienceWorldEnvironment, task: Task) -> dict[str, Any]:
    """One episode: points, length, seconds, and the reason where it is not won."""
    start = time.perf_counter()
    row: dict[str, Any] = {"id": task.id, "kind": task.kind, "points": None, "length": 0}
    episode = world.episode(task)
    try:
        path = [step.action for step in world.expert(task, 0)]
        episode.reset()
        seen: list[Observation] = []
        for action in path:
            seen.append(episode.step(action))
            if seen[-1].done:
                break
        row["length"], row["points"] = len(path), round(100 * episode.grade().metrics["score_published"])
        row["invalid"] = sum(each.invalid for each in seen)
        row["reason"] = "" if episode.grade().correct else reason(path, seen)
        row["described"] = described(episode, task)
    except EnvironmentFault as error:
        row["reason"] = str(error)
    finally:
        episode.close()
    row["seconds"] = round(time.perf_counter() - start, 2)
    return row


def described(episode: ScienceWorldEpisode, task: Task) -> bool:
    """Whether the simulator words the task as we do."""
    episode.reset()
    said = episode.step("task").text
    return said.split("\n", 1)[-1].strip() == task.instruction


def reason(path: list[str], seen: list[Observation]) -> str:
    if not seen:
        return "the path is empty"
    last = f"after {path[len(seen) - 1]!r}: {' '.join(seen[-1].text.split())[:160]!r}"
    if (seen[-1].score or 0) == 0 and seen[-1].reward < 0:
        return f"wrong focus {last}"
    if seen[-1].done:
        return f"over after {len(seen)} of {len(path)} actions, {last}"
    return f"the path ends, {last}"


def table(rows: list[dict[str, Any]]) -> None:
    kinds: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        kinds[row["kind"]].append(row)
    print("| task | episodes | at 100 | mean points | mean length |\n| --- | ---: | ---: | ---: | ---: |")
    for kind, found in kinds.items():
        points = [max(row["points"] or 0, 0) for row in found]
        length = sum(row["length"] for row in found) / len(found)
        won = sum(row["points"] == 100 for row in found)
        mean = sum(points) / len(found)
        print(f"| {kind} {BY_ID[kind].name} | {len(found)} | {won} | {mean:.1f} | {length:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kinds", nargs="*", default=[], help="only these tasks, by id or name")
    parser.add_argument("--panel", default="test_first10", help="test_first10, test_mini or test_mini_2")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    world = ScienceWorldEnvironment(kinds=options.kinds, max_steps=GOLD_STEPS, simulators=1, timeout=600)
    split, ids = world.listed[options.panel]
    rows: list[dict[str, Any]] = []
    for task in named_panel(split, world.tasks(split), ids, options.panel).tasks:
        rows.append(play(world, task))
        if rows[-1]["reason"]:
            print(f"{task.id}: {rows[-1]['points']} points: {rows[-1]['reason']}", flush=True)
        if rows[-1].get("described") is False:
            print(f"{task.id}: the simulator words the task in another way", flush=True)
    world.close()
    table(rows)
    won = sum(row["points"] == 100 for row in rows)
    mean = sum(max(row["points"] or 0, 0) for row in rows) / len(rows)
    print(f"\n{won} of {len(rows)} episodes reach 100; the mean score is {mean:.2f}.")
    if options.json:
        options.json.write_text(json.dumps({"won": won, "episodes": rows}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
