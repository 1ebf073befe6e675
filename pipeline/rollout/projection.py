"""What a target will take, judged by the episodes so far."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from pipeline.rollout.tally import Tally

Z: Final = 1.959963984540054
"""The 97.5% point of the normal distribution: intervals cover 95%."""


@dataclass(frozen=True)
class Projection:
    """What a run has and needs. Counts, tokens and cost are those of the whole run.

    Attributes:
        goal: the target, None where every episode of the panel is wanted.
        counted: correct trajectories that count towards it.
        episodes: episodes played.
        share: share of correct ones among the episodes (of the latest round that says enough).
        low: lower end of its 95% interval.
        high: upper end.
        round: which round that is, from 0.
        needed: episodes that the target takes; with a share of 0, the fewest that it can take.
        tokens: prompt and completion tokens of these.
        cost: cost of these.
        seconds: time until the target is reached, None where it cannot be told.
        allowed: episodes that the panel gives, if the share stays.
        enough: whether the panel gives the target.
        affordable: episodes that the budgets pay for, None without budgets.
        budgets: the budgets in words.
    """

    goal: int | None
    counted: int
    episodes: int
    share: float
    low: float
    high: float
    round: int
    needed: int
    tokens: float
    cost: float
    seconds: float | None
    allowed: int
    enough: Literal["yes", "perhaps", "no"]
    affordable: int | None
    budgets: str

    def __str__(self) -> str:
        """One sentence."""
        parts = [self._needs()]
        if self.goal is not None:
            parts.append(f"the panel allows {self._allows()}")
        if self.affordable is not None:
            parts.append(f"the budget ({self.budgets}) allows about {_about(self.affordable)}")
        return "; ".join(parts)

    def _needs(self) -> str:
        share = f"at {_percent(self.share)} ({_percent(self.low)[:-1]}–{_percent(self.high)}) correct"
        if self.round:
            share += f" in round {self.round + 1}"
        bound = "about" if self.share else "at least"
        wanted = "the whole panel needs" if self.goal is None else f"{self.goal:,} need"
        needs = [f"{wanted} {bound} {_about(self.needed)} episodes", f"{magnitude(self.tokens)} tokens"]
        if self.cost:
            needs.append(f"{self.cost:,.2f} in cost")
        if self.seconds is not None:
            needs.append(f"{duration(self.seconds)} more")
        return f"{share}, {', '.join(needs)}"

    def _allows(self) -> str:
        verdict = {"yes": "", "perhaps": ", perhaps too few", "no": ", too few"}
        return f"{self.allowed:,}{verdict[self.enough]}"


def project(tally: Tally, done: int, seconds: float) -> Projection:
    """Judge a run.

    Args:
        tally: what it has so far, at least one episode.
        done: episodes that this call played.
        seconds: how long it took for them.
    """
    goal = tally.goal
    correct, played, number = tally.yields()
    share, (low, high) = correct / played if played else 0.0, wilson(correct, played)
    rate = share or high
    left = open_episodes(tally, rate)
    missing = None if goal.until is None else max(goal.until - tally.counted, 0)
    more = round(left) if missing is None else math.ceil(missing / rate)
    needed = tally.episodes + more
    return Projection(
        goal=goal.until,
        counted=tally.counted,
        episodes=tally.episodes,
        share=share,
        low=low,
        high=high,
        round=number,
        needed=needed,
        tokens=tally.tokens / tally.episodes * needed,
        cost=tally.cost / tally.episodes * needed,
        seconds=more * seconds / done if done else None,
        allowed=tally.episodes + round(left),
        enough=_enough(tally, missing, low, high),
        affordable=_affordable(tally),
        budgets=goal.budgets(),
    )


def wilson(correct: int, played: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share; (0, 1) where nothing is known.

    Source: E. B. Wilson, Probable inference, JASA 22 (1927).
    """
    if not played:
        return 0.0, 1.0
    share, weight = correct / played, Z * Z / played
    middle = share + weight / 2
    half = Z * math.sqrt(share * (1 - share) / played + weight / (4 * played))
    low, high = (middle - half) / (1 + weight), (middle + half) / (1 + weight)
    return (low if correct else 0.0), (high if correct < played else 1.0)


def expected_episodes(left: int, lacking: int, share: float) -> float:
    """How many of ``left`` samples a task plays, if it stops after ``lacking`` correct ones.

    Sample number s is played when fewer than ``lacking`` of the s before it are correct.
    """
    return sum(
        math.comb(before, hits) * share**hits * (1 - share) ** (before - hits)
        for before in range(left)
        for hits in range(min(lacking, before + 1))
    )


def open_episodes(tally: Tally, share: float) -> float:
    """Episodes that a panel still gives, if each is correct with the same chance.

    By Wald's equation, ``share`` times as many correct ones come with them.
    """
    return sum(
        count * expected_episodes(left, lacking, share) for (left, lacking), count in tally.open().items()
    )


def _enough(tally: Tally, missing: int | None, low: float, high: float) -> Literal["yes", "perhaps", "no"]:
    if missing is None or missing <= low * open_episodes(tally, low):
        return "yes"
    return "perhaps" if missing <= high * open_episodes(tally, high) else "no"


def _affordable(tally: Tally) -> int | None:
    limits = ((tally.goal.max_cost, tally.cost), (tally.goal.max_tokens, tally.tokens))
    found = [limit * tally.episodes / spent for limit, spent in limits if limit is not None and spent]
    return int(min(found)) if found else None


def _percent(share: float) -> str:
    return f"{100 * share:.1g}%" if 0 < share < 0.01 else f"{share:.0%}"


def _about(count: int) -> str:
    """A number that is guessed: two figures of it are enough."""
    digits = len(str(count)) - 2
    return f"{round(count, -digits) if digits > 0 else count:,}"


def magnitude(number: float) -> str:
    """A large number in words: ``950``, ``41 k``, ``1.2 M``."""
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= unit:
            return f"{number / unit:.2g}{name}" if number < 10 * unit else f"{number / unit:,.0f}{name}"
    return f"{number:.0f}"


def duration(seconds: float) -> str:
    """Seconds in words: ``45 s``, ``3 min``, ``2 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
