"""SWIFT's training examples, ours against those that the public code makes of its own gold runs.

    git clone --branch science_world https://github.com/SwiftSage/SwiftSage
    python benchmarks/swift_examples.py SwiftSage

The public logs hold the gold runs of the first ten test variations of all thirty tasks. Each is turned into
examples by the public functions (`compose_instance_v4` with raw actions, `compose_instance_v5` with formal
ones) and by ours, and compared string for string. The checkout's `data_utils.py` is run: read it first.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from pipeline.errors import StoreError
from pipeline.rendering.swift import Actions, is_dropped, swift_examples
from pipeline.trajectories.schema import Outcome, Step, Task, Trajectory

COMPOSERS: dict[Actions, str] = {"raw": "compose_instance_v4", "formal": "compose_instance_v5"}
TITLE = "Task Description:\n"
Example = tuple[str, str]


def public_code(checkout: Path) -> ModuleType:
    """The checkout's module that composes examples."""
    path = next(
        (path for path in checkout.rglob("data_utils.py") if "compose_instance_v5" in path.read_text()), None
    )
    spec = importlib.util.spec_from_file_location("public_data_utils", path) if path else None
    if spec is None or spec.loader is None:
        raise StoreError(
            f"{checkout} holds no data_utils.py with compose_instance_v5: clone the branch science_world"
        )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def runs(checkout: Path) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Name of the task, its text and the recorded steps, run after run."""
    for path in sorted((checkout / "analysis" / "oracle_log").glob("task*.json")):
        for run in json.loads(path.read_text(encoding="utf-8")).values():
            history = run["history"]
            yield history["taskName"], history["taskDescription"].removeprefix(TITLE), history["history"]


def public_examples(code: ModuleType, text: str, steps: list[dict[str, Any]], composer: str) -> list[Example]:
    """As the public conversion script calls its functions: the first remaining step is passed over."""
    kept = [step for step in steps if not is_dropped(step["action"])]
    made: list[Example] = []
    places: list[str] = []
    objects: list[str] = []
    actions, seen = ["look around"], ["N/A"]
    scores: list[float] = [0]
    rewards: list[float] = [0]
    for number in range(1, len(kept)):
        before, now = kept[number - 1], kept[number]
        if number > 1:
            actions.append(before["action"])
            seen.append(before["observation"])
            rewards.append(float(before["score"]) - scores[-1])
            scores.append(float(before["score"]))
        code.add_current_place(before["observation"], now["freelook"], places)
        # Its own names: mode, step, task, return to go, action, observation, inventory, look, …
        state = (before["observation"], now["inventory"], now["freelook"], "", "", objects, places)
        past = (actions, seen, scores, rewards)
        made.append(getattr(code, composer)("fast_system", number, text, None, now["action"], *state, *past))
    return made


def our_examples(text: str, steps: list[dict[str, Any]], actions: Actions) -> list[Example]:
    task = Task(id="t", environment="scienceworld", split="test", instruction=text)
    # The logs hold what is seen before an action, trajectories what is seen after it.
    after = [{"look": step["freelook"], "inventory": step["inventory"]} for step in steps[1:]]
    trajectory = Trajectory(
        id="e",
        task=task,
        method="act",
        model="expert",
        opening=f"{steps[0]['freelook']}\n{steps[0]['inventory']}",
        steps=[
            Step(
                action=step["action"], observation=step["observation"], score=float(step["score"]), info=info
            )
            for step, info in zip(steps, [*after, {}], strict=True)
        ],
        outcome=Outcome.FINISHED,
    )
    return [(example.input, example.target) for example in swift_examples(trajectory, actions=actions)]


def compare(checkout: Path) -> dict[str, Any]:
    code = public_code(checkout)
    counts = {actions: Counter[str]() for actions in COMPOSERS}
    tasks: set[str] = set()
    episodes = 0
    for name, text, steps in runs(checkout):
        tasks.add(name)
        episodes += 1
        for actions, composer in COMPOSERS.items():
            theirs = public_examples(code, text, steps, composer)
            ours = our_examples(text, steps, actions)
            counts[actions]["examples"] += len(theirs)
            counts[actions]["equal"] += sum(one == other for one, other in zip(theirs, ours, strict=True))
    return {
        "tasks": len(tasks),
        "episodes": episodes,
        **{name: dict(found) for name, found in counts.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="a checkout of SwiftSage, branch science_world")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    figures = compare(options.checkout)
    print(f"{figures['episodes']} episodes of {figures['tasks']} tasks")
    for actions in COMPOSERS:
        equal, examples = figures[actions]["equal"], figures[actions]["examples"]
        print(f"{actions} actions: {equal:,} of {examples:,} examples are equal")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
