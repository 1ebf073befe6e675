"""Write a dataset folder: all of it or nothing, in memory that does not grow with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Final

from pipeline.errors import RecipeError, StoreError
from pipeline.export.card import Origin, dataset_card
from pipeline.export.folder import replaced_folder
from pipeline.export.preference import pair_rows
from pipeline.export.report import ExportReport, StyleReport
from pipeline.export.restyle import Style, lacking
from pipeline.export.rows import RENDERERS, trajectory_rows, with_origin
from pipeline.export.swift import dropped_steps, swift_rows
from pipeline.recipe.models import ExportRecipe
from pipeline.rendering import swift
from pipeline.rendering.base import PromptSpec, Renderer
from pipeline.rendering.digest import spec_digest
from pipeline.rendering.registry import load_renderer
from pipeline.trajectories.files import to_json, write_json, write_text
from pipeline.trajectories.pairs import Pair
from pipeline.trajectories.schema import Trajectory, digest

EXPORT: Final = "export.json"


def export_dataset(
    folder: Path,
    trajectories: Callable[[], Iterable[Trajectory] | Iterable[Pair]],
    recipe: ExportRecipe,
    specs: Mapping[str, PromptSpec],
    source: Mapping[str, str] | None = None,
) -> ExportReport:
    """Write the recipe's dataset into ``folder``; an earlier export there is replaced whole.

    The folder gets ``export.json``, ``README.md`` and, a style, ``<style>/train.jsonl`` and
    ``<style>/dev.jsonl`` (when ``dev_fraction`` puts tasks there; the same tasks in every style).

    Args:
        folder: where the dataset goes.
        trajectories: opens the stream of selected trajectories, or of pairs of them where the recipe asks for
            pairs; called once.
        recipe: format, styles, share of tasks held out.
        specs: the prompt's fixed part for each style; exemplars are left out, since a student is
            served none.
        source: what to record about the origin (the recipe's name and digest).

    Raises:
        RecipeError: a style has no prompt specification.
        FormatError: the renderer cannot write the format.
        StoreError: there is nothing to export, or the folder cannot be written or is not a dataset.
    """
    bare: dict[Style, PromptSpec] = {
        style: replace(_spec(specs, style), exemplars=()) for style in recipe.styles
    }
    renderer = None if recipe.format == "swift" else load_renderer(RENDERERS[recipe.format])
    report = ExportReport(
        format=recipe.format,
        renderer=renderer.name if renderer else swift.NAME,
        renderer_version=renderer.version if renderer else swift.VERSION,
        styles={style: StyleReport(spec_digest=spec_digest(spec)) for style, spec in bare.items()},
        history=None if renderer else recipe.history,
        pairs=True if recipe.pairs else None,
        source=dict(source or {}),
    )
    with replaced_folder(folder, marker=EXPORT) as partial, ExitStack() as stack:
        writer = _Writer(partial, recipe, renderer, bare, report, stack)
        for item in trajectories():
            writer.add(item)
        writer.finish(folder)
    return report


def in_dev(task_id: str, fraction: float) -> bool:
    """Whether a task is held out: by a hash of its id, so the same in every style and export."""
    return int(digest(["dev", task_id]), 16) < fraction * 16**16


def _spec(specs: Mapping[str, PromptSpec], style: str) -> PromptSpec:
    if style not in specs:
        raise RecipeError(
            f"export.styles: no prompt is known for style {style!r} (known: {', '.join(specs)})"
        )
    return specs[style]


@dataclass
class _Writer:
    """The open dataset: its files, its counts, and the first row for the card."""

    root: Path
    recipe: ExportRecipe
    renderer: Renderer | None
    """None where the format writes its rows itself (``swift``)."""
    specs: dict[Style, PromptSpec]
    report: ExportReport
    stack: ExitStack
    origin: Origin = field(default_factory=Origin)
    example: dict[str, Any] | None = None
    files: dict[Path, IO[bytes]] = field(default_factory=dict[Path, IO[bytes]])

    def add(self, item: Trajectory | Pair) -> None:
        """Write the rows of a trajectory, or of a pair, in every style that it can be put in."""
        members = [item] if isinstance(item, Trajectory) else [item.chosen, item.rejected]
        for trajectory in members:
            self.origin.add(trajectory)
        dev = in_dev(members[0].task.id, self.recipe.dev_fraction)
        for style, spec in self.specs.items():
            part = self.report.styles[style]
            rows = self._rows(item, style, spec)
            if not rows:
                part.skipped += 1
                continue
            self._write(Path(style, "dev.jsonl" if dev else "train.jsonl"), rows)
            if self.renderer is None:
                part.dropped_steps = (part.dropped_steps or 0) + dropped_steps(members[0])
            part.trajectories += len(members)
            part.rows += len(rows)
            part.dev_rows += len(rows) if dev else 0
            self.example = self.example or rows[0]

    def finish(self, folder: Path) -> None:
        """Close the files and write what describes them.

        Raises:
            StoreError: a style has no row to train on.
        """
        for style, part in self.report.styles.items():
            if part.rows == part.dev_rows:
                raise StoreError(
                    f"{folder}: style {style!r} would have no training rows ({part.trajectories} trajectories"
                    f" held out, {part.skipped} left out): select more trajectories or drop the style"
                )
        for file in self.files.values():
            os.fsync(file.fileno())
        write_json(self.root / EXPORT, self.report.model_dump())
        card = dataset_card(folder.absolute().parent.name, self.report, self.origin, self.example or {})
        write_text(self.root / "README.md", card)

    def _rows(self, trajectory: Trajectory | Pair, style: Style, spec: PromptSpec) -> list[dict[str, Any]]:
        """None where the trajectory lacks what the style or the format is made of."""
        if isinstance(trajectory, Pair):
            assert self.renderer is not None  # noqa: S101 - no format that writes its rows itself has pairs
            return pair_rows(trajectory, style, self.recipe.format, spec, self.renderer)
        if lacking(trajectory, style):
            return []
        if self.renderer is None:
            recipe = self.recipe
            rows = swift_rows(trajectory, recipe.history, skip_first=recipe.skip_first)
            return with_origin(trajectory, rows)
        return trajectory_rows(trajectory, style, self.recipe.format, spec, self.renderer)

    def _write(self, name: Path, rows: list[dict[str, Any]]) -> None:
        if name not in self.files:
            (self.root / name).parent.mkdir(exist_ok=True)
            self.files[name] = self.stack.enter_context((self.root / name).open("wb"))
        for row in rows:
            self.files[name].write(to_json(row).encode() + b"\n")
