import json
import random
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from pipeline.environments.base import Environment
from pipeline.environments.fever import FeverEnvironment
from pipeline.environments.wiki.backend import Page
from pipeline.environments.wiki.duplicates import duplicates
from pipeline.environments.wiki.local import LocalWiki
from pipeline.errors import EnvironmentFault, FormatError, RecipeError
from pipeline.trajectories.panels import draw_panel
from tests.environments.cases import known_fault
from tests.environments.fever.data import CLAIMS, PAGES, write

SHARED = Path(__file__).resolve().parents[3] / "../shared/data/fever/paper_dev.jsonl"


@pytest.fixture
def published():
    if not SHARED.is_file():
        pytest.skip("no shared folder beside the repository")
    return FeverEnvironment(data=str(SHARED))


@pytest.fixture
def environment(tmp_path):
    return with_pages(tmp_path, write(tmp_path, "official"), [Page(*page) for page in PAGES.items()])


def with_pages(folder, data, pages, **options):
    LocalWiki.build(pages, version="test", folder=folder / "wiki").close()
    wiki = {"backend": "local", "folder": str(folder / "wiki")}
    return FeverEnvironment(data=str(data), wiki=wiki, **options)


def play(environment, task, seed=0):
    episode = environment.episode(task)
    episode.reset()
    played = [(step, episode.step(step.action)) for step in environment.expert(task, seed)]
    return played, episode.grade()


@pytest.mark.parametrize("form", ["official", "parquet", "jsonl"])
def test_every_form_gives_the_same_tasks(tmp_path, form):
    tasks = list(FeverEnvironment(data=str(write(tmp_path, form))).tasks("dev"))
    assert [task.id for task in tasks] == [f"fever-{number}" for number in range(1, 6)]
    assert tasks[0].model_dump() == {
        "id": "fever-1",
        "environment": "fever",
        "family": "",
        "split": "dev",
        "kind": "SUPPORTS",
        "instruction": "Soul Food was made in Norway.",
        "gold": ["SUPPORTS"],
        "meta": {"evidence": [[["Atlantis", 0]], [["Soul Food (film)", 1]]]},
    }
    assert tasks[1].meta == {"evidence": [[["Tern City", 5], ["Oslo", 0]]]}
    assert (tasks[2].kind, tasks[2].meta) == ("NOT ENOUGH INFO", {})


def test_the_blind_file_has_no_labels(tmp_path):
    environment = FeverEnvironment(data={"test": str(write(tmp_path, "test"))})
    (task, *_) = environment.tasks("test")
    assert (task.gold, task.kind, task.meta) == ([], "", {})
    assert environment.expert(task, 0) is None
    assert not FeverEnvironment.grade(task, "").correct


def test_it_keeps_the_protocol(environment):
    assert isinstance(environment, Environment)
    assert (environment.name, environment.family, environment.label, environment.max_steps) == (
        "fever",
        "",
        "Claim",
        5,
    )
    assert not environment.blocking
    assert environment.normalise("nei") == "NOT ENOUGH INFO"
    assert environment.normalise("The maybe") == "maybe"


def test_claims_are_graded_by_label(environment):
    first, *_ = environment.tasks("dev")
    assert environment.grade(first, "supported.").metrics == {"accuracy": 1.0, "accuracy_official": 0.0}
    assert environment.grade(first, "Supports").metrics == {"accuracy": 1.0, "accuracy_official": 1.0}
    assert environment.grade(first, "the supports!").metrics == {"accuracy": 0.0, "accuracy_official": 1.0}
    assert environment.grade(first, "REFUTES").metrics == {"accuracy": 0.0, "accuracy_official": 0.0}
    assert environment.grade(first, "nei").metrics == {"accuracy": 0.0, "accuracy_official": 0.0}
    assert not environment.grade(first, None).correct
    assert not environment.grade(first, "").correct


def test_known_fault_of_labels(environment):
    given_case, expected = known_fault("M17")
    task = next(task for task in environment.tasks("dev") if task.gold == [given_case["gold"]])
    grades = [environment.grade(task, text) for text in given_case["predictions"]]
    assert [int(grade.correct) for grade in grades] == expected["correct"]


def test_without_a_wiki_there_are_tasks_but_no_episodes(tmp_path):
    environment = FeverEnvironment(data=str(write(tmp_path, "official")))
    task = next(environment.tasks("dev"))
    for call in (lambda: environment.episode(task), lambda: environment.version):
        with pytest.raises(
            RecipeError, match=r"options\.wiki is missing, and the data of fever has no pages"
        ):
            call()
    unsearched = FeverEnvironment(data=str(write(tmp_path, "official")), wiki={"backend": "none"})
    episode = unsearched.episode(task)
    episode.step("Finish[SUPPORTS]")
    assert episode.grade().correct
    assert unsearched.version.startswith("1-")


