import subprocess
import sys

import pytest

from pipeline.environments.atlas.environment import AtlasEnvironment, grade
from pipeline.environments.base import Environment
from pipeline.errors import RecipeError
from pipeline.trajectories.schema import Task

METRICS = ("em", "f1", "em_official", "f1_official")


def question(*gold):
    return Task(
        id="q",
        environment="atlas",
        family="questions",
        split="dev",
        kind="bridge2",
        instruction="?",
        gold=list(gold),
    )


def claim(label):
    return Task(
        id="c", environment="atlas", family="claims", split="dev", kind=label, instruction=".", gold=[label]
    )


def test_it_keeps_the_protocol():
    questions, claims = AtlasEnvironment(), AtlasEnvironment(family="claims")
    assert isinstance(questions, Environment)
    assert (questions.name, questions.family, questions.label, questions.max_steps) == (
        "atlas",
        "questions",
        "Question",
        7,
    )
    assert (claims.family, claims.label, claims.max_steps) == ("claims", "Claim", 5)
    assert [tool.name for tool in questions.tools] == ["Search", "Lookup", "Finish"]
    assert questions.version.split("-")[0] == "1"
    assert len(questions.version.split("-")[1]) == 12


def test_questions_are_graded_by_exact_match_and_overlap():
    task = question("Polish zloty", "PLN")
    assert grade(task, "the Polish zloty.").metrics == dict.fromkeys(METRICS, 1.0)
    assert grade(task, "pln").correct
    half = grade(task, "zloty")
    assert (half.correct, half.reward) == (False, 0.0)
    assert half.metrics["f1"] == pytest.approx(2 / 3)
    assert grade(task, None).metrics == dict.fromkeys(METRICS, 0.0)
    assert not grade(task, "").correct


def test_claims_are_graded_by_label():
    task = claim("NOT ENOUGH INFO")
    assert grade(task, "not enough information.").metrics == {"accuracy": 1.0, "accuracy_official": 0.0}
    assert grade(task, "Not enough info.").metrics == {"accuracy": 1.0, "accuracy_official": 1.0}
    assert grade(task, "NEI").correct
    assert not grade(task, "SUPPORTS").correct
    assert not grade(task, None).correct
    assert not grade(task, "").correct


def test_answers_are_compared_in_normal_form():
    assert AtlasEnvironment().normalise("The Polish zloty.") == "polish zloty"
    assert AtlasEnvironment("claims").normalise("nei") == "NOT ENOUGH INFO"
    assert AtlasEnvironment("claims").normalise("The maybe") == "maybe"


def test_unknown_families_and_kinds_are_refused():
    with pytest.raises(RecipeError, match="'riddles' is not a family of atlas; known are: questions, claims"):
        AtlasEnvironment("riddles")
    with pytest.raises(RecipeError, match="'SUPPORTS' is not a kind of atlas questions"):
        AtlasEnvironment("questions", ["SUPPORTS"])


def test_the_verdict_is_not_in_what_the_agent_reads():
    environment = AtlasEnvironment()
    task = next(environment.tasks("dev"))
    texts = []
    for answer in (task.gold[0], "certainly wrong"):
        episode = environment.episode(task)
        assert episode.reset() == ""
        texts.append(episode.step(f"Finish[{answer}]").text)
    assert texts == ["Episode finished."] * 2


def test_importing_it_loads_no_model_library():
    code = "import sys, pipeline.environments.atlas.environment; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
