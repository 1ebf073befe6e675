from pathlib import Path

import pytest
import yaml

import pipeline
from pipeline.environments.atlas.environment import AtlasEnvironment

FOLDER = Path(pipeline.__file__).parent / "methods" / "exemplars"
EXPECTED = {
    "questions": {"bridge2", "bridge3", "comparison", "intersection", "yesno"},
    "claims": {"SUPPORTS", "REFUTES", "NOT ENOUGH INFO"},
}


def load(family):
    return yaml.safe_load((FOLDER / f"atlas_{family}.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("family", EXPECTED)
def test_exemplars_are_training_tasks_of_every_kind(family):
    library = load(family)
    environment = AtlasEnvironment(family)
    tasks = {task.id: task for task in environment.tasks("train")}
    chosen = [tasks[example["task"]] for example in library["exemplars"]]
    assert len(chosen) == {"questions": 6, "claims": 3}[family]
    assert {task.kind for task in chosen} == EXPECTED[family]
    assert library["label"] == environment.label
    assert set(library["instructions"]) == {"react", "act", "cot", "standard"}
    for task, example in zip(chosen, library["exemplars"], strict=True):
        assert (example["instruction"], example["answer"]) == (task.instruction, task.gold[0])
        assert example["cot"].strip()


@pytest.mark.parametrize("family", EXPECTED)
def test_observations_are_what_the_environment_answers(family):
    environment = AtlasEnvironment(family)
    tasks = {task.id: task for task in environment.tasks("train")}
    for example in load(family)["exemplars"]:
        episode = environment.episode(tasks[example["task"]])
        episode.reset()
        for step in example["steps"]:
            observation = episode.step(step["action"])
            if not observation.done:
                assert step["observation"] == observation.text
        assert observation.done
        assert "observation" not in step
        assert episode.grade().correct
