"""A tiny world of SWIFT's rows, as export writes them: gold actions that follow from the task."""

from __future__ import annotations

import json
from pathlib import Path

from pipeline.rendering.swift import SwiftPrompt

ROOMS = ["kitchen", "hallway", "greenhouse", "workshop", "bedroom", "foundry"]
CONFIG = {
    "model_type": "t5",
    "d_model": 32,
    "d_ff": 64,
    "d_kv": 8,
    "num_layers": 1,
    "num_decoder_layers": 1,
    "num_heads": 4,
    "vocab_size": 520,
    "dropout_rate": 0.0,
}


def prompt(room: str, step: int, history: int = 10) -> SwiftPrompt:
    past = ["look around (+0) --> N/A", f"open door to {room} (+0) --> The door is now open."][:step]
    return SwiftPrompt(
        task=f"Your task is to go to the {room}.",
        time=step,
        score=10 * step,
        entries=tuple(past),
        look=f"This room is called the hallway. A door to the {room} is here.",
        inventory="In your inventory, you see: an orange",
        rooms="hallway",
        history=history,
    )


def episode(name: str, room: str) -> list[dict[str, object]]:
    about = {"id": name, "task": f"t-{name}", "kind": "k"}
    targets = [f"open door to {room}", f"go to {room}"]
    return [
        {**about, "step": step, "input": prompt(room, step).text, "target": target}
        for step, target in enumerate(targets, 1)
    ]


def rows(count: int, prefix: str = "e") -> list[dict[str, object]]:
    made: list[dict[str, object]] = []
    for number in range(count):
        made += episode(f"{prefix}-{number}", ROOMS[number % len(ROOMS)])
    return made


def save_rows(path: Path, items: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")


def save_swift(run: Path, count: int = 8, dev: int = 0) -> Path:
    """A dataset of ``count`` episodes of two rows each, and ``dev`` held out."""
    dataset = run / "dataset"
    save_rows(dataset / "act" / "train.jsonl", rows(count))
    if dev:
        save_rows(dataset / "act" / "dev.jsonl", rows(dev, "d"))
    export = {
        "format": "swift",
        "renderer": "swift",
        "renderer_version": "1",
        "history": 7,
        "styles": {"act": {"rows": 2 * count, "spec_digest": "digest-act"}},
    }
    (dataset / "export.json").write_text(json.dumps(export), encoding="utf-8")
    return dataset


def save_config(folder: Path, **changes: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tiny_t5.json"
    path.write_text(json.dumps({**CONFIG, **changes}), encoding="utf-8")
    return path


def save_recipe(folder: Path, address: str, train: str = "") -> Path:
    """A recipe file; ``train`` holds further lines of the train section."""
    lines = "".join(f"  {line}\n" for line in train.splitlines() if line.strip())
    path = folder / "recipe.yaml"
    path.write_text(
        f"name: trial\nenvironment:\n  name: atlas\nmodels:\n  base:\n    address: '{address}'\n"
        f"export:\n  format: swift\n  styles: [act]\n"
        f"train:\n  dtype: float32\n  max_length: 400\n{lines}",
        encoding="utf-8",
    )
    return path


class Place:
    """Where one trial's files lie, and how to train there."""

    def __init__(
        self,
        root: Path,
        train: str = "",
        count: int = 8,
        dev: int = 0,
        address: str | None = None,
        **t5: object,
    ) -> None:
        self.root = root
        self.dataset = save_swift(root / "runs" / "trial", count, dev)
        self.recipe = save_recipe(root, address or f"new:{save_config(root, **t5)}", train)

    @property
    def folder(self) -> Path:
        return self.root / "checkpoints" / "trial" / "act"

    @property
    def roots(self) -> dict[str, Path]:
        return {"run_root": self.root / "runs", "checkpoint_root": self.root / "checkpoints"}

    def train(self, *arguments: str) -> int:
        from pipeline.training.seq2seq import main

        roots = ["--run-root", str(self.root / "runs"), "--checkpoint-root", str(self.root / "checkpoints")]
        return main([str(self.recipe), *arguments, *roots])

    def log(self) -> dict[str, list[dict[str, float]]]:
        return json.loads((self.folder / "train.json").read_text())
