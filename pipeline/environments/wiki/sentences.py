"""Text cut into sentences, for what a search shows and what a look-up finds."""

from __future__ import annotations

import re

_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'“])(?:[A-Z]|Mr|Mrs|Ms|Dr|St|Ste|Jr|Sr|Prof|Gen|Col|Sgt|Lt|Capt|Rev|Hon|Mt|No|vs|approx|ca"
    r"|e\.g|i\.e|cf|(?:[A-Za-z]\.)+[A-Za-z])\.$"
)
"""What a full stop may follow without ending a sentence: initials and the commonest short forms."""

_BOUNDARY = re.compile(
    r"""(?<=[.!?])["'”’)\]]*\s+          # a stop, closing marks, then space
      | (?<=[a-z0-9)\]][a-z0-9)\]][.!?])(?=[A-Z][a-z\s])  # or none, where a footnote stood: internet.A year
    """,
    re.VERBOSE,
)
_TAIL = 40
"""Characters before a boundary that are looked at: no short form is longer."""
_ENDED = re.compile(r"""[.!?…]["'”’)\]]*$""")


def _paragraph(text: str) -> list[str]:
    sentences: list[str] = []
    start = 0
    for match in _BOUNDARY.finditer(text):
        end = match.end()
        tail = text[max(start, end - _TAIL) : end].strip()
        if text[end : end + 1].islower() or _ABBREVIATION.search(tail):
            continue
        sentences.append(text[start:end].strip())
        start = end
    sentences.append(text[start:].strip())
    return [sentence if _ENDED.search(sentence) else f"{sentence}." for sentence in sentences if sentence]


def split_sentences(text: str) -> list[str]:
    """The sentences of a page, paragraph by paragraph, each ending in exactly its own stop.

    A sentence also ends where the space after it was lost ("the internet.A year later"). Initials
    and common short forms ("St. John's", "J. Smith") do not end one.
    """
    lines = (line.strip() for line in text.split("\n"))
    return [sentence for line in lines if line for sentence in _paragraph(line)]
