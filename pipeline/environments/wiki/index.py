"""Titles that look like one: a tantivy index of the words of every title.

Titles that hold every word of the query come first, then those with a letter mended, then those that
hold some of its rarest words; among all that were found the most alike are named. The index never
scores: it gives the titles of the fewest words, then those of the earliest pages. So the answer does
not depend on how the index was built or its segments merged, and a word that stands in a hundred
thousand titles costs a millisecond or two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import tantivy
from rapidfuzz.distance import OSA

from pipeline.environments.wiki.backend import SIMILAR
from pipeline.environments.wiki.spelling import ALIKE, LONG, SHORT, edits, nearest
from pipeline.environments.wiki.titles import words
from pipeline.errors import EnvironmentFault

HEAP: Final = 64_000_000
"""Bytes that the writer holds before it writes a segment."""

COMMIT: Final = 500_000
"""Titles between two commits, which a killed build does not index again."""

_FIELD: Final = "words"
_TITLE: Final = "title"
_ORDER: Final = "order"
_PAGE_BITS: Final = 40
_CANDIDATES: Final = 12
_QUERY_WORDS: Final = 16
_COMBINED: Final = 4
_VARIANTS: Final = 16
_MANY: Final = 200_000
"""Titles from which on words of the same three letters are too many to compare."""

_COMMON: Final = 10_000
"""Titles of a word that says too little, and costs too much, to be searched for beside others."""


@dataclass(frozen=True)
class _Term:
    """A word of the query: what may stand for it in a title, and in how many titles that stands."""

    word: str
    variants: tuple[str, ...]
    count: int


class TitleIndex:
    """An index that ``create`` made or ``open`` found; complete once every title was added.

    Args:
        index: the tantivy index.
    """

    def __init__(self, index: Any) -> None:
        self._index = index
        self._schema = index.schema
        self._look()

    @classmethod
    def create(cls, folder: Path | None = None) -> TitleIndex:
        """A new index, or the beginning of one that is there already; without a folder in memory."""
        builder = tantivy.SchemaBuilder()
        builder.add_text_field(_FIELD, tokenizer_name="whitespace", index_option="basic")
        # Stored only: a text field would bring a dictionary of every title.
        builder.add_bytes_field(_TITLE, stored=True)
        builder.add_unsigned_field(_ORDER, fast=True)
        return cls(tantivy.Index(builder.build(), path=str(folder) if folder else None))

    @classmethod
    def open(cls, folder: Path) -> TitleIndex:
        """An index of a wiki's folder.

        Raises:
            EnvironmentFault: it is damaged or not there.
        """
        try:
            return cls(tantivy.Index.open(str(folder)))
        except (ValueError, OSError) as error:
            raise EnvironmentFault(
                f"the title index {folder} cannot be read ({error}): build the wiki again"
            ) from error

    @property
    def size(self) -> int:
        """How many titles it holds."""
        return self._size

    def add(
        self, titles: Iterable[tuple[str, str, int]], report: Callable[[int], None] | None = None
    ) -> None:
        """Add titles (key, title, number of the page), committing every ``COMMIT`` of them.

        Args:
            titles: what is not there yet.
            report: told after each commit how many the index holds.

        Raises:
            ValueError: tantivy cannot write; what was committed stays.
        """
        # One thread: with several, a commit would not hold the first titles but some of them.
        writer = self._index.writer(heap_size=HEAP, num_threads=1)
        for number, (key, title, page) in enumerate(titles, start=1):
            writer.add_document(_document(words(key), title, page))
            if number % COMMIT == 0:
                writer.commit()
                self._look()
                if report:
                    report(self.size)
        writer.commit()
        writer.wait_merging_threads()
        self._look()
        if report:
            report(self.size)

    def _look(self) -> None:
        """See what was committed."""
        self._index.reload()
        self._searcher = self._index.searcher()
        self._size = int(self._searcher.num_docs)

    def similar(self, key: str) -> list[str]:
        """Up to ``SIMILAR`` titles like a folded one, the most alike first; equals by title."""
        asked = list(dict.fromkeys(words(key)))[:_QUERY_WORDS]
        terms = [term for word in asked if (term := self._term(word)).count]
        found: dict[int, tuple[list[str], str]] = {}
        for stage in (_whole, self._mended, _parts) if terms else ():
            for query in stage(terms):
                self._collect(query, found)
            if len(found) >= SIMILAR:
                break
        likeness = _Likeness(terms, self._weight)
        scored = sorted((-round(likeness.of(held), 3), title) for held, title in found.values())
        return list(dict.fromkeys(title for _, title in scored))[:SIMILAR]

    def _mended(self, terms: Sequence[_Term]) -> Iterator[Sequence[_Term]]:
        """The rarest word with a letter mended as well: a word that some title holds may be misspelt.

        Not where another word was mended already: one slip is likelier than two.
        """
        rarest = min(terms, key=_rarity)
        if all(term.variants == (term.word,) for term in terms):
            mended = self._any_of(rarest.word, edits(rarest.word))
            if mended:
                wider = _Term(rarest.word, (rarest.word, *mended.variants), rarest.count + mended.count)
                yield [wider if term is rarest else term for term in terms]

    def _term(self, word: str) -> _Term:
        """The word itself if any title holds it, else known words like it."""
        count = self._count(word)
        if count:
            return _Term(word, (word,), count)
        return self._any_of(word, edits(word)) or self._any_of(word, self._alike(word)) or _Term(word, (), 0)

    def _any_of(self, word: str, candidates: Iterable[str]) -> _Term | None:
        """Those of the candidates that titles hold, the commonest."""
        frequency = self._searcher.doc_freq
        counted = [(-count, other) for other in candidates if (count := frequency(_FIELD, other))]
        chosen = sorted(counted)[:_VARIANTS]
        return (
            _Term(word, tuple(other for _, other in chosen), -sum(c for c, _ in chosen)) if chosen else None
        )

    def _alike(self, word: str) -> list[str]:
        prefix = SHORT if self._size < _MANY else LONG
        return nearest(word, lambda begun: self._searcher.terms_with_prefix(_FIELD, begun), prefix)

    def _count(self, word: str) -> int:
        return int(self._searcher.doc_freq(_FIELD, word))

    def _weight(self, word: str) -> float:
        """The inverse document frequency."""
        return math.log1p(self._size / max(self._count(word), 1))

    def _collect(self, terms: Sequence[_Term], found: dict[int, tuple[list[str], str]]) -> None:
        """Add titles that hold every term, with their words: fewest words first, then the earliest."""
        must = [(tantivy.Occur.Must, self._query(term)) for term in terms]
        hits = self._searcher.search(
            must[0][1] if len(must) == 1 else tantivy.Query.boolean_query(must),
            limit=_CANDIDATES,
            count=False,
            order_by_field=_ORDER,
            order=tantivy.Order.Asc,
        ).hits
        for order, address in hits:
            if order not in found:
                title, _, held = bytes(self._searcher.doc(address).get_first(_TITLE)).decode().partition("\n")
                found[order] = (held.split(), title)

    def _query(self, term: _Term) -> Any:
        queries = [tantivy.Query.term_query(self._schema, _FIELD, word, "basic") for word in term.variants]
        if len(queries) == 1:
            return queries[0]
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in queries])


def _document(found: Sequence[str], title: str, page: int) -> Any:
    document = tantivy.Document()
    held = " ".join(found)
    document.add_text(_FIELD, held)
    document.add_bytes(_TITLE, f"{title}\n{held}".encode())
    document.add_unsigned(_ORDER, len(found) << _PAGE_BITS | page)
    return document


def _rarity(term: _Term) -> tuple[int, str]:
    return term.count, term.word


def _whole(terms: Sequence[_Term]) -> Iterator[Sequence[_Term]]:
    yield terms


def _parts(terms: Sequence[_Term]) -> Iterator[Sequence[_Term]]:
    """Every choice of the rarest terms; of common ones alone only where there are no others."""
    rare = sorted(terms, key=_rarity)[:_COMBINED]
    for size in range(1, len(rare) + (len(rare) < len(terms))):
        for chosen in combinations(rare, size):
            if min(term.count for term in chosen) <= max(_COMMON, rare[0].count):
                yield chosen


class _Likeness:
    """What a query and a title share of their words (Dice), each word weighted by its rarity."""

    def __init__(self, terms: Sequence[_Term], weigh: Callable[[str], float]) -> None:
        self._weigh = weigh
        self._weights: dict[str, float] = {}
        self._asked = {term.word: max(map(self._weight, term.variants)) for term in terms}
        self._total = math.fsum(self._asked.values())

    def of(self, held: Sequence[str]) -> float:
        """From 0 to 1, for the words of a title."""
        shared = sum(weight * _nearness(word, held) for word, weight in self._asked.items())
        return 2 * shared / (self._total + sum(map(self._weight, held)))

    def _weight(self, word: str) -> float:
        if word not in self._weights:
            self._weights[word] = self._weigh(word)
        return self._weights[word]


def _nearness(word: str, held: Sequence[str]) -> float:
    """How near a title's words come to a word of the query: 1 if it is there, 0 if nothing like it is."""
    if word in held:
        return 1.0
    return max(OSA.normalized_similarity(word, other, score_cutoff=ALIKE) for other in held)
