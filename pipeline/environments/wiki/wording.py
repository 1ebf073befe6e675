"""How a wiki episode reads actions and words its answers: two ways, one object each.

``default`` mends the published environment's faults: no doubled full stops, no verdict in what the
agent reads, one printable line for whatever is quoted. ``react2022`` answers to the letter as the
environment of the ReAct paper does (specs, section 1.1), faults included, for comparison with
published numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from pipeline.environments.base import Observation
from pipeline.environments.wiki.backend import SIMILAR, Meanings, Page, WikiBackend
from pipeline.environments.wiki.sentences import split_sentences
from pipeline.environments.wiki.titles import clean
from pipeline.errors import RecipeError
from pipeline.trajectories.schema import Grade

VERBS = ("search", "lookup", "finish", "think")

QUOTED = 120
"""Characters of an action that the default wording repeats."""

BRACKETED = 2
"""How often a page that lists what its title may mean is searched again; the published environment
does so for ever."""

_ACTION = re.compile(r"\s*(search|lookup|finish|think)\s*\[(.*)\][\s.]*", re.IGNORECASE)
_AMBIGUOUS = "may refer to:"
_NO_HITS = "There were no results matching the query."


class Wording(Protocol):
    """What an episode asks before it answers. Stateless: one object serves every episode."""

    name: str

    def opening(self, label: str, instruction: str) -> str:
        """The first observation of an episode."""
        ...

    def parse(self, action: str) -> tuple[str, str] | None:
        """The verb (one of ``VERBS``) and the argument of an action; None if it is not one."""
        ...

    def invalid(self, action: str) -> str:
        """The answer to an action that is none."""
        ...

    def find(self, backend: WikiBackend, title: str) -> tuple[str, Page | list[str]]:
        """The title asked for in the end, and what the wiki has for it."""
        ...

    def missed(self, title: str, similar: Sequence[str]) -> str:
        """The answer to a search without a page."""
        ...

    def sentences(self, text: str) -> list[str]:
        """The sentences of a page, as a search shows and a look-up finds them."""
        ...

    def refused(self, keyword: str, has_page: bool) -> Observation | None:
        """The answer to a look-up that cannot be carried out; None if it can."""
        ...

    def keyword(self, keyword: str) -> str:
        """The form in which a keyword is the same as the one before."""
        ...

    def contains(self, sentence: str, keyword: str) -> bool:
        """Whether a look-up of the keyword finds the sentence."""
        ...

    def exhausted(self) -> str:
        """The answer to a look-up without a further result."""
        ...

    def finished(self, grade: Grade) -> str:
        """The answer to the last action."""
        ...


def parse_action(action: str) -> tuple[str, str] | None:
    """The verb (lower case) and the argument, which ends at the last ``]`` of the first line; or None."""
    lines = action.strip().split("\n", 1)
    match = _ACTION.fullmatch(lines[0])
    return (match[1].lower(), match[2].strip()) if match else None


def quote(text: str) -> str:
    """Text from a model as an observation may repeat it: one line, of bounded length."""
    text = clean(text[: 4 * QUOTED])
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}…"


class DefaultWording:
    """The published wording without its faults."""

    name = "default"

    def opening(self, label: str, instruction: str) -> str:
        """Nothing: the prompt shows the task already."""
        return ""

    def parse(self, action: str) -> tuple[str, str] | None:
        """As ``parse_action``."""
        return parse_action(action)

    def invalid(self, action: str) -> str:
        """Names the action, on one short line."""
        return f"Invalid action: {quote(action)}"

    def find(self, backend: WikiBackend, title: str) -> tuple[str, Page | list[str]]:
        """Asks once."""
        return title, backend.find(title)

    def missed(self, title: str, similar: Sequence[str]) -> str:
        """Names the title and the similar ones."""
        return f"Could not find {quote(title)}. Similar: {list(similar)}."

    def sentences(self, text: str) -> list[str]:
        """As ``split_sentences``."""
        return split_sentences(text)

    def refused(self, keyword: str, has_page: bool) -> Observation | None:
        """A look-up needs a page and a keyword."""
        if not has_page:
            return Observation("There is no page to look in: search for one first.", invalid=True)
        if not keyword:
            return Observation("Invalid action: a lookup needs a keyword.", invalid=True)
        return None

    def keyword(self, keyword: str) -> str:
        """Case does not count."""
        return keyword.casefold()

    def contains(self, sentence: str, keyword: str) -> bool:
        """Case does not count."""
        return keyword.casefold() in sentence.casefold()

    def exhausted(self) -> str:
        """Says that there is no more."""
        return "No more results."

    def finished(self, grade: Grade) -> str:
        """Says nothing of the verdict, which an agent must not learn from."""
        return "Episode finished."


class React2022:
    """The published environment to the letter, and of its prompt loop the case of an action's first letter.

    Three things differ, none of which a published number rests on: a page of page names is searched
    again ``BRACKETED`` times at most, a block that the escape-decoding round trip breaks on is kept
    as it is instead of ending the run, and of the page that the wiki's site shows where nothing is
    like the title, only its one sentence is given.
    """

    name = "react2022"

    def opening(self, label: str, instruction: str) -> str:
        """The task under its label."""
        return f"{label}: {instruction}"

    def parse(self, action: str) -> tuple[str, str] | None:
        """A verb in lower case but for its first letter, the bracket right behind it, and one at the end."""
        action = _lowered(action)
        verb, bracket, rest = action.partition("[")
        if not bracket or verb not in VERBS or not rest.endswith("]"):
            return None
        return verb, rest[:-1]

    def invalid(self, action: str) -> str:
        """Repeats the whole action."""
        return f"Invalid action: {_lowered(action)}"

    def find(self, backend: WikiBackend, title: str) -> tuple[str, Page | list[str]]:
        """Searches again, in brackets, where the page lists what the title may mean."""
        found = backend.find(title)
        for _ in range(BRACKETED):
            if not _is_ambiguous(found):
                break
            title = f"[{title}]"
            found = backend.find(title)
        return title, found or Page(title, _NO_HITS)

    def missed(self, title: str, similar: Sequence[str]) -> str:
        """The titles as Python writes a list."""
        return f"Could not find {title}. Similar: {list(similar[:SIMILAR])}."

    def sentences(self, text: str) -> list[str]:
        """Paragraphs of more than two words, cut at every full stop and space; each piece gets a stop."""
        blocks = (block.strip() for block in text.split("\n"))
        kept = "\n".join(_decoded(block) for block in blocks if len(block.split(" ")) > 2)
        paragraphs = (paragraph.strip() for paragraph in kept.split("\n"))
        pieces = (piece.strip() for paragraph in paragraphs for piece in paragraph.split(". "))
        return [f"{piece}." for piece in pieces if piece]

    def refused(self, keyword: str, has_page: bool) -> Observation | None:
        """Never: without a page there are no results, and the empty keyword stands in every sentence."""
        return None

    def keyword(self, keyword: str) -> str:
        """Case counts: the keyword in another case starts again."""
        return keyword

    def contains(self, sentence: str, keyword: str) -> bool:
        """Case does not count here."""
        return keyword.lower() in sentence.lower()

    def exhausted(self) -> str:
        """Ends with a line break."""
        return "No more results.\n"

    def finished(self, grade: Grade) -> str:
        """Tells the published reward: the official metric, 0 or 1."""
        metrics = grade.metrics
        reward = metrics.get("em_official", metrics.get("accuracy_official", grade.reward))
        return f"Episode finished, reward = {int(reward)}\n"


def _is_ambiguous(found: Page | list[str]) -> bool:
    return isinstance(found, Meanings) or (isinstance(found, Page) and _AMBIGUOUS in found.text)


def _lowered(action: str) -> str:
    action = action.strip()
    return action[:1].lower() + action[1:]


def _decoded(block: str) -> str:
    """Backslash escapes decoded as the published environment does; other text is unchanged."""
    if "\\" not in block:
        return block
    try:
        return block.encode("utf-8").decode("unicode-escape").encode("latin-1").decode("utf-8")
    except UnicodeError:
        return block


_WORDINGS: dict[str, Wording] = {wording.name: wording for wording in (DefaultWording(), React2022())}


def wording_named(name: str) -> Wording:
    """The wording of that name.

    Raises:
        RecipeError: there is none.
    """
    if name not in _WORDINGS:
        known = ", ".join(_WORDINGS)
        raise RecipeError(f"environment.options.wording: {name!r} is not a wording; known are: {known}")
    return _WORDINGS[name]
