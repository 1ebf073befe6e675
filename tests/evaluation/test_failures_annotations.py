"""Labels by hand: the draw, the file, the agreement, and the table of both."""

import json
import random
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import RecipeError, StoreError
from pipeline.evaluation.annotations import (
    FAILURES,
    AnnotationFile,
    annotate,
    cohen_kappa,
    draw,
    read_annotations,
)
from pipeline.evaluation.failure_report import failure_report, write_failure_report
from pipeline.trajectories.schema import Outcome, Step
from tests.evaluation.builders import episode, make_task, verdicts

TASKS = [make_task(number) for number in range(60)]
PLAYED = verdicts(TASKS, "yn" * 10 + "e" * 10 + "s" * 10 + "yn" * 10)
RIGHT, WRONG = PLAYED[0], PLAYED[1]


@given(st.randoms(use_true_random=False), st.integers(0, 9))
def test_the_draw_depends_on_the_seed_and_not_on_the_order(shuffler: random.Random, seed):
    shuffled = list(PLAYED)
    shuffler.shuffle(shuffled)
    drawn = draw(shuffled, 5, seed)
    assert drawn == draw(PLAYED, 5, seed)
    assert set(drawn.ids) <= set(draw(PLAYED, 8, seed).ids)


def test_the_draw_takes_as_many_of_each_and_no_errors():
    by_id = {one.id: one for one in PLAYED}
    drawn = draw(PLAYED, 12, 0)
    assert len(set(drawn.ids)) == 24
    assert sum(by_id[name].grade.correct for name in drawn.ids) == 12
    assert all(by_id[name].outcome is not Outcome.MODEL_ERROR for name in drawn.ids)
    assert drawn.found == {("react", "m", True): 20, ("react", "m", False): 30}
    assert draw(PLAYED, 12, 1).ids != drawn.ids
    assert draw(PLAYED, 999, 0).drawn == draw(PLAYED, 999, 0).found


def test_each_method_and_model_has_a_draw_of_its_own():
    other = [one.model_copy(update={"id": f"cot-{one.id}", "method": "cot"}) for one in PLAYED[:4]]
    drawn = draw([*PLAYED, *other], 3, 0)
    assert drawn.drawn == {
        ("react", "m", True): 3,
        ("react", "m", False): 3,
        ("cot", "m", True): 2,
        ("cot", "m", False): 2,
    }


def test_a_label_belongs_to_its_kind_of_episode():
    assert annotate(RIGHT, "ada", "false_positive").correct
    with pytest.raises(ValueError, match="no label of an episode that is right"):
        annotate(RIGHT, "ada", "search")
    with pytest.raises(ValueError, match="no label of an episode that is wrong"):
        annotate(WRONG, "ada", "true_positive")


def test_labels_are_on_disk_at_once_and_the_latest_counts(tmp_path):
    with AnnotationFile(tmp_path / "a", "ada") as file:
        assert not file.holds(WRONG)
        file.add(annotate(WRONG, "ada", "search"))
        assert [one.label for one in read_annotations(tmp_path / "a")] == ["search"]
        file.add(annotate(WRONG, "ada", "other"))
        file.add(annotate(RIGHT, "ada", "true_positive"))
    again = AnnotationFile(tmp_path / "a", "ada")
    assert again.holds(WRONG) and again.labels[WRONG.id].label == "other"
    assert len((tmp_path / "a" / "ada.jsonl").read_text().splitlines()) == 3
    played_again = WRONG.model_copy(update={"answer": "else"})
    assert not again.holds(played_again)


def test_a_torn_end_is_cut_and_a_broken_line_is_named(tmp_path):
    with AnnotationFile(tmp_path, "ada") as file:
        file.add(annotate(WRONG, "ada", "search"))
    path = tmp_path / "ada.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:30])
    with AnnotationFile(tmp_path, "ada") as file:
        assert set(file.labels) == {WRONG.id}
        file.add(annotate(RIGHT, "ada", "true_positive"))
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 2
    path.write_bytes(b"{}\n" + whole)
    with pytest.raises(StoreError, match=r"ada\.jsonl, line 1"):
        AnnotationFile(tmp_path, "ada")


def test_two_sessions_of_one_annotator_do_not_mix(tmp_path):
    with AnnotationFile(tmp_path, "ada") as first, AnnotationFile(tmp_path, "ada") as second:
        first.add(annotate(WRONG, "ada", "search"))
        with pytest.raises(StoreError, match="another session"):
            second.add(annotate(WRONG, "ada", "other"))
    assert read_annotations(tmp_path)[0].label == "search"


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a\n", "x" * 65, "é"])
def test_an_annotator_names_a_file(tmp_path, name):
    with pytest.raises(RecipeError, match="--annotator"):
        AnnotationFile(tmp_path, name)


