"""The table of a failure analysis: labels by hand, automatic signs, and how the two agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Final

from pipeline.evaluation.annotations import (
    FAILURES,
    SUCCESSES,
    Annotation,
    Label,
    cohen_kappa,
    episode_hash,
    labels_for,
)
from pipeline.evaluation.evidence import Evidence, Flag, gather
from pipeline.evaluation.failures import FailureTable, Tally, could_show, failure_sheets
from pipeline.evaluation.tables import Sheet, share, short_name, to_markdown
from pipeline.trajectories.files import write_json, write_text
from pipeline.trajectories.schema import Record, Trajectory

SIGN_OF: Final[dict[Label, Flag]] = {
    "false_positive": "unsupported_answer",
    "reasoning": "repeated_loop",
    "search": "uninformative_search",
    "hallucination": "unsupported_answer",
    "label": "label_ambiguity",
}
"""The automatic sign of each label. Reasoning errors have many faces, of which only loops are seen."""

_HAND_NOTE: Final = (
    "Shares are of the right, or of the wrong, episodes that this annotator labelled. They are a random "
    "sample of those of the method and model, but for errored episodes, which are neither right nor wrong."
)
_SIGN_NOTE: Final = (
    "Of the episodes with a label in which the sign could have shown. Precision: of those with the sign, how "
    "many have the label; recall: of those with the label, how many have the sign."
)
_KAPPA_NOTE: Final = (
    "Of the episodes that both labelled; right and wrong ones apart, as their labels cannot be confused. "
    "Kappa is 1 for full agreement and 0 for chance's; a dash where it is not defined."
)


class HandCounts(Record):
    """How often one annotator gave each label to episodes of one method with one model."""

    method: str
    model: str
    annotator: str
    right_labelled: int
    wrong_labelled: int
    counts: dict[str, int]


class SignQuality(Record):
    """An automatic sign against one annotator's label.

    ``judged`` episodes could have shown the sign. Precision is null where none was flagged, recall
    where none was labelled.
    """

    annotator: str
    label: str
    flag: str
    judged: int
    labelled: int
    flagged: int
    both: int
    precision: float | None
    recall: float | None


class Agreement(Record):
    """Two annotators over the right, or over the wrong, episodes that both labelled."""

    first: str
    second: str
    correct: bool
    n: int
    agreed: int
    kappa: float | None


class FailureReport(Record):
    """All that is known of a run's failures. ``stale`` labels are of episodes that changed or are gone."""

    hand: list[HandCounts]
    automatic: FailureTable
    signs: list[SignQuality]
    agreement: list[Agreement]
    stale: int


def failure_report(trajectories: Iterable[Trajectory], annotations: Sequence[Annotation]) -> FailureReport:
    """Join episodes and labels; episodes are read once, one at a time.

    Labels of episodes that are not among them, or have been played again since, are left out and
    counted.
    """
    wanted = {one.trajectory for one in annotations}
    tallies: dict[tuple[str, str], Tally] = {}
    evidence: dict[tuple[str, str], Evidence] = {}
    for trajectory in trajectories:
        found = gather(trajectory)
        name = (trajectory.method, trajectory.model)
        tallies.setdefault(name, Tally(*name)).add(found)
        if trajectory.id in wanted:
            evidence[trajectory.id, episode_hash(trajectory)] = found
    valid = [one for one in annotations if (one.trajectory, one.episode) in evidence]
    return FailureReport(
        hand=_hand(valid),
        automatic=FailureTable(groups=[tallies[name].result() for name in sorted(tallies)]),
        signs=list(_signs(valid, evidence)),
        agreement=list(_agreements(valid)),
        stale=len(annotations) - len(valid),
    )


def write_failure_report(folder: Path, report: FailureReport) -> None:
    """Write table.md and table.json into ``folder``.

    Raises:
        StoreError: the folder cannot be written to.
    """
    write_text(folder / "table.md", f"# Failure analysis\n\n{to_markdown(report_sheets(report))}")
    write_json(folder / "table.json", report.model_dump(mode="json"))


def report_sheets(report: FailureReport) -> list[Sheet]:
    """The report for readers: labels by hand, then automatic signs, then their agreement."""
    sheets = [_hand_sheet(report)] if report.hand else []
    sheets += failure_sheets(report.automatic)
    sheets += [_sign_sheet(report)] if report.signs else []
    sheets += [_agreement_sheet(report)] if report.agreement else []
    return sheets