def test_a_live_wiki_blocks_and_is_asked_only_when_needed(tmp_path):
    wiki = {"backend": "live", "cache": str(tmp_path), "offline": True}
    environment = FeverEnvironment(data=str(write(tmp_path, "official")), wiki=wiki)
    assert environment.blocking
    (task, *others) = environment.tasks("dev")
    assert len(others) == 4
    with pytest.raises(EnvironmentFault, match="the wiki is offline"):
        environment.episode(task).step("Search[Oslo]")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "MAYBE"}, "'label' is 'MAYBE', not SUPPORTS, REFUTES or NOT ENOUGH INFO"),
        ({"claim": None}, "'claim' is None, not a text"),
        ({"id": None}, "'id' is None, not a number or a text"),
        ({"id": 1}, "the id of task 'fever-1' stands in the data twice"),
        ({"evidence": 3}, "evidence is 3, not a list"),
        ({"evidence": [[["a", 0]]]}, "a piece of evidence is"),
        ({"evidence": [[[1, 2, 3, 0]]]}, "a title of evidence is 3, not a text"),
        ({"evidence": [[[1, 2, "Oslo", None]]]}, "evidence sentence is None, not a whole number"),
    ],
)
def test_a_broken_row_is_named(tmp_path, change, message):
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [CLAIMS[0], {**CLAIMS[1], **change}]))
    with pytest.raises(FormatError, match=message) as caught:
        list(FeverEnvironment(data=str(path)).tasks("dev"))
    assert f"{path}, line 2" in str(caught.value)


def test_the_panel_as_published_draws_from_the_first_7405(published):
    tasks = list(published.tasks("dev"))
    place = {task.id: position for position, task in enumerate(tasks)}
    panel = draw_panel(tasks, published.panels["react500"])
    positions = [place[name] for name in panel.ids]
    assert positions[:5] == [3687, 6238, 5388, 3522, 3824]
    assert (positions[-1], len(set(positions))) == (4082, 500)
    assert Counter(task.kind for task in panel.tasks) == {
        "NOT ENOUGH INFO": 179,
        "SUPPORTS": 168,
        "REFUTES": 153,
    }


def test_the_panel_from_all_claims(published):
    tasks = list(published.tasks("dev"))
    shuffled = list(range(9999))
    random.Random(233).shuffle(shuffled)
    panel = draw_panel(tasks, published.panels["fever500"])
    assert panel.ids == [tasks[position].id for position in shuffled[:500]]
    assert max(shuffled[:500]) > 7405


def test_known_fault_of_repeated_and_contradictory_claims(published):
    _, expected = known_fault("F07")
    tasks = {task.id: task for task in published.tasks("dev")}
    assert len(tasks) == expected["rows"]
    assert Counter(task.kind for task in tasks.values()) == expected["labels"]
    report = duplicates(tasks.values())
    assert len(report.contradictory) == expected["claims_with_conflicting_labels"]
    # The known numbers count texts that are equal to the letter; ours are equal in normal form.
    exact = [Counter(tasks[name].instruction for name in group) for group in report.repeated]
    assert sum(count > 1 for group in exact for count in group.values()) == expected["claims_repeated"]
    assert report.texts + sum(len(group) - 1 for group in exact) == expected["unique_claims"]
    lake = next(group for group in report.contradictory if "lake" in tasks[group[0]].instruction)
    assert len({tasks[name].kind for name in lake}) > 1


def test_the_report_in_one_line(environment):
    report = duplicates(environment.tasks("dev"))
    assert (report.tasks, report.texts) == (5, 4)
    assert report.repeated == report.contradictory == (("fever-4", "fever-5"),)
    assert report.sentence() == (
        "5 tasks have 4 different texts; texts that stand there more than once: 1, with different answers: 1"
        " (such as fever-4, fever-5); all are kept"
    )
    assert duplicates(list(environment.tasks("dev"))[:4]).sentence() == ""


def test_the_oracle_by_hand(environment):
    supported, refuted, open_, missing, _ = environment.tasks("dev")
    played, grade = play(environment, supported)
    # The first set of evidence has no page here; the second is enough.
    assert [step.action for step, _ in played] == ["Search[Soul Food (film)]", "Finish[SUPPORTS]"]
    assert "It was made in Norway." in played[1][0].thought
    assert grade.correct
    played, grade = play(environment, refuted)
    assert [step.action for step, _ in played] == [
        "Search[Tern City]",
        "Lookup[river]",
        "Search[Oslo]",
        "Finish[REFUTES]",
    ]
    assert played[1][1].text == "(Result 1 / 1) A river runs there."
    assert grade.correct
    played, grade = play(environment, open_)
    assert [step.action for step, _ in played] == ["Search[Oslo]", "Finish[NOT ENOUGH INFO]"]
    assert grade.correct
    played, grade = play(environment, missing)
    assert [step.action for step, _ in played] == ["Search[Atlantis]", "Finish[NOT ENOUGH INFO]"]
    assert not grade.correct


def test_the_oracle_plays_published_claims_within_five_steps(tmp_path, published):
    """Over pages made up for the titles: what is tested is the play, not the evidence."""
    tasks = list(islice(published.tasks("dev"), 500))
    pieces = [piece for task in tasks for group in task.meta.get("evidence", []) for piece in group]
    pages = {
        title: " ".join(f"Sentence {number} of {title} says word{number}." for number in range(30))
        for title, _ in pieces
    }
    environment = with_pages(tmp_path, SHARED, [Page(*page) for page in pages.items()])
    lengths, wrong = Counter(), []
    for task in tasks:
        steps = environment.expert(task, 0)
        if steps is None:
            # Evidence on five pages or more, which five steps cannot show.
            assert all(len({title for title, _ in group}) > 4 for group in task.meta["evidence"])
            continue
        played, grade = play(environment, task)
        lengths[len(played)] += 1
        assert played[-1][1].done
        assert not any(seen.invalid for _, seen in played)
        if not grade.correct:
            wrong.append(task)
    assert max(lengths) <= environment.max_steps
    assert lengths[2] > 300
    for task in wrong:
        # Each set needs more look-ups than the steps allow.
        assert all(
            len({title for title, _ in group}) + sum(number > 4 for _, number in group) > 4
            for group in task.meta["evidence"]
        ), task
