"""One episode of search, lookup and finish over a wiki (specs, section 1.1).

The rules are the published environment's; what is read and answered word for word is a wording's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pipeline.environments.base import Observation, ToolSpec
from pipeline.environments.wiki.backend import Page, WikiBackend
from pipeline.environments.wiki.wording import DefaultWording, Wording
from pipeline.trajectories.schema import Grade

SHOWN = 5
"""Sentences of a page that a search shows."""

WIKI_TOOLS = (
    ToolSpec("Search", "title", "shows the beginning of the page with this title, or similar titles"),
    ToolSpec("Lookup", "keyword", "shows the next sentence of the current page that contains the keyword"),
    ToolSpec("Finish", "answer", "ends the episode with this answer"),
)

_DEFAULT = DefaultWording()


class WikiEpisode:
    """An ``Episode``: the agent reads a wiki and finishes with an answer.

    Args:
        backend: the wiki.
        grader: maps the answer (None while there is none) to the grade.
        opening: the first observation.
        shown: how many sentences a search shows.
        wording: how actions are read and answers worded.
    """

    def __init__(
        self,
        backend: WikiBackend,
        grader: Callable[[str | None], Grade],
        opening: str = "",
        shown: int = SHOWN,
        wording: Wording = _DEFAULT,
    ) -> None:
        self._backend = backend
        self._grader = grader
        self._opening = opening
        self._shown = shown
        self._wording = wording
        self._start()

    def _start(self) -> None:
        self._sentences: list[str] | None = None
        self._keyword: str | None = None
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
        parsed = self._wording.parse(action)
        if parsed is None:
            return Observation(self._wording.invalid(action), invalid=True)
        verb, argument = parsed
        if verb == "search":
            return self._search(argument)
        if verb == "lookup":
            return self._lookup(argument)
        if verb == "think":
            return Observation("Nice thought.")
        return self._finish(argument)

    def _search(self, title: str) -> Observation:
        asked, found = self._wording.find(self._backend, title)
        if not isinstance(found, Page):
            # The page and the state of the look-up stay, as in the published environment.
            return Observation(self._wording.missed(asked, found))
        self._sentences = self._wording.sentences(found.text)
        self._keyword, self._found, self._next = None, [], 0
        return Observation(" ".join(self._sentences[: self._shown]))

    def _lookup(self, keyword: str) -> Observation:
        refused = self._wording.refused(keyword, self._sentences is not None)
        if refused is not None:
            return refused
        wanted = self._wording.keyword(keyword)
        if wanted != self._keyword:
            sentences = self._sentences or []
            self._keyword, self._next = wanted, 0
            self._found = [text for text in sentences if self._wording.contains(text, keyword)]
        if self._next >= len(self._found):
            return Observation(self._wording.exhausted())
        self._next += 1
        return Observation(f"(Result {self._next} / {len(self._found)}) {self._found[self._next - 1]}")

    def _finish(self, answer: str) -> Observation:
        self._answer = answer
        grade = self._grader(answer)
        self._last = Observation(
            self._wording.finished(grade), done=True, reward=grade.reward, score=grade.reward
        )
        return self._last

    def answer(self) -> str | None:
        """What the agent finished with."""
        return self._answer

    def grade(self) -> Grade:
        """The grader's verdict on the answer."""
        return self._grader(self._answer)

    def close(self) -> None:
        """Nothing to free: the backend is shared."""