def _hand(annotations: Sequence[Annotation]) -> list[HandCounts]:
    groups: dict[tuple[str, str, str], list[Annotation]] = {}
    for one in annotations:
        groups.setdefault((one.method, one.model, one.annotator), []).append(one)
    return [_hand_counts(name, groups[name]) for name in sorted(groups)]


def _hand_counts(name: tuple[str, str, str], given: Sequence[Annotation]) -> HandCounts:
    method, model, annotator = name
    counts = Counter(one.label for one in given)
    right = sum(one.correct for one in given)
    return HandCounts(
        method=method,
        model=model,
        annotator=annotator,
        right_labelled=right,
        wrong_labelled=len(given) - right,
        counts={label: counts[label] for label in (*SUCCESSES, *FAILURES)},
    )


def _signs(
    annotations: Sequence[Annotation], evidence: dict[tuple[str, str], Evidence]
) -> Iterator[SignQuality]:
    for annotator in sorted({one.annotator for one in annotations}):
        given = [one for one in annotations if one.annotator == annotator]
        for label, flag in SIGN_OF.items():
            cases = [
                (one.label == label, flag in found.flags)
                for one in given
                if label in labels_for(correct=one.correct)
                and could_show(found := evidence[one.trajectory, one.episode], flag)
            ]
            if cases:
                yield _quality(annotator, label, flag, cases)


def _quality(annotator: str, label: str, flag: str, cases: Sequence[tuple[bool, bool]]) -> SignQuality:
    labelled = sum(is_labelled for is_labelled, _ in cases)
    flagged = sum(is_flagged for _, is_flagged in cases)
    both = sum(is_labelled and is_flagged for is_labelled, is_flagged in cases)
    return SignQuality(
        annotator=annotator,
        label=label,
        flag=flag,
        judged=len(cases),
        labelled=labelled,
        flagged=flagged,
        both=both,
        precision=both / flagged if flagged else None,
        recall=both / labelled if labelled else None,
    )


def _agreements(annotations: Sequence[Annotation]) -> Iterator[Agreement]:
    by_annotator: dict[str, dict[tuple[str, str], Annotation]] = {}
    for one in annotations:
        by_annotator.setdefault(one.annotator, {})[one.trajectory, one.episode] = one
    for first, second in combinations(sorted(by_annotator), 2):
        ours, theirs = by_annotator[first], by_annotator[second]
        for correct in (True, False):
            both = [key for key in ours if key in theirs and ours[key].correct == correct]
            pairs = [(ours[key].label, theirs[key].label) for key in both]
            if pairs:
                yield Agreement(
                    first=first,
                    second=second,
                    correct=correct,
                    n=len(pairs),
                    agreed=sum(a == b for a, b in pairs),
                    kappa=cohen_kappa([a for a, _ in pairs], [b for _, b in pairs]),
                )


def _hand_sheet(report: FailureReport) -> Sheet:
    headings = (
        "method",
        "model",
        "annotator",
        *(label.replace("_", " ") for label in (*SUCCESSES, *FAILURES)),
    )
    rows = [
        [
            *(one.method, short_name(one.model), one.annotator),
            *(share(one.counts[label], one.right_labelled) for label in SUCCESSES),
            *(share(one.counts[label], one.wrong_labelled) for label in FAILURES),
        ]
        for one in report.hand
    ]
    stale = (
        f" {report.stale} labels are left out: their episodes changed or are gone." if report.stale else ""
    )
    return Sheet("Labels by hand", headings, rows, _HAND_NOTE + stale, words=3)


def _sign_sheet(report: FailureReport) -> Sheet:
    rows = [
        [
            *(one.annotator, one.label.replace("_", " "), one.flag.replace("_", " "), str(one.judged)),
            *(share(one.both, one.flagged), share(one.both, one.labelled)),
        ]
        for one in report.signs
    ]
    headings = ("annotator", "label", "sign", "episodes", "precision", "recall")
    return Sheet("Signs against labels", headings, rows, _SIGN_NOTE, words=3)


def _agreement_sheet(report: FailureReport) -> Sheet:
    rows = [
        [
            *(one.first, one.second, "right" if one.correct else "wrong"),
            *(share(one.agreed, one.n), "–" if one.kappa is None else f"{one.kappa:.2f}"),
        ]
        for one in report.agreement
    ]
    headings = ("first", "second", "episodes", "agreed", "kappa")
    return Sheet("Agreement of annotators", headings, rows, _KAPPA_NOTE, words=3)
