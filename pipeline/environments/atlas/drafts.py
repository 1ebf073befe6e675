"""A task before it is one: its text, its answers, and the hops and facts from which they follow."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from pipeline.environments.atlas.phrases import seen
from pipeline.environments.atlas.world import World
from pipeline.trajectories.schema import Split, Task, digest

Fact = tuple[str, str]
"""A thing's title and a relation: what a task needs to be known."""


@dataclass(frozen=True)
class Hop:
    """One page to read: its title, the relation read there, and what it says."""

    title: str
    relation: str
    value: str


@dataclass(frozen=True)
class Draft:
    """A task without id and split.

    ``facts`` are (title, relation); all their titles must be of one split. ``reason`` is the clause
    from which the answer follows, for the expert's last thought.
    """

    kind: str
    text: str
    gold: tuple[str, ...]
    hops: tuple[Hop, ...]
    facts: tuple[Fact, ...]
    reason: str


@cache
def accepted(world: World, answer: str) -> tuple[str, ...]:
    """An answer with the other ways to write it: other names, a code, a plain alphabet."""
    forms = [answer]
    if answer in world.facts.countries:
        aliases = world.facts.countries[answer].aliases
        forms += [alias for alias in aliases if alias not in ("Congo", "Korea", "England", "Scotland")]
    elif answer in world.cities:
        forms.append(world.cities[answer].name)
    elif answer in world.facts.currencies:
        forms.append(world.facts.currencies[answer])
    elif answer in world.facts.spellings:
        forms.append(world.facts.spellings[answer])
    for form in list(forms):
        parts = unicodedata.normalize("NFD", form)
        forms.append("".join(char for char in parts if not unicodedata.combining(char)))
    return tuple(dict.fromkeys(forms))


def chain(world: World, kind: str, text: str, hops: tuple[Hop, ...], *also: str) -> Draft:
    """A draft that is answered by the value of its last hop."""
    last = hops[-1]
    reason = seen(world, last.relation, last.title, last.value, len(text))
    facts = tuple((hop.title, hop.relation) for hop in hops)
    return Draft(kind, text, (*accepted(world, last.value), *also), hops, facts, reason)


def select(world: World, drafts: Iterable[Draft], split: Split, limit: int, share: float) -> list[Draft]:
    """At most ``limit`` drafts of a split, in an order that no kind of text decides.

    ``share`` bounds how often one answer may be right, so that no constant answer scores well.
    """
    mine = [draft for draft in drafts if world.split(title for title, _ in draft.facts) == split]
    ranked = sorted(mine, key=lambda draft: hashlib.blake2b(draft.text.encode()).digest())
    counts: Counter[str] = Counter()
    chosen: dict[str, Draft] = {}
    for draft in ranked:
        if len(chosen) == limit:
            break
        full = counts[draft.gold[0]] >= max(2, share * limit)
        if full or draft.text in chosen:
            continue
        counts[draft.gold[0]] += 1
        chosen[draft.text] = draft
    return list(chosen.values())


def as_task(draft: Draft, family: str, split: Split) -> Task:
    """The task of a draft; its id depends on its text alone."""
    meta: dict[str, Any] = {
        "derivation": [
            {"title": hop.title, "relation": hop.relation, "value": hop.value} for hop in draft.hops
        ],
        "facts": [list(fact) for fact in draft.facts],
        "reason": draft.reason,
    }
    return Task(
        id=f"atlas-{draft.kind.lower().replace(' ', '-')}-{digest(draft.text, 10)}",
        environment="atlas",
        family=family,
        split=split,
        kind=draft.kind,
        instruction=draft.text,
        gold=list(draft.gold),
        meta=meta,
    )
