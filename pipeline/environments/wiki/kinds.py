"""What a row of each kind of source means: which pages it holds, and their text as it should read."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, cast

from pipeline.environments.wiki.backend import Page
from pipeline.environments.wiki.titles import plain_title

Kind = Literal["hotpotqa", "abstracts", "fever", "wikipedia"]

_LINK: Final = re.compile(r"</?a(?: [^<>]*)?>")

_BRACKETS: Final = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_ESCAPED: Final = re.compile("|".join(_BRACKETS))
_OPENING: Final = re.compile(r"`` ?|([(\[{]) +")
_CLOSING: Final = re.compile(
    r" *''| +([,.;:!?%)\]}](?=[\s,.;:!?%)\]}\"']|$))| +((?:'(?:s|S|re|ve|ll|d|m)|n't)\b)"
)


def pages_of(kind: Kind, row: Any) -> list[Page]:
    """The pages that a row holds.

    Raises:
        ValueError: it is not a row of this kind; the message says what is missing.
    """
    if not isinstance(row, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - one error for every broken row
    return _READERS[kind](cast("dict[str, Any]", row))


def recognise(row: Any) -> Kind | None:
    """The kind of source that a row comes from, if it is one of the known."""
    if not isinstance(row, dict):
        return None
    if "context" in row:
        return "hotpotqa"
    if "lines" in row and "id" in row:
        return "fever"
    if "title" in row and "text" in row:
        return "wikipedia" if isinstance(row["text"], str) else "abstracts"
    return None


def mend_tokens(text: str) -> str:
    """Text cut into tokens after the manner of the Penn Treebank, as people write it.

    ``Hart -LRB- born 1970 -RRB- is `` Bob '' .`` becomes ``Hart (born 1970) is "Bob".``
    """
    text = _ESCAPED.sub(lambda match: _BRACKETS[match[0]], text)
    text = _OPENING.sub(lambda match: match[1] or '"', text)
    text = _CLOSING.sub(lambda match: match[1] or match[2] or '"', text)
    return text.replace(" -- ", " – ")


def _hotpotqa(row: dict[str, Any]) -> list[Page]:
    context = row.get("context")
    if isinstance(context, dict):
        found = cast("dict[str, Any]", context)
        titles, sentences = found.get("title"), found.get("sentences")
        if not isinstance(titles, list) or not isinstance(sentences, list) or len(titles) != len(sentences):
            raise ValueError("its context has not as many titles as lists of sentences")
        pairs = list(zip(titles, sentences, strict=True))
    elif isinstance(context, list):
        pairs = cast("list[Any]", context)
    else:
        raise ValueError("it has no context")  # noqa: TRY004
    return [_page(*_pair(pair)) for pair in pairs]


def _pair(pair: Any) -> tuple[Any, Any]:
    if not isinstance(pair, list | tuple) or len(cast("list[Any]", pair)) != 2:
        raise ValueError("its context is not made of pairs of title and sentences")
    title, sentences = cast("list[Any]", pair)
    return title, sentences


def _abstracts(row: dict[str, Any]) -> list[Page]:
    return [_page(row.get("title"), row.get("text"))]


def _fever(row: dict[str, Any]) -> list[Page]:
    page = _page(row.get("id"), row.get("text"))
    return [Page(page.title, mend_tokens(page.text))]


def _wikipedia(row: dict[str, Any]) -> list[Page]:
    return [_page(row.get("title"), row.get("text"))]


_READERS: Final[dict[Kind, Callable[[dict[str, Any]], list[Page]]]] = {
    "hotpotqa": _hotpotqa,
    "abstracts": _abstracts,
    "fever": _fever,
    "wikipedia": _wikipedia,
}

KINDS: Final = tuple(_READERS)
"""The kinds of sources, as ``--from kind:path`` names them."""


def _page(title: Any, text: Any) -> Page:
    """A page from a title, and from a text, its sentences, or its paragraphs of sentences."""
    if not isinstance(title, str):
        raise ValueError("it has no title")  # noqa: TRY004
    title = plain_title(title)
    if isinstance(text, str):
        return Page(title, text.strip())
    if not isinstance(text, list):
        raise ValueError(f"the page {title!r} has no text")  # noqa: TRY004
    pieces = cast("list[Any]", text)
    if all(isinstance(piece, str) for piece in pieces):
        return Page(title, _joined(pieces))
    paragraphs = [_paragraph(piece, title) for piece in pieces]
    if paragraphs and paragraphs[0] == title:
        paragraphs = paragraphs[1:]
    return Page(title, "\n".join(paragraph for paragraph in paragraphs if paragraph))


def _paragraph(sentences: Any, title: str) -> str:
    found = cast("list[Any]", sentences) if isinstance(sentences, list) else []
    if not isinstance(sentences, list) or not all(isinstance(sentence, str) for sentence in found):
        raise ValueError(f"the text of the page {title!r} is neither sentences nor paragraphs of sentences")
    # The full dump keeps links as HTML; the abstracts have none.
    return html.unescape(_LINK.sub("", _joined(found)))


def _joined(sentences: Iterable[str]) -> str:
    """Sentences as one text: where they bring their own spaces none are added."""
    found = list(sentences)
    own = any(sentence[:1].isspace() for sentence in found[1:])
    return ("" if own else " ").join(found).strip()
