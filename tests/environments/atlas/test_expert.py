from collections import Counter
from itertools import pairwise

import pytest

from pipeline.environments.atlas.environment import MAX_STEPS, AtlasEnvironment

FAMILIES = ("questions", "claims")


def play(environment, task, seed=0):
    """Steps and observations of the expert's episode, and its grade."""
    episode = environment.episode(task)
    episode.reset()
    played = [(step, episode.step(step.action)) for step in environment.expert(task, seed)]
    return played, episode.grade()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_the_expert_solves_every_task(family, split):
    environment = AtlasEnvironment(family)
    detours = Counter()
    for task in environment.tasks(split):
        played, grade = play(environment, task)
        assert grade.correct, task
        assert len(played) <= MAX_STEPS[family], task
        assert [observation.done for _, observation in played] == [False] * (len(played) - 1) + [True]
        assert not any(observation.invalid for _, observation in played), task
        assert all(step.thought and "{" not in step.thought for step, _ in played)
        assert all("reward" not in observation.text for _, observation in played)
        detours["miss"] += any(observation.text.startswith("Could not find") for _, observation in played)
        detours["all"] += 1
    assert 0.04 < detours["miss"] / detours["all"] < 0.2


@pytest.mark.parametrize("family", FAMILIES)
def test_every_accepted_answer_passes_and_no_answer_does_not(family):
    environment = AtlasEnvironment(family)
    for split in ("train", "dev", "test"):
        for task in environment.tasks(split):
            episode = environment.episode(task)
            assert not episode.grade().correct
            for gold in task.gold:
                episode.reset()
                episode.step(f"Finish[{gold}]")
                assert episode.grade().correct, (task, gold)


def test_a_missed_search_is_repaired_from_the_list():
    environment = AtlasEnvironment()
    seen = 0
    for task in environment.tasks("test"):
        played, _ = play(environment, task, seed=5)
        for (_, missed), (after, _) in pairwise(played):
            if missed.text.startswith("Could not find"):
                title = after.action.removeprefix("Search[").removesuffix("]")
                assert repr(title) in missed.text
                seen += 1
    assert seen > 100


def test_the_same_seed_writes_the_same_and_another_seed_varies():
    environment = AtlasEnvironment()
    tasks = list(environment.tasks("dev"))[:100]
    first = [[step.model_dump() for step in environment.expert(task, 3)] for task in tasks]
    again = [[step.model_dump() for step in environment.expert(task, 3)] for task in tasks]
    other = [[step.model_dump() for step in environment.expert(task, 4)] for task in tasks]
    assert first == again
    assert sum(one != two for one, two in zip(first, other, strict=True)) > 80


def test_thoughts_say_what_was_read():
    environment = AtlasEnvironment("questions", ["bridge2"])
    for task in list(environment.tasks("test"))[:200]:
        played, _ = play(environment, task)
        first, last = task.meta["derivation"]
        thoughts = " ".join(step.thought for step, _ in played)
        assert first["value"].casefold() in thoughts.casefold()
        assert last["value"] in played[-1][0].thought
