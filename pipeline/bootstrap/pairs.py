"""Pairs of a success and a failure of the same task, from all that a run has played.

Every failure looks for a success from which it parts at some step: up to there both must have thought and
done the same, and must have been answered the same, or they were played in different worlds. It takes the
success that it follows longest. The choice among pairs is made by hashes alone, so the order in which
trajectories arrive changes nothing.
Source: exploration-based trajectory optimisation (Song et al. 2024), section 3.2; the rules are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from pipeline.bootstrap import rules
from pipeline.bootstrap.pair_ledger import CHOSEN, PAIRED, SPARE, PairLedger, tallied
from pipeline.bootstrap.rules import Excluded, Limits, Rule
from pipeline.errors import StoreError
from pipeline.recipe.models import PairsRecipe
from pipeline.rendering.parse import clean_action, clean_thought
from pipeline.trajectories.files import write_json
from pipeline.trajectories.pairs import PAIRS, Pair, write_pairs
from pipeline.trajectories.schema import Outcome, Trajectory, digest
from pipeline.trajectories.store import TrajectoryStore

LEDGER: Final = "pairs.json"
FAILED: Final = frozenset({Outcome.FINISHED, Outcome.STEP_LIMIT, Outcome.CONTEXT_LIMIT})
"""How an episode ends that the agent itself lost, in words that a row can hold."""


def own_fault(trajectory: Trajectory, _: Limits) -> bool:
    """The agent answered wrongly or ran into a limit; neither the world nor the model failed."""
    return trajectory.outcome in FAILED


def readable(trajectory: Trajectory, _: Limits) -> bool:
    """It has steps with an action each: a row repeats actions, and cannot hold what was none."""
    return bool(trajectory.steps) and all(step.action.strip() for step in trajectory.steps)


FAILURE_RULES: Final[dict[str, Rule]] = {
    "provenance": rules.provenance,
    "own_fault": own_fault,
    "readable": readable,
    "uncut": rules.uncut,
    "no_verdict": rules.no_verdict,
    "no_leak": rules.no_leak,
}
"""What a failure must be to be learnt from, in the order of application."""


@dataclass(slots=True)
class Entry:
    """What is remembered of a trajectory: hashes, no texts.

    ``words`` hashes what the model thought and did in each step, ``seen`` what it was shown before each.
    ``verdict`` is what became of it: ``PAIRED`` or ``CHOSEN``, a rule's name, or why it has no partner.
    """

    store: int
    id: str
    task: str
    success: bool
    words: tuple[str, ...]
    seen: tuple[str, ...]
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """A failure with the success that it is compared to."""

    chosen: Entry
    rejected: Entry
    shared: int


def choose_pairs(
    stores: Sequence[TrajectoryStore],
    recipe: PairsRecipe,
    exclude: Excluded | None = None,
    max_steps: int | None = None,
) -> tuple[list[Match], PairLedger]:
    """Choose the pairs that the recipe asks for; nothing is written.

    Args:
        stores: where the trajectories are.
        recipe: pairs a task, pairs in all, seed.
        exclude: tasks of evaluation panels and exemplars, never chosen.
        max_steps: of a success.
    """
    limits = Limits(max_steps, exclude or Excluded())
    entries = [
        _entry(number, trajectory, limits)
        for number, store in enumerate(stores)
        for trajectory in store.read()
    ]
    _drop_same(entries, lambda entry: entry.id, "duplicate", lambda entry: str(entry.store))
    _drop_same(
        entries, lambda entry: digest([entry.task, entry.success, entry.words, entry.seen]), "distinct"
    )
    matches = _matched(entries)
    kept = _capped(matches, recipe)
    for match in kept:
        match.rejected.verdict, match.chosen.verdict = PAIRED, CHOSEN
    for entry in entries:
        entry.verdict = entry.verdict or SPARE
    return kept, tallied((entry.task, entry.success, entry.verdict) for entry in entries)


def pair_into(
    folder: Path,
    stores: Sequence[TrajectoryStore],
    recipe: PairsRecipe,
    exclude: Excluded | None = None,
    max_steps: int | None = None,
) -> PairLedger:
    """Choose, then write ``pairs.jsonl`` and ``pairs.json`` (the ledger) into the run folder.

    Raises:
        StoreError: the trajectories changed meanwhile, or a file cannot be written.
    """
    matches, ledger = choose_pairs(stores, recipe, exclude, max_steps)
    write_pairs(folder / PAIRS, _written(stores, matches))
    write_json(folder / LEDGER, ledger.model_dump())
    return ledger


def shared_steps(one: Entry, two: Entry) -> int | None:
    """How many steps two episodes have in common before they part; None if their worlds differ there.

    They part where the model's words differ; where one merely goes on after the other, they do not part.
    """
    for step, (mine, yours) in enumerate(zip(one.words, two.words, strict=False)):
        if one.seen[step] != two.seen[step]:
            return None
        if mine != yours:
            return step
    return None


def _written(stores: Sequence[TrajectoryStore], matches: Iterable[Match]) -> Iterator[Pair]:
    for match in matches:
        halves = [_found(stores[half.store], half.id) for half in (match.chosen, match.rejected)]
        yield Pair(chosen=halves[0], rejected=halves[1], shared=match.shared)


def _found(store: TrajectoryStore, identity: str) -> Trajectory:
    for trajectory in store.read([identity]):
        return trajectory
    raise StoreError(f"{store.path} changed while pairs were made: let generation end, then export again")


def _entry(store: int, trajectory: Trajectory, limits: Limits) -> Entry:
    success = trajectory.grade.correct
    table = rules.RULES if success else FAILURE_RULES
    steps = trajectory.steps
    shown = [trajectory.opening, *(step.observation for step in steps[:-1])]
    return Entry(
        store=store,
        id=trajectory.id,
        # The same id with other content is another problem.
        task=f"{trajectory.task.id} {trajectory.task.content_hash}",
        success=success,
        words=tuple(digest([clean_thought(step.thought), clean_action(step.action)]) for step in steps),
        seen=tuple(digest(text.strip()) for text in shown),
        verdict=next((name for name, rule in table.items() if not rule(trajectory, limits)), ""),
    )


def _drop_same(
    entries: list[Entry],
    group: Callable[[Entry], str],
    verdict: str,
    first: Callable[[Entry], str] = lambda entry: entry.id,
) -> None:
    """Of those that are left and alike only the first stays."""
    left = sorted(
        (entry for entry in entries if not entry.verdict), key=lambda entry: (group(entry), first(entry))
    )
    for _, members in groupby(left, key=group):
        for entry in list(members)[1:]:
            entry.verdict = verdict


def _matched(entries: list[Entry]) -> list[Match]:
    """Every failure that is left, with the success that it follows longest; ties by hash."""
    matches: list[Match] = []
    left = sorted((entry for entry in entries if not entry.verdict), key=lambda entry: entry.task)
    for _, members in groupby(left, key=lambda entry: entry.task):
        task = list(members)
        successes = [entry for entry in task if entry.success]
        failures = [entry for entry in task if not entry.success]
        for failure in failures:
            found = [(shared_steps(success, failure), success) for success in successes]
            parted = [Match(success, failure, shared) for shared, success in found if shared is not None]
            if parted:
                matches.append(
                    min(parted, key=lambda one: (-one.shared, digest([one.chosen.id, failure.id])))
                )
            else:
                failure.verdict = "other_world" if successes else "no_success"
        for success in successes if not failures else []:
            success.verdict = "no_failure"
    return matches


def _capped(matches: list[Match], recipe: PairsRecipe) -> list[Match]:
    """``per_task`` pairs of each task and ``target`` in all, first pairs of tasks before second ones."""
    hashed = {
        match.rejected.id: digest([recipe.seed, match.chosen.id, match.rejected.id]) for match in matches
    }
    ordered = sorted(matches, key=lambda match: (match.rejected.task, hashed[match.rejected.id]))
    ranked: list[tuple[int, str, Match]] = []
    for _, members in groupby(ordered, key=lambda match: match.rejected.task):
        for rank, match in enumerate(members):
            if rank < recipe.per_task:
                ranked.append((rank, hashed[match.rejected.id], match))
            else:
                match.rejected.verdict = "per_task"
    ranked.sort(key=lambda item: item[:2])
    for _, _, match in ranked[recipe.target :]:
        match.rejected.verdict = "target"
    return [match for _, _, match in ranked[: recipe.target]]
