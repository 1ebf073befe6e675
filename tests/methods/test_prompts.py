"""Exemplar files and what styles make of them."""

from __future__ import annotations

import pytest

from pipeline.errors import FormatError, RecipeError
from pipeline.methods import prompts
from pipeline.methods.prompts import exemplar_tasks, library_of, spec_for
from pipeline.rendering.text import TextRenderer
from pipeline.trajectories.schema import Task
from tests.methods.making import EXEMPLARS, Taught, Toy


@pytest.fixture
def taught(tmp_path):
    path = tmp_path / "toy.yaml"
    path.write_text(EXEMPLARS)
    return Taught(path)


@pytest.mark.parametrize(
    ("style", "instruction", "shown"),
    [
        (
            "standard",
            "Answer.",
            "Claim: Bern is a city.\nAnswer: yes\n\nClaim: Rome is a river.\nAnswer: no\n\n",
        ),
        (
            "cot",
            "Think.",
            "Claim: Bern is a city.\n"
            "Thought: Bern is where the parliament sits, so it is a city.\n"
            "Answer: yes\n\nClaim: Rome is a river.\nThought: Rome is a city.\nAnswer: no\n\n",
        ),
        (
            "act",
            "Act.",
            "Claim: Bern is a city.\n"
            "Action 1: Search[Bern]\nObservation 1: Bern is a city.\n"
            "Action 2: Finish[yes]\nObservation 2: Episode finished.\n\n"
            "Claim: Rome is a river.\nAction 1: Finish[no]\nObservation 1: Episode finished.\n\n",
        ),
        (
            "react",
            "Think and act.",
            "Claim: Bern is a city.\n"
            "Thought 1: I look up Bern.\nAction 1: Search[Bern]\n"
            "Observation 1: Bern is a city.\nThought 2: So yes.\nAction 2: Finish[yes]\n"
            "Observation 2: Episode finished.\n\nClaim: Rome is a river.\n"
            "Thought 1: I know.\nAction 1: Finish[no]\n"
            "Observation 1: Episode finished.\n\n",
        ),
    ],
)
def test_styles_are_the_react_exemplars_with_parts_removed(taught, style, instruction, shown):
    spec = spec_for(taught, style)
    task = Task(id="t", environment="toy", split="test", instruction="Lima is a city.")
    text = TextRenderer().prompt(spec, task, []).text
    assert text.startswith(f"{instruction}\n\n{shown}Claim: Lima is a city.\n")


def test_shots_take_the_first(taught):
    assert [len(spec_for(taught, "react", shots).exemplars) for shots in (None, 0, 1, 2)] == [2, 0, 1, 2]
    with pytest.raises(RecipeError, match=r"shots: 3 exemplars.*toy_things has 2"):
        spec_for(taught, "react", 3)


def test_exemplar_tasks_are_named(taught):
    assert exemplar_tasks(taught) == {"toy-7", "toy-8"}
    assert exemplar_tasks(Toy()) == set()


def test_a_plain_environment_is_described_by_its_tools():
    spec = spec_for(Toy(), "react")
    assert spec.exemplars == ()
    assert spec.label == "Question"
    assert spec.instruction.endswith("The actions are:\n- Search[name]: look a name up\n- Wait: do nothing")
    assert "Search" not in spec_for(Toy(), "standard").instruction
    with pytest.raises(RecipeError, match="has 0"):
        spec_for(Toy(), "react", 1)


def test_a_packaged_file_is_found_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "toy_things.yaml").write_text(EXEMPLARS)
    monkeypatch.setattr(prompts, "_FOLDER", tmp_path)
    library = library_of(Toy())
    assert library is not None
    assert library.version == 3


def test_an_unknown_style_is_named(taught):
    with pytest.raises(RecipeError, match=r"'reason'.*standard, cot, act, react"):
        spec_for(taught, "reason")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (EXEMPLARS.replace('"yes"', "yes"), r"exemplars\.0\.answer.*quote"),
        (EXEMPLARS.replace("version: 3", "edition: 3"), "version"),
        ("- just\n- a list", "at the top"),
        ("a: [", "cannot be read"),
        (EXEMPLARS.replace("    cot: Rome is a city.\n", ""), "no cot paragraph"),
    ],
)
def test_a_broken_file_is_one_sentence(tmp_path, text, message):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(FormatError, match=message) as caught:
        spec_for(Taught(path), "cot")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(FormatError, match=r"none.yaml"):
        spec_for(Taught(tmp_path / "none.yaml"), "react")


STYLES = ("standard", "cot", "act", "react")


def test_every_packaged_file_serves_every_style_that_it_instructs():
    for path in sorted(prompts._FOLDER.glob("*.yaml")):
        environment = Taught(path)
        styles = set(prompts.library_of(environment).instructions)
        # Where nothing is answered, there is nothing to answer at once.
        assert styles == ({"act", "react"} if path.stem == "scienceworld" else set(STYLES)), path.name
        for style in styles:
            assert spec_for(environment, style).exemplars, path.name
