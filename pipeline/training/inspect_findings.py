"""What an inspection finds in a file of rows: faults, and a few rows as text with its labels marked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any, Final, Literal

from pipeline.rendering.ids import is_control
from pipeline.rendering.tokens import IGNORE
from pipeline.training.data import DataReport
from pipeline.training.preference_data import PreferenceReport
from pipeline.training.seq2seq_data import Seq2SeqReport

Kind = Literal["unlabelled", "too_long", "target_too_long", "unserved", "stop", "control", "form", "refused"]

FAULTS: Final[dict[Kind, tuple[str, str]]] = {
    "unlabelled": (
        "rows that train nothing, since they hold no word of the model's own",
        "remove them, or export again",
    ),
    "too_long": ("rows that train nothing, since they do not fit even when cut", "raise train.max_length"),
    "target_too_long": (
        "rows that train nothing, since their target does not fit",
        "raise train.target_length",
    ),
    "unserved": (
        "pairs that train nothing, since serving would write what their halves share otherwise",
        "export them with another renderer",
    ),
    "stop": (
        "rows with a turn that does not end with its one stop, so that a student would not learn to stop",
        "export again, with this version and for this model",
    ),
    "control": (
        "rows in whose text control tokens were found, which a student would take for the template's own",
        "remove them, or train a base whose tokeniser can spell them out",
    ),
    "form": (
        "rows that are no input of SWIFT's, so that control tokens in foreign text cannot be found",
        "export again",
    ),
    "refused": ("rows that training refuses", "mend what it says"),
}
"""What is wrong with rows of each kind, and what to do."""
_NAMED: Final = 3
"""Rows that a sentence names."""


@dataclass(frozen=True)
class Fault:
    """One thing wrong with one row."""

    kind: Kind
    row: str
    detail: str = ""


@dataclass(frozen=True)
class Stretch:
    """Ids that were encoded together, and their labels.

    ``plain`` text is foreign or the model's own; it may hold no control token, as a template's frame may.
    """

    ids: Sequence[int]
    labels: Sequence[int]
    plain: bool


@dataclass(frozen=True)
class Bit:
    """A piece of a row to look at. ``control``: one control token; ``alarm``: it stands in plain text."""

    text: str
    trained: bool
    control: bool = False
    alarm: bool = False


@dataclass(frozen=True)
class Shown:
    """A row to look at; ``fault`` says why training would not see it, if so."""

    row: str
    bits: tuple[Bit, ...]
    fault: str = ""


@dataclass(frozen=True)
class Choice:
    """Which rows to show: the first ``count``, or those whose name begins with ``row``."""

    count: int = 2
    row: str | None = None

    def wants(self, name: str, shown: int) -> bool:
        """Whether to show a row of this name after ``shown`` others."""
        return shown < self.count if self.row is None else name.startswith(self.row)


@dataclass
class Findings:
    """Of one file. ``units`` are what batches are made of (blocks, or pairs).

    ``fill`` is the share of the blocks' positions that hold a token; None without packing.
    """

    report: DataReport | Seq2SeqReport | PreferenceReport
    faults: list[Fault] = field(default_factory=list[Fault])
    shown: list[Shown] = field(default_factory=list[Shown])
    control_ids: int = 0
    units: int = 0
    fill: float | None = None

    def add(self, report: DataReport | Seq2SeqReport | PreferenceReport, faults: Iterable[Fault]) -> None:
        """Count one more row: its own report is added to that of the file."""
        for name, value in asdict(report).items():
            before: int = getattr(self.report, name)
            together = max(before, value) if name.startswith("longest") else before + value
            setattr(self.report, name, together)
        self.faults += faults

    def count(self, kind: Kind) -> int:
        """How many rows have a fault."""
        return sum(fault.kind == kind for fault in self.faults)

    def sentences(self) -> list[str]:
        """One sentence a kind of fault: what is wrong, with which rows, what to do."""
        said: list[str] = []
        for kind, (what, remedy) in FAULTS.items():
            faults = [fault for fault in self.faults if fault.kind == kind]
            said += [f"{what}: {len(faults)} ({_names(faults)}); {remedy}"] if faults else []
        return said


def control_names(tokenizer: Any, ids: Iterable[int]) -> list[str]:
    """The control tokens among ids.

    Runs of blanks, which some tokenisers keep among their added tokens, are text. So is what stands for
    an unknown character, where that is all it stands for.
    """
    roles = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
    unknown = tokenizer.unk_token_id if tokenizer.unk_token_id not in roles else None
    found = [token for token in ids if token != unknown and is_control(tokenizer, token)]
    return [name for name in map(str, tokenizer.convert_ids_to_tokens(found)) if name.strip()]


def bits(stretches: Sequence[Stretch], tokenizer: Any) -> tuple[Bit, ...]:
    """A row as text: what is trained apart from what is not, each control token by itself."""
    places = [
        (token, label != IGNORE, part.plain, tuple(control_names(tokenizer, [token])))
        for part in stretches
        for token, label in zip(part.ids, part.labels, strict=True)
    ]
    ids = [place[0] for place in places]
    made: list[Bit] = []
    start = 0
    for (trained, plain, names), group in groupby(places, key=lambda place: place[1:]):
        end = start + len(list(group))
        if names:
            made += [Bit(names[0], trained, control=True, alarm=plain)] * (end - start)
        else:
            made.append(Bit(_text(tokenizer, ids, start, end), trained))
        start = end
    return tuple(made)


def _text(tokenizer: Any, ids: list[int], start: int, end: int) -> str:
    """What these ids add to the text before them: by itself, a decoder may drop a leading space."""
    before, whole = (tokenizer.decode(ids[:at], clean_up_tokenization_spaces=False) for at in (start, end))
    return whole[len(before) :]


def _names(faults: Sequence[Fault]) -> str:
    first = f"{faults[0].row!r}" + (f": {faults[0].detail}" if faults[0].detail else "")
    others = [repr(fault.row) for fault in faults[1:_NAMED]]
    more = [f"{len(faults) - _NAMED} more"] if len(faults) > _NAMED else []
    return ", ".join([first, *others, *more])
