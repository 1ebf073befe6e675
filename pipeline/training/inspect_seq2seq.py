"""Inspection of an encoder-decoder's rows: every one goes through training's own encoding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.errors import FormatError
from pipeline.recipe.models import TrainRecipe
from pipeline.rendering.seq2seq_ids import ids_of
from pipeline.rendering.swift_fit import read_prompt
from pipeline.rendering.tokens import IGNORE
from pipeline.training.inspect_findings import (
    Choice,
    Fault,
    Findings,
    Kind,
    Shown,
    Stretch,
    bits,
    control_names,
)
from pipeline.training.seq2seq_data import (
    EncodedExample,
    Example,
    Seq2SeqReport,
    encode_examples,
    read_examples,
)


def inspect_seq2seq(path: Path, tokenizer: Any, train: TrainRecipe, choice: Choice) -> Findings:
    """Inspect a file of rows in the format ``swift``.

    Raises:
        TrainingError: the file cannot be read, or a row is not of the format.
    """
    found = Findings(Seq2SeqReport())
    for example in read_examples(path):
        row, report, faults = _examine(example, tokenizer, train)
        if row is not None:
            foreign, whole = _foreign(example, row, tokenizer)
            found.control_ids += len(foreign)
            faults += [Fault("control", example.name, ", ".join(dict.fromkeys(foreign)))] if foreign else []
            faults += [] if whole else [Fault("form", example.name)]
        found.add(report, faults)
        if choice.wants(example.name, len(found.shown)):
            parts = _stretches(example, row, tokenizer)
            found.shown.append(Shown(example.name, bits(parts, tokenizer), "" if row else faults[0].kind))
    found.units = found.report.rows_kept
    return found


def _examine(
    example: Example, tokenizer: Any, train: TrainRecipe
) -> tuple[EncodedExample | None, Seq2SeqReport, list[Fault]]:
    """What training makes of an example, and what is wrong with it."""
    try:
        rows, report = encode_examples([example], tokenizer, train.max_length, train.target_length)
    except FormatError as error:
        kind: Kind = "stop" if _ends(ids_of(tokenizer, example.target), tokenizer) != 1 else "refused"
        return None, Seq2SeqReport(rows_read=1), [Fault(kind, example.name, str(error))]
    if not rows:
        kind = "unlabelled" if report.rows_unlabelled else "too_long"
        return None, report, [Fault("target_too_long" if report.targets_too_long else kind, example.name)]
    [row] = rows
    stopped = _ends(row.target, tokenizer) == 1 and row.target[-1] == tokenizer.eos_token_id
    return row, report, [] if stopped else [Fault("stop", example.name)]


def _ends(ids: Any, tokenizer: Any) -> int:
    return list(ids).count(tokenizer.eos_token_id)


def _foreign(example: Example, row: EncodedExample, tokenizer: Any) -> tuple[list[str], bool]:
    """The control tokens in what an input tells and in its target, and whether the input is of the form.

    What an input tells are its fields; the tokens between them are the form's own.
    """
    found = control_names(tokenizer, row.target[:-1])
    try:
        prompt = read_prompt(example.input)
    except FormatError:
        return found, False
    fields = (prompt.task, *prompt.entries, prompt.look, prompt.inventory, prompt.rooms)
    for text in fields:
        found += control_names(tokenizer, tokenizer.encode(text, add_special_tokens=False))
    # A sentinel that a text smuggled in between two entries makes the numbers of the others wrong.
    return found, prompt.text == example.input


def _stretches(example: Example, row: EncodedExample | None, tokenizer: Any) -> list[Stretch]:
    """Source, then target; of a row that training drops, both whole."""
    source = list(row.source) if row else ids_of(tokenizer, example.input)
    target = list(row.target) if row else ids_of(tokenizer, example.target)
    return [
        Stretch(source, [IGNORE] * len(source), plain=False),
        Stretch(target[:-1], target[:-1], plain=True),
        Stretch(target[-1:], target[-1:], plain=False),
    ]
