"""Paired comparisons: which pairs, which numbers, and the note that nothing changed."""

import pytest

from pipeline.evaluation.comparisons import build_comparisons, no_effect_notes
from pipeline.evaluation.rows import Group, Settings
from pipeline.evaluation.statistics import difference_interval
from pipeline.trajectories.schema import Step
from tests.evaluation.builders import episode, make_panel, make_task, prompted, tuned, verdicts

TASKS = [make_task(i) for i in range(8)]
PANEL = make_panel(TASKS)
FAST = Settings(resamples=199)


def compare(*groups):
    return build_comparisons(PANEL, groups, FAST)


def pairs(*groups):
    return [(c.a, c.b, c.best_baseline) for c in compare(*groups)]


def test_the_numbers_of_one_pair():
    (only,) = compare(
        tuned("react", verdicts(TASKS, "yyyyyyne")), prompted("cot", verdicts(TASKS, "ynnnnny-"))
    )
    assert (only.a, only.b, only.best_baseline) == ("react × student", "cot × base", True)
    assert only.difference == pytest.approx(4 / 8)
    assert (only.a_only, only.b_only) == (5, 1)
    assert only.p == pytest.approx(2 * (1 + 6) / 2**6)
    ours, theirs = [1.0] * 6 + [0.0] * 2, [1.0, *[0.0] * 5, 1.0, 0.0]
    expected = difference_interval(ours, theirs, resamples=199)
    assert (only.ci_low, only.ci_high) == (expected.low, expected.high)


def test_pairs_are_matched_by_task_not_by_place():
    a, b = verdicts(TASKS, "yyyynnnn"), verdicts(TASKS, "yyyynnnn")
    (only,) = compare(tuned("react", a), prompted("react", b[::-1]))
    assert (only.difference, only.p, only.a_only, only.b_only) == (0.0, 1.0, 0, 0)
    assert only.ci_low < 0 < only.ci_high


def test_fine_tuned_meets_the_prompted_rows_of_its_base_and_the_best_of_all():
    found = pairs(
        tuned("react", verdicts(TASKS, "yyyyyynn")),
        prompted("react", verdicts(TASKS, "ynnnnnnn")),
        prompted("cot", verdicts(TASKS, "yynnnnnn")),
        prompted("react", verdicts(TASKS, "yyynnnnn"), model="big"),
        prompted("cot", verdicts(TASKS, "nnnnnnnn"), model="big"),
    )
    assert found == [
        ("react × student", "react × big", True),
        ("react × student", "cot × base", False),
        ("react × student", "react × base", False),
    ]


def test_a_student_of_unknown_base_meets_every_prompted_row():
    found = pairs(
        tuned("react", verdicts(TASKS, "yyyyyynn"), base=""),
        prompted("react", verdicts(TASKS, "ynnnnnnn")),
        prompted("cot", verdicts(TASKS, "nnnnnnnn"), model="big"),
    )
    assert [b for _, b, _ in found] == ["react × base", "cot × big"]


def test_students_are_compared_with_the_best_of_them():
    found = pairs(tuned("act", verdicts(TASKS, "yynnnnnn")), tuned("react", verdicts(TASKS, "yyyynnnn")))
    assert found == [("react × student", "act × student", False)]


def test_without_students_the_best_prompted_row_meets_the_others():
    found = pairs(prompted("act", verdicts(TASKS, "ynnnnnnn")), prompted("cot", verdicts(TASKS, "yynnnnnn")))
    assert found == [("cot × base", "act × base", False)]
    assert pairs(prompted("act", verdicts(TASKS, "ynnnnnnn"))) == []


def notes(a, b, base="base", method="react"):
    return no_effect_notes(PANEL, [tuned("react", a, base), prompted(method, b)])


def test_the_same_text_everywhere_is_no_effect():
    same = verdicts(TASKS, "ynynynyn")
    (note,) = notes(same, list(same))
    assert note.startswith("No effect: react × student wrote the same text")
    assert "react × base on all 8 tasks" in note


def test_the_same_answers_from_other_words_are_noted_as_such():
    wordy = [
        episode(t, "Paris", steps=[Step(action="Finish[Paris]", completion="Hm. Finish[Paris]")])
        for t in TASKS
    ]
    (note,) = notes(wordy, verdicts(TASKS, "yyyyyyyy"))
    assert "gave the same answer" in note


def test_one_other_answer_another_method_or_another_base_is_an_effect():
    same = verdicts(TASKS, "nnnnnnnn")
    assert notes(verdicts(TASKS, "ynnnnnnn"), same) == []
    assert notes(same, same, method="act") == []
    assert notes(same, same, base="other") == []


def test_failed_and_missing_episodes_prove_nothing():
    broken = verdicts(TASKS, "eeeeee--")
    assert notes(broken, broken) == []
    (note,) = notes(verdicts(TASKS, "nnnnnnne"), verdicts(TASKS, "nnnnnn-n"))
    assert "all 6 tasks" in note


def test_where_nothing_is_answered_only_the_same_text_is_no_effect():
    def acting(action):
        return [episode(task, steps=[Step(action=action)], metrics={"score": 0.5}) for task in TASKS]

    assert notes(acting("wait"), acting("look around")) == []
    assert "letter for letter" in notes(acting("wait"), acting("wait"))[0]


def test_groups_of_the_same_kind_are_never_noted():
    same = verdicts(TASKS, "nnnnnnnn")
    assert no_effect_notes(PANEL, [prompted("react", same), Group("react", "copy", "prompted", same)]) == []


def test_an_environments_own_solver_is_an_upper_bound_and_no_baseline():
    oracle = Group("react", "oracle", "scripted", verdicts(TASKS, "y" * len(TASKS)))
    weak, student = (
        prompted("react", verdicts(TASKS, "nnnnnnnn")),
        tuned("react", verdicts(TASKS, "yynnnnnn")),
    )
    (only,) = build_comparisons(PANEL, [oracle, weak, student], Settings(resamples=199))
    assert (only.a, only.b, only.best_baseline) == ("react × student", "react × base", True)
    assert build_comparisons(PANEL, [oracle], Settings(resamples=199)) == []


def test_a_student_meets_what_it_started_from():
    start = Group("swift", "untrained", "prompted", verdicts(TASKS, "nnnnnnnn"), base="t5")
    best = Group("random_valid", "expert", "prompted", verdicts(TASKS, "ynnnnnnn"))
    found = pairs(tuned("swift", verdicts(TASKS, "yyyyyynn"), base="t5"), start, best)
    assert [(b, is_best) for _, b, is_best in found] == [
        ("random_valid × expert", True),
        ("swift × untrained", False),
    ]