def test_kappa_by_hand():
    # 20 both say A, 15 both say B, 5 only the first says A, 10 only the second: agreement 0.7,
    # by chance 25/50 * 30/50 + 25/50 * 20/50 = 0.5, so kappa = 0.2 / 0.5.
    first = ["A"] * 20 + ["A"] * 5 + ["B"] * 10 + ["B"] * 15
    second = ["A"] * 20 + ["B"] * 5 + ["A"] * 10 + ["B"] * 15
    assert cohen_kappa(first, second) == pytest.approx(0.4, abs=1e-12)
    assert cohen_kappa(["A", "B"], ["A", "B"]) == 1.0
    assert cohen_kappa(["A", "A", "B", "B"], ["A", "B", "A", "B"]) == 0.0
    assert cohen_kappa(["A", "B"], ["B", "A"]) == -1.0
    assert cohen_kappa([], []) is None
    assert cohen_kappa(["A"], ["A"]) is None
    with pytest.raises(ValueError, match="equal lengths"):
        cohen_kappa(["A"], [])


@given(st.lists(st.tuples(st.sampled_from(FAILURES), st.sampled_from(FAILURES)), max_size=12), st.data())
def test_kappa_does_not_depend_on_what_labels_are_called(pairs, data):
    renamed = dict(zip(FAILURES, data.draw(st.sampled_from(list(permutations(FAILURES)))), strict=True))
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    kappa = cohen_kappa(first, second)
    assert cohen_kappa([renamed[a] for a in first], [renamed[b] for b in second]) == kappa
    assert cohen_kappa(second, first) == kappa
    assert kappa is None or -1.0 <= kappa <= 1.0


def searched(number, answer, observation):
    steps = [
        Step(action="Search[x]", observation=observation),
        Step(action=f"Finish[{answer}]", observation="Episode finished."),
    ]
    return episode(TASKS[number], answer, steps=steps)


MISS = "Could not find x. Similar: []."
JUDGED = [
    (searched(0, "Paris", "Paris"), "true_positive", "true_positive"),
    (searched(1, "Paris", "Rome"), "false_positive", "false_positive"),
    (searched(2, "Paris", "Oslo"), "true_positive", "false_positive"),
    (searched(3, "Rome", MISS), "search", "search"),
    (searched(4, "Rome", MISS), "hallucination", "search"),
    (searched(5, "Rome", "Rome"), "reasoning", "reasoning"),
    (searched(6, "Paris, France", "Paris, France"), "label", "label"),
]


def annotations():
    ada = [annotate(one, "ada", label) for one, label, _ in JUDGED]
    return ada + [annotate(one, "bob", label) for one, _, label in JUDGED]


def test_signs_are_measured_against_labels():
    report = failure_report([one for one, _, _ in JUDGED], annotations())
    ada = {one.label: one for one in report.signs if one.annotator == "ada"}
    false = ada["false_positive"]
    assert (false.judged, false.labelled, false.flagged, false.both) == (3, 1, 2, 1)
    assert (false.precision, false.recall) == (0.5, 1.0)
    search = ada["search"]
    assert (search.judged, search.labelled, search.flagged, search.both) == (4, 1, 2, 1)
    assert (ada["hallucination"].precision, ada["hallucination"].recall) == (0.5, 1.0)
    assert (ada["label"].precision, ada["label"].recall) == (1.0, 1.0)
    assert (ada["reasoning"].precision, ada["reasoning"].recall) == (None, 0.0)


def test_agreement_keeps_right_and_wrong_apart():
    report = failure_report([one for one, _, _ in JUDGED], annotations())
    right, wrong = report.agreement
    # Right: labels tft and tff agree on 2 of 3; chance is (2*1 + 1*2) / 9.
    assert (right.first, right.second, right.correct, right.n, right.agreed) == ("ada", "bob", True, 3, 2)
    assert right.kappa == pytest.approx((2 / 3 - 4 / 9) / (1 - 4 / 9))
    # Wrong: 3 of 4; search 1*2, hallucination 1*0, reasoning 1*1, label 1*1 of 16.
    assert (wrong.correct, wrong.n, wrong.agreed) == (False, 4, 3)
    assert wrong.kappa == pytest.approx((3 / 4 - 4 / 16) / (1 - 4 / 16))


def test_the_report_does_not_depend_on_the_order():
    episodes, labels = [one for one, _, _ in JUDGED], annotations()
    assert failure_report(episodes, labels) == failure_report(episodes[::-1], labels[::-1])


def test_labels_of_other_episodes_are_left_out_and_counted(tmp_path):
    episodes = [one for one, _, _ in JUDGED[1:]]
    episodes[0] = episodes[0].model_copy(update={"answer": "other"})
    report = failure_report(episodes, annotations())
    assert report.stale == 4
    assert sum(one.right_labelled + one.wrong_labelled for one in report.hand) == 10
    write_failure_report(tmp_path, report)
    text = (tmp_path / "table.md").read_text()
    assert "4 labels are left out" in text
    quarters = " | ".join(["1/4 (25%)"] * 4)
    assert f"| react | m | ada | 1/1 (100%) | 0/1 (0%) | {quarters} | 0/4 (0%) |" in text
    assert json.loads((tmp_path / "table.json").read_text()) == report.model_dump(mode="json")


def test_without_labels_there_is_the_automatic_part(tmp_path):
    write_failure_report(tmp_path, failure_report(PLAYED, []))
    text = (tmp_path / "table.md").read_text()
    assert "Signs in wrong episodes" in text and "Labels by hand" not in text
