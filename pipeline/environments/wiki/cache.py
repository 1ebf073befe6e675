"""Answers of a live wiki kept on disk, one file an answer, so that a run can be replayed.

A file appears whole or not at all, so threads and processes may share a folder. It holds the wiki's
address, the title asked for and the answer; nothing of who asked. It has a checksum, because a
silently damaged answer would change what an agent reads.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from pipeline.environments.wiki.backend import Meanings, Page
from pipeline.errors import EnvironmentFault, StoreError
from pipeline.trajectories.files import read_json, to_json, write_json

FORMAT = "1"
"""Raised whenever the same page would be cleaned or stored in another way."""


class DamagedEntry(EnvironmentFault):
    """A file of the cache does not hold what it should."""


class AnswerCache:
    """What one wiki answered, by title.

    Args:
        folder: where the files lie; it is made with the first answer.
        url: the wiki's address, which decides its language.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self._url = url

    def path(self, title: str) -> Path:
        """The file of a title, whether it exists or not."""
        name = _digest([FORMAT, self._url, title])
        return self.folder / name[:2] / f"{name[2:]}.json"

    def get(self, title: str) -> Page | list[str] | None:
        """The recorded answer, or None if there is none.

        Raises:
            DamagedEntry: the file cannot be read, or holds something else.
        """
        path = self.path(title)
        try:
            if not path.exists():
                return None
            return _read(read_json(path), title)
        except (StoreError, OSError, ValueError, TypeError, LookupError, RecursionError):
            raise DamagedEntry(f"the recorded answer {path} is damaged: delete it and ask again") from None

    def put(self, title: str, found: Page | list[str]) -> None:
        """Record an answer, in place of any other.

        Raises:
            EnvironmentFault: the folder cannot be written to.
        """
        answer: object = (
            list(found) if isinstance(found, list) else {"title": found.title, "text": found.text}
        )
        if isinstance(found, Meanings):
            answer = {"meanings": list(found)}
        entry = {"url": self._url, "title": title, "answer": answer, "sha256": _digest(answer)}
        try:
            write_json(self.path(title), entry)
        except StoreError as error:
            raise EnvironmentFault(f"an answer of {self._url} cannot be recorded: {error}") from None


def _digest(value: Any) -> str:
    return hashlib.sha256(to_json(value).encode("utf-8")).hexdigest()


def _read(entry: Any, asked: str) -> Page | list[str]:
    """The answer in a file. Raises ``ValueError`` and its like where something else is there."""
    answer: object = entry["answer"]
    if entry["title"] != asked or entry["sha256"] != _digest(answer):
        raise ValueError(asked)
    match answer:
        case {"title": str(title), "text": str(text)}:
            return Page(title, text)
        case {"meanings": [*titles]}:
            return Meanings(str(title) for title in titles)
        case [*titles]:
            return [str(title) for title in titles]
        case _:
            raise ValueError(asked)
