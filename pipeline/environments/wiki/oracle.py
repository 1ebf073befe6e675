"""The scripted oracle: knows where the evidence stands, reads it, and answers with the gold.

It is no expert that solves a task but an upper bound of the environment: its success rate says for
how many tasks the wiki shows the evidence within the steps. Where a page is missing or a sentence
cannot be reached it gives up. What it thinks restates only what an episode showed it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pipeline.environments.answers import normalise
from pipeline.environments.wiki.backend import Page, WikiBackend
from pipeline.environments.wiki.episode import SHOWN, WikiEpisode
from pipeline.environments.wiki.gist import content_words, gist
from pipeline.environments.wiki.wording import Wording
from pipeline.trajectories.schema import Grade, Step, Task

WORDS = 26
"""Words of a sentence that a thought restates at most."""

NAMED = (
    "I begin with {title}, which the {label} names.",
    "The {label} names {title}, so I search for it first.",
    "First I need the page on {title}.",
)
OPENINGS = ("I begin with {title}.", "I start with the page on {title}.", "First I look up {title}.")
POINTED = (
    "{read} That leads to {title}.",
    "{read} So I search for {title} next.",
    "{read} Next I read about {title}.",
)
CONTINUATIONS = (
    "{read} Now I need {title}.",
    "{read} Next I need the page on {title}.",
    "{read} Then there is {title}.",
)
BELOW = (
    "The beginning is not enough, so I look for {keyword} on this page.",
    "I look up {keyword} to find more on this page.",
    "What I need is not shown yet. I look for {keyword}.",
)
FURTHER = ("That is not it, so I look at the next result.", "There may be a better sentence, so I look on.")
HIDDEN = ("The beginning is not enough, so I look further down.", "There is more below, so I look on.")
ANSWERS = (
    "{read} So the answer is {answer}.",
    "{read} That gives {answer}.",
    "{read} The answer is {answer}.",
)
VERDICTS = {
    "SUPPORTS": ("{read} That is what the claim says.", "{read} So the claim is right."),
    "REFUTES": ("{read} That goes against the claim.", "{read} So the claim is wrong."),
    "NOT ENOUGH INFO": ("{read} That does not settle the claim.", "{read} Nothing here decides the claim."),
}
MISSING = ("There is no such page, so I cannot tell.", "The page is not there. I cannot go on without it.")
UNREACHED = ("I cannot find the sentence that I need.", "The page does not show what I need.")

_QUALIFIER = re.compile(r"\s*\([^()]*\)$")


@dataclass(frozen=True)
class Clue:
    """A page and the numbers of its sentences that matter, counted from 0."""

    title: str
    sentences: tuple[int, ...] = ()


@dataclass
class _Reading:
    """What the oracle has seen so far."""

    known: str
    answer: frozenset[str]
    """The answer's words, which nobody looks up before they were read."""
    observed: list[str] = field(default_factory=list)
    read: str = ""
    steps: int = 0

    def knows(self, word: str) -> bool:
        return word.casefold() in self.known.casefold()

    def shows(self, text: str) -> bool:
        """Whether a text stood in an observation, punctuation and articles apart."""
        return normalise(text) in normalise(" ".join(self.observed))

    def see(self, text: str) -> None:
        self.observed.append(text)
        self.known = f"{self.known} {text}"


