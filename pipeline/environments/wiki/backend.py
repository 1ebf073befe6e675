"""What a wiki is to an agent: pages by title, and titles that look like one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

SIMILAR = 5
"""How many similar titles a failed search names."""


@dataclass(frozen=True)
class Page:
    """A page. Paragraphs of ``text`` are separated by newlines."""

    title: str
    text: str


class Meanings(list[str]):
    """The titles that an ambiguous title may mean, as its page lists them."""


class WikiBackend(Protocol):
    """Where pages come from. Safe to use from several threads at once.

    ``version`` changes whenever a search could turn out differently.
    """

    version: str

    def find(self, title: str) -> Page | list[str]:
        """The page of that title (redirects followed), or up to five similar titles, best first.

        An ambiguous title gives its ``Meanings``. Any string is a legal title.

        Raises:
            EnvironmentFault: the wiki itself cannot be reached or read.
        """
        ...

    def close(self) -> None:
        """Free files and connections."""
        ...
