"""The dataset card: a README whose header tells ``datasets`` where the subsets are."""

from __future__ import annotations

import json
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from huggingface_hub import DatasetCard, DatasetCardData

from pipeline.export.preference import PAIR_FEATURES
from pipeline.export.report import ExportReport
from pipeline.export.rows import FEATURES, Format
from pipeline.trajectories.schema import Trajectory
from pipeline.trajectories.text import printable

TEMPLATE: Final = Path(__file__).parent / "templates" / "card.md.jinja"
PAIRS_TEMPLATE: Final = Path(__file__).parent / "templates" / "pairs.md.jinja"

COLUMNS: Final = {
    "id": "the trajectory",
    "task": "the task it solves",
    "kind": "the task's type",
    "step": "which step of the episode, from 1",
    "prompt": "all text before the model's words",
    "completion": "what the model must write, stop marker included",
    "messages": "the conversation: `role` (system, user, assistant) and `content`; ends with the assistant",
    "conversations": "the conversation: `from` (system, human, gpt) and `value`; ends with `gpt`",
    "tools": "the tools on offer, as JSON schemas of functions",
    "input": "what the encoder reads: task, time, score, past actions, room, inventory, rooms, question",
    "target": "the action that the decoder must write",
}
PAIR_COLUMNS: Final = {
    "id": "the two trajectories, the better one first",
    "task": COLUMNS["task"],
    "kind": COLUMNS["kind"],
    "prompt": "all before the first step in which the two differ",
    "chosen": "how the success went on: the model's own words, and what the environment answered in between",
    "rejected": "how the failure went on",
    "prompt_parts": "the prompt in turns: context, the model's own words, context, …",
    "chosen_parts": "`chosen` in turns: the model's own words, context, the model's own words, …",
    "rejected_parts": "`rejected` in turns, as `chosen_parts`",
    "tools": COLUMNS["tools"],
}
CALLS: Final = (
    "the conversation: `role` (system, user, assistant, tool), `content`, and where there are any, "
    "`tool_calls` (`arguments` as an object; hosted APIs take it as a JSON string) and `tool_call_id`"
)
TARGETS: Final = {
    "text": "completions",
    "messages": "assistant messages",
    "sharegpt": "`gpt` turns",
    "tools": "assistant messages, their calls included,",
    "swift": "targets",
}


@dataclass
class Origin:
    """Where the trajectories come from, counted while they pass."""

    environments: Counter[str] = field(default_factory=Counter[str])
    methods: Counter[str] = field(default_factory=Counter[str])
    models: Counter[str] = field(default_factory=Counter[str])
    kinds: Counter[str] = field(default_factory=Counter[str])

    def add(self, trajectory: Trajectory) -> None:
        """Count one trajectory."""
        self.environments[f"{trajectory.task.environment}, {trajectory.task.split} split"] += 1
        self.methods[trajectory.method] += 1
        self.models[trajectory.model] += 1
        self.kinds[trajectory.task.kind or "(no kind)"] += 1

    def rows(self, source: dict[str, str]) -> dict[str, str]:
        """Label and content of the card's table, harmless in Markdown."""
        tables = {
            "environment": self.environments,
            "method": self.methods,
            "model": self.models,
            "kinds of task": self.kinds,
        }
        counted = {
            label: ", ".join(f"{name} ({count})" for name, count in sorted(table.items()))
            for label, table in tables.items()
        }
        return {_plain(label): _plain(text) for label, text in {**counted, **source}.items()}


def dataset_card(name: str, report: ExportReport, origin: Origin, example: dict[str, Any]) -> str:
    """The text of the dataset's README.md.

    Args:
        name: the dataset's title.
        report: what was written; its styles become the configs, the first one the default.
        origin: where the trajectories come from.
        example: one row, shown as JSON.
    """
    kind: Format = report.format  # pyright: ignore[reportAssignmentType]
    dev = any(part.dev_rows for part in report.styles.values())
    card = DatasetCard.from_template(
        _header(report, kind),
        template_path=str(PAIRS_TEMPLATE if report.pairs else TEMPLATE),
        name=_plain(name),
        styles=report.styles,
        format=kind,
        renderer=report.renderer,
        renderer_version=report.renderer_version,
        columns=_columns(report, kind),
        example=json.dumps(example, indent=2),
        origin=origin.rows(report.source),
        dev=dev,
        history=report.history,
        dropped=sum(part.dropped_steps or 0 for part in report.styles.values()),
        target=TARGETS[kind],
    )
    return str(card)


def _features(report: ExportReport, kind: Format) -> list[dict[str, Any]]:
    return PAIR_FEATURES[kind] if report.pairs else FEATURES[kind]


def _columns(report: ExportReport, kind: Format) -> dict[str, str]:
    if report.pairs:
        return {column["name"]: PAIR_COLUMNS[column["name"]] for column in _features(report, kind)}
    told = {**COLUMNS, "messages": CALLS} if kind == "tools" else COLUMNS
    return {column["name"]: told[column["name"]] for column in FEATURES[kind]}


def _header(report: ExportReport, kind: Format) -> DatasetCardData:
    first = next(iter(report.styles))
    configs = [
        {
            "config_name": style,
            "data_files": [
                {"split": split, "path": f"{style}/{split}.jsonl"}
                for split, rows in (("train", part.rows - part.dev_rows), ("dev", part.dev_rows))
                if rows
            ],
            **({"default": True} if style == first else {}),
        }
        for style, part in report.styles.items()
    ]
    # A copy each: YAML would write a shared list as an anchor, which not every reader of cards knows.
    infos = [{"config_name": style, "features": deepcopy(_features(report, kind))} for style in report.styles]
    return DatasetCardData(
        task_categories=["text-generation"],
        tags=["agents", "trajectories"],
        configs=configs,
        dataset_info=infos,
    )


def _plain(text: str) -> str:
    """Text from outside in one table cell: no markup, no line break, no control character."""
    shown = printable(text)
    for mark in "\\`*_[]<>|":
        shown = shown.replace(mark, "\\" + mark)
    return shown