class Oracle:
    """Plays a task in an episode of its own, thinking aloud.

    Args:
        backend: the wiki.
        wording: how its episodes are worded.
        max_steps: steps that an episode has.
        shown: sentences that a search shows.
        resigned: the answer where the evidence cannot be seen.
    """

    def __init__(
        self, backend: WikiBackend, wording: Wording, max_steps: int, shown: int = SHOWN, resigned: str = ""
    ) -> None:
        self._backend = backend
        self._wording = wording
        self._max_steps = max_steps
        self._shown = shown
        self._resigned = resigned

    def sentences(self, title: str) -> list[str] | None:
        """The sentences of a page; None where the wiki has no such page."""
        page = self._backend.find(title)
        return self._wording.sentences(page.text) if isinstance(page, Page) else None

    def steps(
        self, task: Task, clues: Sequence[Clue], label: str, rng: random.Random, proof: str = ""
    ) -> Iterator[Step]:
        """Thoughts and actions that read the clues in their order and then answer.

        ``proof`` is a text that must have been shown before it answers.
        """
        episode = WikiEpisode(self._backend, lambda _: Grade(), "", self._shown, self._wording)
        reading = _Reading(task.instruction, frozenset(content_words(task.gold[0])))
        failed: Sequence[str] = ()
        for index, clue in enumerate(clues):
            yield self._act(
                episode, reading, self._towards(clue, reading, label, rng), f"Search[{clue.title}]"
            )
            page = self.sentences(clue.title)
            if page is None and clue.sentences:
                failed = MISSING
                break
            spare = self._max_steps - reading.steps - (len(clues) - index)
            yield from self._look_ups(episode, reading, page or [], clue, spare, rng)
            wanted = [page[number] for number in clue.sentences if page and number < len(page)]
            if not all(_is_seen(reading, text) for text in wanted):
                failed = UNREACHED
                break
            reading.read = self._restated(task, reading, wanted or (page or [])[:1])
        if not failed and not reading.shows(proof):
            failed = UNREACHED
        yield self._end(task, reading, failed, rng)

    def _act(self, episode: WikiEpisode, reading: _Reading, thought: str, action: str) -> Step:
        reading.see(episode.step(action).text)
        reading.steps += 1
        return Step(thought=thought, action=action)

    def _towards(self, clue: Clue, reading: _Reading, label: str, rng: random.Random) -> str:
        title = _QUALIFIER.sub("", clue.title).casefold()
        if reading.steps:
            wordings = POINTED if title in " ".join(reading.observed).casefold() else CONTINUATIONS
        else:
            wordings = NAMED if reading.knows(title) else OPENINGS
        return rng.choice(wordings).format(title=clue.title, label=label.lower(), read=reading.read).strip()

    def _look_ups(
        self,
        episode: WikiEpisode,
        reading: _Reading,
        page: list[str],
        clue: Clue,
        spare: int,
        rng: random.Random,
    ) -> Iterator[Step]:
        """Look-ups of what a search does not show, as long as there are steps to spare."""
        used: set[str] = set()
        for number in clue.sentences:
            if number >= len(page) or _is_seen(reading, page[number]):
                continue
            keyword, rank = self._keyword(reading, page, number, used)
            if not keyword or rank > spare:
                continue
            used.add(self._wording.keyword(keyword))
            spare -= rank
            wordings = BELOW if reading.knows(keyword) else HIDDEN
            for turn in range(rank):
                thought = rng.choice(FURTHER if turn else wordings).format(keyword=keyword)
                yield self._act(episode, reading, thought, f"Lookup[{keyword}]")

    def _keyword(self, reading: _Reading, page: list[str], number: int, used: set[str]) -> tuple[str, int]:
        """The word that finds a sentence soonest, one that the reader knows if possible, and its rank."""
        ranked: list[tuple[int, bool, int, str]] = []
        for word in content_words(page[number]):
            known = reading.knows(word)
            if self._wording.keyword(word) in used or (word in reading.answer and not known):
                continue
            before = sum(self._wording.contains(text, word) for text in page[:number])
            # A known word that needs one look-up more is better than one that nobody could think of.
            ranked.append((before + 1 + (0 if known else 1), not known, -len(word), word))
        if not ranked:
            return "", 0
        cost, unknown, _, word = min(ranked)
        return word, cost - int(unknown)

    def _restated(self, task: Task, reading: _Reading, wanted: Sequence[str]) -> str:
        """The sentence that matters most, shortened; only what was shown."""
        seen = [text for text in wanted if _is_seen(reading, text)]
        if not seen:
            return ""
        answer = task.gold[0]
        asked = {word.casefold() for word in content_words(task.instruction)}

        def weight(text: str) -> tuple[bool, int]:
            words = {word.casefold() for word in content_words(text)}
            return answer.casefold() in text.casefold(), len(words & asked)

        return gist(max(seen, key=weight), answer, WORDS)

    def _end(self, task: Task, reading: _Reading, failed: Sequence[str], rng: random.Random) -> Step:
        if failed:
            return Step(thought=rng.choice(failed), action=f"Finish[{self._resigned}]")
        answer = " ".join(task.gold[0].split())
        if not reading.read:
            thought = rng.choice(MISSING)
        else:
            thought = rng.choice(VERDICTS.get(answer, ANSWERS)).format(read=reading.read, answer=answer)
        return Step(thought=thought, action=f"Finish[{answer}]")


def _is_seen(reading: _Reading, sentence: str) -> bool:
    return any(sentence in text for text in reading.observed)
