"""HotpotQA read: its official files, the Hugging Face data set, and ReAct's simplified files.

Rows are recognised one by one: ids are called ``_id`` or ``id`` or missing, supporting facts and
contexts are lists of pairs (official) or objects of lists (Hugging Face). Test files have no answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from pipeline.environments.wiki.backend import Page
from pipeline.environments.wiki.kinds import pages_of
from pipeline.environments.wiki.records import Row, list_of, number_of, rows, text_of
from pipeline.environments.wiki.titles import plain_title
from pipeline.errors import FormatError
from pipeline.trajectories.files import clean_text
from pipeline.trajectories.schema import Task

KINDS = ("bridge", "comparison")


def question_tasks(path: Path, split: str) -> Iterator[tuple[str, Task]]:
    """The questions of a file, each with the place where it stands.

    A row without an id takes the name of the split and its position. ``meta`` holds the level and the
    supporting facts as [title, number of the sentence]; contexts are left out, as they are long.

    Raises:
        EnvironmentFault: the file cannot be read.
        FormatError: a row is broken.
    """
    for position, (where, row) in enumerate(rows(path)):
        yield where, _task(row, where, split, position)


def context_pages(path: Path) -> Iterator[Page]:
    """The context paragraphs of every question as pages, as ``staract wiki build`` makes them.

    A title can come more than once.

    Raises:
        EnvironmentFault: the file cannot be read.
        FormatError: a row is broken.
    """
    for where, row in rows(path):
        if not row.get("context"):
            continue
        try:
            pages = pages_of("hotpotqa", row)
        except ValueError as error:
            raise FormatError(f"{where}: {error}") from None
        yield from (page for page in pages if page.text)


def _task(row: Row, where: str, split: str, position: int) -> Task:
    name = row.get("_id", row.get("id"))
    meta: dict[str, Any] = {}
    if row.get("level"):
        meta["level"] = text_of(row, "level", where)
    facts = [
        [title, number_of(sentence, "the number of a supporting sentence", where)]
        for title, sentence in _pairs(row.get("supporting_facts"), "sent_id", "supporting_facts", where)
    ]
    if facts:
        meta["supporting_facts"] = facts
    return Task(
        id=f"hotpotqa-{split}-{position}" if name is None else f"hotpotqa-{clean_text(str(name))}",
        environment="hotpotqa",
        split=split,
        kind=text_of(row, "type", where) if row.get("type") else "",
        instruction=text_of(row, "question", where),
        gold=_gold(row.get("answer"), where),
        meta=meta,
    )


def _gold(answer: Any, where: str) -> list[str]:
    if answer is None:
        return []
    if not isinstance(answer, str):
        raise FormatError(f"{where}: 'answer' is {ascii(answer)[:60]}, not a text")
    return [clean_text(answer)] if answer.strip() else []


def _pairs(value: Any, second: str, what: str, where: str) -> Iterator[tuple[str, Any]]:
    """Pairs of a title and something, from a list of pairs or an object of two lists."""
    if isinstance(value, dict):
        columns = cast("dict[str, Any]", value)
        titles = list_of(columns.get("title"), f"{what}.title", where)
        others = list_of(columns.get(second), f"{what}.{second}", where)
        if len(titles) != len(others):
            raise FormatError(f"{where}: {what} has {len(titles)} titles, but {len(others)} times {second!r}")
        pairs: list[Any] = list(zip(titles, others, strict=True))
    else:
        pairs = list_of(value, what, where)
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(cast("list[Any]", pair)) != 2:
            raise FormatError(f"{where}: {what} holds {ascii(pair)[:60]}, not a title and {second!r}")
        title, other = cast("tuple[Any, Any]", pair)
        if not isinstance(title, str):
            raise FormatError(f"{where}: {what} holds the title {ascii(title)[:60]}, which is not a text")
        yield plain_title(title), other
