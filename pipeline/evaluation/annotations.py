"""Labels given by hand to a random sample of right and of wrong episodes.

Source: the ReAct paper, table 2: 50 right and 50 wrong episodes of each method, read by the authors.
Each annotator has one append-only file; of several lines about the same episode the latest counts.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from pydantic import ValidationError

from pipeline.errors import RecipeError, StoreError
from pipeline.evaluation.evidence import verdict
from pipeline.trajectories.files import read_lines, to_json
from pipeline.trajectories.schema import Record, Trajectory, digest

Label = Literal["true_positive", "false_positive", "reasoning", "search", "hallucination", "label", "other"]

SUCCESSES: Final[tuple[Label, ...]] = ("true_positive", "false_positive")
"""Right by right reasoning and facts, or with reasoning or facts that were made up."""

FAILURES: Final[tuple[Label, ...]] = ("reasoning", "search", "hallucination", "label", "other")
"""Wrong reasoning (a repetitive loop included); searches that came back empty or useless; reasoning or
facts that were made up; a right answer that does not match the label precisely; anything else."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Annotation(Record):
    """One annotator's label for one episode. ``episode`` is a hash of what the annotator read."""

    trajectory: str
    episode: str
    method: str
    model: str
    correct: bool
    annotator: str
    label: Label


def labels_for(*, correct: bool) -> tuple[Label, ...]:
    """The labels that a right, or a wrong, episode can have."""
    return SUCCESSES if correct else FAILURES


def episode_hash(trajectory: Trajectory) -> str:
    """A hash of what an episode says: an episode that is played again keeps its id, not its content."""
    steps = [[step.thought, step.action, step.observation] for step in trajectory.steps]
    return digest([trajectory.task.content_hash, steps, trajectory.answer, trajectory.grade.correct])


def annotate(trajectory: Trajectory, annotator: str, label: Label) -> Annotation:
    """A label for an episode that is right or wrong.

    Raises:
        ValueError: the label is not one of its kind of episode.
    """
    correct = verdict(trajectory) == "right"
    if label not in labels_for(correct=correct):
        raise ValueError(f"{label!r} is no label of an episode that is {'right' if correct else 'wrong'}")
    return Annotation(
        trajectory=trajectory.id,
        episode=episode_hash(trajectory),
        method=trajectory.method,
        model=trajectory.model,
        correct=correct,
        annotator=annotator,
        label=label,
    )


class AnnotationFile:
    """One annotator's labels. Reading needs no lock; the first ``add`` takes it until ``close``.

    Args:
        folder: where the annotators' files stand; made when needed.
        annotator: letters, digits, dots, dashes and underscores.

    Raises:
        RecipeError: that is no name for a file.
        StoreError: a line is not a label (its number is named).
    """

    def __init__(self, folder: Path, annotator: str) -> None:
        if not _NAME.fullmatch(annotator):
            raise RecipeError(
                f"--annotator: {annotator!r} cannot name a file; use letters, digits, dots and dashes"
            )
        self.annotator = annotator
        self.path = folder / f"{annotator}.jsonl"
        self._descriptor: int | None = None
        self.labels = {one.trajectory: one for one in _read(self.path)} if self.path.exists() else {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def holds(self, trajectory: Trajectory) -> bool:
        """Whether the episode, as it stands, has a label."""
        known = self.labels.get(trajectory.id)
        return known is not None and known.episode == episode_hash(trajectory)

    def add(self, annotation: Annotation) -> None:
        """Write a label down: when this returns, it is on disk.

        Raises:
            StoreError: another session of the same annotator is writing, or the disk is full.
        """
        line = to_json(annotation.model_dump(mode="json")).encode("utf-8") + b"\n"
        try:
            descriptor = self._descriptor if self._descriptor is not None else self._open()
            os.write(descriptor, line)
            os.fsync(descriptor)
        except BlockingIOError:
            raise StoreError(
                f"{self.path} is being written by another session: end it, or give another --annotator"
            ) from None
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror or error}") from None
        self.labels[annotation.trajectory] = annotation

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _cut_torn_end(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return descriptor


def _cut_torn_end(descriptor: int) -> None:
    """Cut what a session left that was killed in the middle of a line."""
    text = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    os.ftruncate(descriptor, text.rfind(b"\n") + 1)


def _read(path: Path) -> Iterator[Annotation]:
    torn = not path.read_bytes().endswith(b"\n")
    lines = list(read_lines(path))
    for place, (number, line) in enumerate(lines, start=1):
        try:
            yield Annotation.model_validate_json(line)
        except ValidationError as error:
            if torn and place == len(lines):
                return
            raise StoreError(f"{path}, line {number} is not a label: {error.errors()[0]['msg']}") from None


def read_annotations(folder: Path) -> list[Annotation]:
    """Every annotator's labels, the latest of each episode, sorted by annotator and episode.

    Raises:
        StoreError: a line is not a label.
    """
    # The file's name is the annotator's: a copy under another name is another annotator's.
    latest: dict[tuple[str, str], Annotation] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for one in _read(path):
            latest[path.stem, one.trajectory] = one.model_copy(update={"annotator": path.stem})
    return [latest[key] for key in sorted(latest)]


@dataclass(frozen=True)
class Draw:
    """The sample to label: ids in the order in which they are shown, and what each group has.

    ``found`` and ``drawn`` count right and wrong episodes by (method, model, correct).
    """

    ids: list[str]
    found: Counter[tuple[str, str, bool]]
    drawn: Counter[tuple[str, str, bool]]


def draw(trajectories: Iterable[Trajectory], per_class: int, seed: int) -> Draw:
    """Draw at most ``per_class`` right and as many wrong episodes of every method × model.

    The draw depends on the seed and the ids alone, not on the order of the file, and a larger draw
    holds the smaller ones. Errored episodes are neither right nor wrong, and never drawn.
    """
    ranked: dict[tuple[str, str, bool], list[tuple[str, str]]] = {}
    for trajectory in trajectories:
        if (judged := verdict(trajectory)) != "errored":
            group = (trajectory.method, trajectory.model, judged == "right")
            ranked.setdefault(group, []).append((digest([seed, trajectory.id]), trajectory.id))
    chosen = {group: sorted(ranks)[:per_class] for group, ranks in ranked.items()}
    order = sorted(rank for ranks in chosen.values() for rank in ranks)
    return Draw(
        ids=[identity for _, identity in order],
        found=Counter({group: len(ranks) for group, ranks in ranked.items()}),
        drawn=Counter({group: len(ranks) for group, ranks in chosen.items()}),
    )


def cohen_kappa(first: Sequence[str], second: Sequence[str]) -> float | None:
    """Cohen's kappa of two annotators' labels of the same episodes.

    None where it is not defined: no episodes, or both gave one and the same label throughout.

    Source: Cohen 1960.

    Raises:
        ValueError: the lengths differ.
    """
    n = len(first)
    if n != len(second):
        raise ValueError(f"paired labels need equal lengths, not {n} and {len(second)}")
    ours, theirs = Counter(first), Counter(second)
    chance = sum(ours[label] * theirs[label] for label in ours)
    if n == 0 or chance == n * n:
        return None
    agreed = sum(a == b for a, b in zip(first, second, strict=True))
    # In whole numbers up to the last division: agreement by chance comes out as exactly 0.
    return (n * agreed - chance) / (n * n - chance)
