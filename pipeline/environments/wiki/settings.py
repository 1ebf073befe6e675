"""The option ``wiki`` of an environment: which wiki its episodes search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from pipeline.environments.wiki.backend import Page, WikiBackend
from pipeline.environments.wiki.local import LocalWiki
from pipeline.errors import EnvironmentFault, RecipeError

_KEYS: dict[str, dict[str, type]] = {
    "contexts": {},
    "local": {"folder": str},
    "live": {"cache": str, "offline": bool, "user_agent": str, "url": str},
    "none": {},
}
"""The keys of each backend, and the type of their values."""

_WHERE = "environment.options.wiki"

CHOICES = (
    "{backend: local, folder: ...} or {backend: live, cache: ...},"
    " or to {backend: none} for methods that never search"
)
"""What to say to somebody whose data brings no pages."""


@dataclass(frozen=True)
class WikiSettings:
    """A checked choice of a wiki. Make one with ``of``.

    ``contexts`` is the data's own paragraphs, in memory; ``local`` a folder that ``staract wiki build``
    wrote; ``live`` a MediaWiki, recorded in a cache; ``none`` serves methods that never search. A
    relative path is relative to the working folder.
    """

    backend: str
    options: Mapping[str, Any]

    @classmethod
    def of(cls, chosen: Any) -> WikiSettings:
        """Check the option.

        Raises:
            RecipeError: there is no such backend or key, a value is of the wrong type, or one is missing.
        """
        if not isinstance(chosen, Mapping) or chosen.get("backend") not in _KEYS:
            known = ", ".join(_KEYS)
            raise RecipeError(f"{_WHERE}: {chosen!r} names no backend; wiki.backend is one of: {known}")
        options = {str(key): value for key, value in chosen.items() if key != "backend"}
        backend = str(chosen["backend"])
        for key, value in options.items():
            _check(backend, key, value)
        if backend == "local" and "folder" not in options:
            raise RecipeError(f"{_WHERE}.folder is missing: name the folder that staract wiki build wrote")
        return cls(backend, options)

    @property
    def blocking(self) -> bool:
        """Whether a search may wait for a network."""
        return self.backend == "live"

    def open(self, contexts: Callable[[], Iterable[Page]], version: str) -> WikiBackend:
        """Open the wiki.

        Args:
            contexts: the data's own paragraphs.
            version: of a wiki made from them.

        Raises:
            EnvironmentFault: it cannot be opened, or the data has no paragraphs.
            RecipeError: the live wiki refuses its settings.
        """
        if self.backend == "contexts":
            return _from_contexts(contexts(), version)
        if self.backend == "none":
            return NoWiki()
        if self.backend == "local":
            return LocalWiki.open(Path(self.options["folder"]))
        return _live(dict(self.options))


class NoWiki:
    """A ``WikiBackend`` without pages."""

    version = "none"

    def find(self, title: str) -> Page | list[str]:
        """Always raises ``EnvironmentFault``."""
        raise EnvironmentFault(f"nothing can be searched with {_WHERE} {{backend: none}}: name a wiki")

    def close(self) -> None:
        """Nothing is held."""


def _check(backend: str, key: str, value: Any) -> None:
    known = _KEYS[backend]
    if key not in known:
        names = ", ".join(known) or "none"
        raise RecipeError(f"{_WHERE}: {key!r} is not a key of backend {backend!r}; known are: {names}")
    if not isinstance(value, known[key]):
        kind = "true or false" if known[key] is bool else "a text"
        raise RecipeError(f"{_WHERE}.{key}: {value!r} is not {kind}")
    if key in ("folder", "cache") and not str(value).strip():
        raise RecipeError(f"{_WHERE}.{key} is empty: name a folder")


def _from_contexts(pages: Iterable[Page], version: str) -> WikiBackend:
    found = iter(pages)
    first = next(found, None)
    if first is None:
        raise EnvironmentFault(
            f"the data has no context paragraphs to search: set environment.options.wiki to {CHOICES}"
        )
    return LocalWiki.build(chain([first], found), version=version)


def _live(options: dict[str, Any]) -> WikiBackend:
    from pipeline.environments.wiki.live import LiveWiki  # its network client is needed for this backend only

    cache = options.pop("cache", None)
    return LiveWiki(Path(cache) if cache else None, **options)
