"""The HTML of a wiki page made plain text: paragraphs first, then the items of lists.

That is the order of the published environment (specs, section 1.1). The page is read as a stream of
tags, without a tree: neither depth nor size costs a hostile page more than its length.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]  # written in C

from pipeline.trajectories.files import clean_text

MAX_HTML = 8_000_000
"""Characters of a page's HTML that are read. Wikipedia holds a page to 2 MiB of expanded markup."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TAGS = _names("""
    annotation annotation-xml audio button figure footer form frameset head header iframe nav noscript
    object script select style svg table template textarea video
""")
_CLASSES = _names("""
    ambox asbox authority-control catlinks coordinates dablink gallery geo-inline geo-multi-punct
    geo-nondefault hatnote infobox infobox_v2 Inline-Template metadata mw-cite-backlink mw-editsection
    mw-jump-link mw-references-wrap navbar navbox navigation-not-searchable noprint portal-bar portalbox
    printfooter reference references reflist rellink shortdescription side-box sidebar sistersitebox thumb
    toc vertical-navbox
""")
_IDS = _names("""
    catlinks contentSub coordinates footer jump-to-nav mw-head mw-navigation mw-panel
    p-user-menu-anon-editor siteNotice siteSub toc
""")
_ROLES = _names("navigation note")
"""Four ways to tell what is not the article's own text: names of tags, classes, ids and roles."""

_HIDDEN_STYLE = re.compile(r"display\s*:\s*none", re.IGNORECASE)
_CHROME = ("Pages for logged out editors", "Jump to navigation", "Jump to search")
"""What the site itself says on pages that were saved whole."""

_CONTENT = "mw-parser-output"
_APART = _names("blockquote br dd div dl dt h1 h2 h3 h4 h5 h6 hr li ol p pre td th tr ul")
"""Tags whose text does not touch the text around them."""

_INVISIBLE = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)
"""Soft hyphens, zero-width and direction marks, tag characters. Joiners stay: they spell words."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MARKS = 30
"""Combining marks in a row that are kept, as in Unicode's stream-safe text: ordering them takes
quadratic time."""

_OTHER_LINKS = _names("new external extiw image mw-file-description mw-selflink selflink")
_NAMESPACES = _names("""
    category draft file help image mediawiki module portal special talk template user wikipedia wikt
    wiktionary
""")


@dataclass
class Cleaned:
    """What is worth reading in a page: one line a block, in the order of the page.

    ``links`` holds, for each item of a list that has one, the title its first link leads to.
    """

    paragraphs: list[str] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All paragraphs, then all items, separated by newlines."""
        return "\n".join((*self.paragraphs, *self.items))


def clean_html(html: str) -> Cleaned:
    """Read a page. Without tables, boxes, references, coordinates, notes and what the site adds.

    Any string is read somehow; what lies beyond ``MAX_HTML`` characters is left out.
    """
    reader = _Reader()
    parser: Any = etree.HTMLParser(target=reader, huge_tree=True, encoding="utf-8")
    # A parser may stop at a NUL, and refuses a text without any tag.
    parser.feed(b"<html><body>" + clean_text(html[:MAX_HTML]).replace("\0", "\ufffd").encode())
    parser.close()
    return Cleaned(_filled(reader.paragraphs), _filled(reader.items), _titles(reader.items))


def clean_line(text: str) -> str:
    """One line in NFC: white space squeezed, no control characters, no invisible marks."""
    text = _CONTROL.sub(" ", _INVISIBLE.sub("", clean_text(text)))
    if not text.isascii():
        text = unicodedata.normalize("NFC", _few_marks(text))
    return " ".join(text.split())


@dataclass
class _Block:
    """A paragraph or an item of a list while it is read."""

    pieces: list[str] = field(default_factory=list)
    link: str = ""


class _Reader:
    """A target of lxml's parser: gives each text to the innermost open paragraph or item."""

    def __init__(self) -> None:
        self._depth = 0
        # Depths of the tags around what is read now: the unwanted one, and the article's own.
        self._unwanted: int | None = None
        self._content: int | None = None
        self._ended = False
        self._restart()

    def _restart(self) -> None:
        self.paragraphs: list[_Block] = []
        self.items: list[_Block] = []
        self._open: list[_Block] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._ended or self._unwanted is not None:
            return
        if self._content is None and _CONTENT in attributes.get("class", "").split():
            # What came before it is the site's, where a page was saved whole.
            self._restart()
            self._content = self._depth
        elif _unwanted(tag, attributes):
            self._unwanted = self._depth
        else:
            self._enter(tag, attributes)

    def end(self, tag: str) -> None:
        if self._unwanted is None and not self._ended:
            self._leave(tag)
        if self._unwanted == self._depth:
            self._unwanted = None
        if self._content == self._depth:
            self._ended = True
        self._depth -= 1

    def data(self, text: str) -> None:
        if self._open and self._unwanted is None and not self._ended:
            self._open[-1].pieces.append(text)

    def close(self) -> None:
        """Nothing is left to do at the end of the page."""

    def _enter(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._part(tag)
        if tag in {"p", "li"}:
            block = _Block()
            (self.paragraphs if tag == "p" else self.items).append(block)
            self._open.append(block)
        elif tag == "a" and self._open and not self._open[-1].link:
            self._open[-1].link = _target(attributes)

    def _leave(self, tag: str) -> None:
        if tag in {"p", "li"} and self._open:
            self._open.pop()
        self._part(tag)

    def _part(self, tag: str) -> None:
        if self._open and tag in _APART:
            self._open[-1].pieces.append(" ")


def _filled(blocks: list[_Block]) -> list[str]:
    lines = (clean_line("".join(block.pieces)) for block in blocks)
    return [line for line in lines if line and not line.startswith(_CHROME)]


def _titles(items: list[_Block]) -> list[str]:
    return list(dict.fromkeys(item.link for item in items if item.link))


def _unwanted(tag: str, attributes: Mapping[str, str]) -> bool:
    if tag in _TAGS:
        return True
    if not attributes:
        return False
    return (
        not _CLASSES.isdisjoint(attributes.get("class", "").split())
        or attributes.get("id", "") in _IDS
        or attributes.get("role", "") in _ROLES
        or _HIDDEN_STYLE.search(attributes.get("style", "")) is not None
    )


def _target(attributes: Mapping[str, str]) -> str:
    """The title that a link to another article of the wiki leads to, or nothing."""
    title = clean_line(attributes.get("title", ""))
    namespace, colon, _ = title.partition(":")
    if colon and namespace.lower() in _NAMESPACES:
        return ""
    return title if _OTHER_LINKS.isdisjoint(attributes.get("class", "").split()) else ""


def _few_marks(text: str) -> str:
    kept: list[str] = []
    run = 0
    for char in text:
        run = run + 1 if unicodedata.combining(char) else 0
        if run <= _MARKS:
            kept.append(char)
    return "".join(kept)
