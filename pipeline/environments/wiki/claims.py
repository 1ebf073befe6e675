"""FEVER read: the shared task's JSON lines, and the Hugging Face form with one row an evidence sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, cast

from pipeline.environments.answers import claim_label
from pipeline.environments.wiki.records import Row, list_of, number_of, rows, text_of
from pipeline.environments.wiki.titles import plain_title
from pipeline.errors import FormatError
from pipeline.trajectories.files import clean_text
from pipeline.trajectories.schema import Task

Evidence = list[list[Any]]
"""One set of evidence: [title, number of the sentence], all of them needed together."""

_SPREAD = ("evidence_wiki_url", "evidence_sentence_id")
"""What only the Hugging Face form has."""


def claim_tasks(path: Path, split: str) -> Iterator[tuple[str, Task]]:
    """The claims of a file, each with the place where it (first) stands.

    ``meta`` holds the sets of evidence, each enough by itself, with repeated sets left out.

    Raises:
        EnvironmentFault: the file cannot be read.
        FormatError: a row is broken.
    """
    found = rows(path)
    first = next(found, None)
    if first is None:
        return
    found = chain([first], found)
    whole = _grouped(found) if any(key in first[1] for key in _SPREAD) else map(_claim, found)
    for claim in whole:
        yield claim.where, claim.task(split)


@dataclass
class _Claim:
    where: str
    name: str
    text: str
    label: str
    evidence: dict[Any, Evidence] = field(default_factory=dict)

    def task(self, split: str) -> Task:
        sets: list[Evidence] = []
        for evidence in self.evidence.values():
            if evidence and evidence not in sets:
                sets.append(evidence)
        return Task(
            id=f"fever-{self.name}",
            environment="fever",
            split=split,
            kind=self.label,
            instruction=self.text,
            gold=[self.label] if self.label else [],
            meta={"evidence": sets} if sets else {},
        )


def _claim(found: tuple[str, Row]) -> _Claim:
    where, row = found
    claim = _head(where, row)
    for number, group in enumerate(list_of(row.get("evidence"), "evidence", where)):
        claim.evidence[number] = list(_sentences(list_of(group, "a set of evidence", where), where))
    return claim


def _sentences(group: list[Any], where: str) -> Iterator[list[Any]]:
    for item in group:
        if not isinstance(item, list) or len(cast("list[Any]", item)) != 4:
            shape = "[annotation, evidence, title, sentence]"
            raise FormatError(f"{where}: a piece of evidence is {ascii(item)[:60]}, not {shape}")
        _, _, title, sentence = cast("list[Any]", item)
        if title is not None:
            yield _sentence(title, sentence, where)


def _grouped(found: Iterator[tuple[str, Row]]) -> Iterator[_Claim]:
    """Rows joined by id. All claims are held at once: a shuffled file may spread one over its length."""
    claims: dict[Any, _Claim] = {}
    for where, row in found:
        name = row.get("id")
        claim = claims.get(name) if isinstance(name, int | str) else None
        if claim is None:
            claim = _head(where, row)
            claims[name] = claim
        title = row.get("evidence_wiki_url")
        if title:
            group = claim.evidence.setdefault(row.get("evidence_id"), [])
            piece = _sentence(title, row.get("evidence_sentence_id"), where)
            if piece not in group:
                group.append(piece)
    return iter(claims.values())


def _head(where: str, row: Row) -> _Claim:
    name = row.get("id")
    if isinstance(name, bool) or not isinstance(name, int | str):
        raise FormatError(f"{where}: 'id' is {ascii(name)[:60]}, not a number or a text")
    label = row.get("label") or ""
    known = claim_label(str(label)) if label else ""
    if known is None:
        raise FormatError(
            f"{where}: 'label' is {ascii(label)[:60]}, not SUPPORTS, REFUTES or NOT ENOUGH INFO"
        )
    return _Claim(where, clean_text(str(name)), text_of(row, "claim", where), known)


def _sentence(title: Any, sentence: Any, where: str) -> list[Any]:
    if not isinstance(title, str):
        raise FormatError(f"{where}: a title of evidence is {ascii(title)[:60]}, not a text")
    return [plain_title(title), number_of(sentence, "the number of an evidence sentence", where)]
