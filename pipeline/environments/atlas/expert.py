"""The scripted expert: plays a task from its derivation, thinking aloud.

Its wording varies with the task and the seed. Now and then it takes a detour, so that a student
sees how one is repaired: a title that is not quite right, an ambiguous one, or a look-up of a word
on the page.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.environments.atlas.drafts import Hop
from pipeline.environments.atlas.phrases import RELATIONS, need, seen
from pipeline.environments.atlas.wording import capital_letter
from pipeline.environments.atlas.world import World
from pipeline.environments.wiki.backend import Page, WikiBackend
from pipeline.environments.wiki.episode import SHOWN
from pipeline.environments.wiki.sentences import split_sentences
from pipeline.trajectories.schema import Step, Task

MISSES, LOOKUPS = 0.12, 0.08
"""Shares of trajectories in which a search misses, or a word is looked up without need."""

OPENINGS = (
    "I need to find {need}.",
    "First I need {need}.",
    "I start with {need}.",
    "Let me find {need} first.",
)
CONTINUATIONS = (
    "{seen}. Now I need {need}.",
    "{seen}. Next I look for {need}.",
    "{seen}, so I need {need}.",
)
ENDINGS = ("{reason}.", "{reason}. That is the answer.", "So {inside}.")
"""Where the reason names the answer."""

CONCLUSIONS = ("{reason}, so the answer is {answer}.", "{reason}. So it is {answer}.", "{reason}: {answer}.")
"""Where the answer follows from what was read."""

VERDICTS = {
    "SUPPORTS": ("{reason}, so the claim is right.", "{reason}, as the claim says."),
    "REFUTES": ("{reason}, so the claim is wrong.", "{reason}. That goes against the claim."),
    "NOT ENOUGH INFO": ("{reason}, so the claim stays open.", "{reason}. I cannot decide the claim."),
}
BELOW = (
    "The beginning does not show {need}, so I look up the word {keyword}.",
    "I do not see {need} yet, so I look for {keyword} on the page.",
)
SILENT = (
    "There is no word of it so far, so I look for {keyword}.",
    "I look up the word {keyword} to be sure.",
)
CHECKS = ("I check {need} on this page.", "I look up the word {keyword} to be sure.")
REPAIRS = (
    "There is no such page, but {title} is in the list.",
    "The search missed. {title} looks like the right page.",
    "That title was not right, so I take {title} from the list.",
)


@dataclass(frozen=True)
class Detour:
    """What goes astray, and at which hop."""

    hop: int
    title: str = ""
    """The wrong title to search for; empty for a look-up."""


class Expert:
    """Writes the steps of a task. Never looks at anything but the pages and the task's derivation."""

    def __init__(self, world: World, backend: WikiBackend, max_steps: int) -> None:
        self._world = world
        self._backend = backend
        self._max_steps = max_steps

    def steps(self, task: Task, seed: int) -> Iterator[Step]:
        """Thoughts and actions, the same for the same task and seed."""
        rng = random.Random(f"{task.id} {seed}")
        hops = [Hop(**hop) for hop in task.meta["derivation"]]
        below = [self._below(hop) for hop in hops]
        spare = self._max_steps - len(hops) - sum(below) - 1
        detour = self._detour(hops, below, rng) if spare > 0 else None
        said = ""
        for index, hop in enumerate(hops):
            thought = self._towards(said, hop, rng)
            if detour and detour.hop == index and detour.title:
                yield Step(thought=thought, action=f"Search[{detour.title}]")
                thought = rng.choice(REPAIRS).format(title=hop.title)
            yield Step(thought=thought, action=f"Search[{hop.title}]")
            if below[index]:
                yield self._look(SILENT if hop.relation == "unknown" else BELOW, hop, rng)
            elif detour and detour.hop == index and not detour.title:
                yield self._look(CHECKS, hop, rng)
            said = self._read(hop, rng)
        yield self._end(task, rng)

    def _towards(self, said: str, hop: Hop, rng: random.Random) -> str:
        wanted = need(self._world, hop.relation, hop.title)
        if not said:
            return rng.choice(OPENINGS).format(need=wanted)
        return capital_letter(rng.choice(CONTINUATIONS).format(seen=said, need=wanted))

    def _read(self, hop: Hop, rng: random.Random) -> str:
        return seen(self._world, hop.relation, hop.title, hop.value, rng.randrange(6))

    def _look(self, wordings: Sequence[str], hop: Hop, rng: random.Random) -> Step:
        keyword = hop.value if hop.relation == "unknown" else RELATIONS[hop.relation].keyword
        thought = rng.choice(wordings).format(
            need=need(self._world, hop.relation, hop.title), keyword=keyword
        )
        return Step(thought=thought, action=f"Lookup[{keyword}]")

    def _end(self, task: Task, rng: random.Random) -> Step:
        answer = task.gold[0]
        reason = str(task.meta["reason"])
        chain = task.kind in ("bridge2", "bridge3", "intersection")
        wordings = VERDICTS.get(answer, ENDINGS if chain else CONCLUSIONS)
        thought = rng.choice(wordings).format(reason=capital_letter(reason), inside=reason, answer=answer)
        return Step(thought=thought, action=f"Finish[{answer}]")

    def _sentences(self, title: str) -> list[str]:
        page = self._backend.find(title)
        return split_sentences(page.text) if isinstance(page, Page) else []

    def _below(self, hop: Hop) -> bool:
        """Whether a search does not show what the hop reads, so that a look-up must."""
        shown = " ".join(self._sentences(hop.title)[:SHOWN]).casefold()
        return hop.value.casefold() not in shown

    def _detour(self, hops: list[Hop], below: list[bool], rng: random.Random) -> Detour | None:
        draw, index = rng.random(), rng.randrange(len(hops))
        if draw < MISSES:
            wrong = [
                title
                for title in self._wrong_titles(hops[index], rng)
                if self._repairable(title, hops[index])
            ]
            return Detour(index, wrong[0]) if wrong else None
        if draw < MISSES + LOOKUPS and not below[index] and self._first_found(hops[index]):
            return Detour(index)
        return None

    def _wrong_titles(self, hop: Hop, rng: random.Random) -> list[str]:
        """Titles that a careless reader might search for, in a random order."""
        title, relation = hop.title, hop.relation
        titles = [
            f"{relation} of {title}",
            f"{title} {relation}",
            f"history of {title}",
            _misspelt(title, rng),
        ]
        country = self._world.facts.countries.get(title)
        if country:
            titles += [alias for alias in country.aliases if alias in ("Congo", "Korea")]
        rng.shuffle(titles)
        return titles

    def _repairable(self, wrong: str, hop: Hop) -> bool:
        found = self._backend.find(wrong)
        return isinstance(found, list) and hop.title in found

    def _first_found(self, hop: Hop) -> bool:
        keyword = RELATIONS[hop.relation].keyword.casefold()
        if not keyword or not hop.value:
            return False
        matching = [text for text in self._sentences(hop.title) if keyword in text.casefold()]
        return bool(matching) and hop.value.casefold() in matching[0].casefold()


def _misspelt(title: str, rng: random.Random) -> str:
    """The title with two neighbouring letters exchanged, or one left out."""
    if len(title) < 5:
        return f"{title}{title[-1]}"
    place = rng.randrange(1, len(title) - 2)
    if rng.random() < 0.5:
        return title[:place] + title[place + 1] + title[place] + title[place + 2 :]
    return title[:place] + title[place + 1 :]
