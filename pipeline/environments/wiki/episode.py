"""One episode of search, lookup and finish over a wiki (specs, section 1.1).

The wording is the published environment's, without its faults: no doubled full stops, no verdict in
what the agent reads, and a look-up before any search says that there is no page.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from pipeline.environments.base import Observation, ToolSpec
from pipeline.environments.wiki.backend import Page, WikiBackend
from pipeline.environments.wiki.sentences import split_sentences
from pipeline.environments.wiki.titles import clean
from pipeline.trajectories.schema import Grade

SHOWN = 5
"""Sentences of a page that a search shows."""

QUOTED = 120
"""Characters of an action that an observation repeats."""

WIKI_TOOLS = (
    ToolSpec("Search", "title", "shows the beginning of the page with this title, or similar titles"),
    ToolSpec("Lookup", "keyword", "shows the next sentence of the current page that contains the keyword"),
    ToolSpec("Finish", "answer", "ends the episode with this answer"),
)

_ACTION = re.compile(r"\s*(search|lookup|finish|think)\s*\[(.*)\][\s.]*", re.IGNORECASE)


def parse_action(action: str) -> tuple[str, str] | None:
    """The verb (lower case) and the argument, which ends at the last ``]`` of the first line; or None."""
    lines = action.strip().split("\n", 1)
    match = _ACTION.fullmatch(lines[0])
    return (match[1].lower(), match[2].strip()) if match else None


def quote(text: str) -> str:
    """Text from a model as an observation may repeat it: one line, of bounded length."""
    text = clean(text[: 4 * QUOTED])
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}…"


class WikiEpisode:
    """An ``Episode``: the agent reads a wiki and finishes with an answer.

    Args:
        backend: the wiki.
        grader: maps the answer (None while there is none) to the grade.
        opening: the first observation.
        shown: how many sentences a search shows.
    """

    def __init__(
        self,
        backend: WikiBackend,
        grader: Callable[[str | None], Grade],
        opening: str = "",
        shown: int = SHOWN,
    ) -> None:
        self._backend = backend
        self._grader = grader
        self._opening = opening
        self._shown = shown
        self._start()

    def _start(self) -> None:
        self._page: Page | None = None
        self._keyword = ""
        self._found: list[str] = []
        self._next = 0
        self._answer: str | None = None
        self._last: Observation | None = None
        self.steps = 0

    def reset(self) -> str:
        """Forget everything and start again."""
        self._start()
        return self._opening

    def step(self, action: str) -> Observation:
        """Carry out one action; after the end, the last observation again."""
        if self._last is not None:
            return replace(self._last, reward=0.0)
        self.steps += 1
        parsed = parse_action(action)
        if parsed is None:
            return Observation(f"Invalid action: {quote(action)}", invalid=True)
        verb, argument = parsed
        if verb == "search":
            return self._search(argument)
        if verb == "lookup":
            return self._lookup(argument)
        if verb == "think":
            return Observation("Nice thought.")
        return self._finish(argument)

    def _search(self, title: str) -> Observation:
        found = self._backend.find(title)
        if isinstance(found, list):
            # The page and the state of the look-up stay, as in the published environment.
            return Observation(f"Could not find {quote(title)}. Similar: {found}.")
        self._page = found
        self._keyword, self._found, self._next = "", [], 0
        return Observation(" ".join(split_sentences(found.text)[: self._shown]))

    def _lookup(self, keyword: str) -> Observation:
        if self._page is None:
            return Observation("There is no page to look in: search for one first.", invalid=True)
        if not keyword:
            return Observation("Invalid action: a lookup needs a keyword.", invalid=True)
        wanted = keyword.casefold()
        if wanted != self._keyword:
            sentences = split_sentences(self._page.text)
            self._keyword, self._next = wanted, 0
            self._found = [sentence for sentence in sentences if wanted in sentence.casefold()]
        if self._next >= len(self._found):
            return Observation("No more results.")
        self._next += 1
        return Observation(f"(Result {self._next} / {len(self._found)}) {self._found[self._next - 1]}")

    def _finish(self, answer: str) -> Observation:
        self._answer = answer
        reward = self._grader(answer).reward
        self._last = Observation("Episode finished.", done=True, reward=reward, score=reward)
        return self._last

    def answer(self) -> str | None:
        """What the agent finished with."""
        return self._answer

    def grade(self) -> Grade:
        """The grader's verdict on the answer."""
        return self._grader(self._answer)

    def close(self) -> None:
        """Nothing to free: the backend is shared."""
