"""Select and export many trajectories: seconds and peak memory of each stage.

    python benchmarks/select_export.py
    python benchmarks/select_export.py --trajectories 10000 --json out.json

Synthetic trajectories of five steps are written to a scratch folder; then selection, and the export
of every format in one style, run in a process of their own each, so that a stage's peak is its own.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.bootstrap.select import select_into
from pipeline.export.write import export_dataset
from pipeline.recipe.models import ExportRecipe, SelectRecipe
from pipeline.rendering.base import PromptSpec
from pipeline.trajectories.schema import Grade, Outcome, Step, Task, Trajectory
from pipeline.trajectories.store import TrajectoryStore, read_trajectories, write_trajectories

STAGES = ("select", "text", "messages", "sharegpt")
KINDS = ("bridge2", "bridge3", "comparison", "intersection", "yes_no")
WORDS = ("river", "capital", "border", "element", "currency", "population", "discovered", "language")
SPEC = PromptSpec("react", "Question", "Answer the question with interleaving thoughts and actions.")


def synthetic(count: int) -> Iterator[Trajectory]:
    """Finished episodes of five steps, nine in ten correct, about 3 kB a line."""
    draw = random.Random(0)
    for number in range(count):
        steps = [
            Step(
                thought=f"I need to find what {number} says about the {draw.choice(WORDS)} of place {index}.",
                action=f"Search[place {number} {index}]" if index < 4 else "Finish[somewhere]",
                observation=" ".join(draw.choices(WORDS, k=40)),
            )
            for index in range(5)
        ]
        kind = KINDS[number % len(KINDS)]
        task = Task(
            id=f"atlas-{number}",
            environment="atlas",
            split="train",
            kind=kind,
            instruction=f"What is question {number} about?",
            gold=["somewhere"],
        )
        yield Trajectory(
            id=f"{number:016x}",
            task=task,
            method="react",
            model="expert",
            steps=steps,
            outcome=Outcome.FINISHED,
            answer="somewhere",
            grade=Grade(correct=draw.random() < 0.9),
            versions={"environment": "1"},
        )


def run_stage(stage: str, folder: Path) -> dict[str, Any]:
    """Run one stage in this process and measure it."""
    start = time.perf_counter()
    if stage == "select":
        store = TrajectoryStore(folder / "trajectories.jsonl")
        count = select_into(folder, store.read, SelectRecipe(target=10**9)).ledger.kept
    else:
        recipe = ExportRecipe.model_validate({"format": stage})
        source = partial(read_trajectories, folder / "selected.jsonl")
        count = export_dataset(folder / stage, source, recipe, {"react": SPEC}).styles["react"].rows
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"stage": stage, "out": count, "seconds": round(seconds, 2), "peak_mib": round(peak, 1)}


def measure(count: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as scratch:
        write_trajectories(Path(scratch, "trajectories.jsonl"), synthetic(count))
        rows: list[dict[str, Any]] = []
        for stage in STAGES:
            command = [sys.executable, __file__, "--stage", stage, "--folder", scratch]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            rows.append(json.loads(done.stdout))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trajectories", type=int, default=100_000, help="how many to select from")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        print(json.dumps(run_stage(options.stage, options.folder)))
        return
    rows = measure(options.trajectories)
    print(f"| {'stage':<8} | trajectories or rows out | seconds | peak MiB |\n| --- | ---: | ---: | ---: |")
    for row in rows:
        print(f"| {row['stage']:<8} | {row['out']:>24} | {row['seconds']:>7} | {row['peak_mib']:>8} |")
    if options.json:
        figures = {"trajectories": options.trajectories, "rows": rows}
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
