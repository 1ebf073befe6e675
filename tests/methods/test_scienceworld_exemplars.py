"""The exemplars of scienceworld: real to the letter, solved, and in no panel; and two whole episodes."""

import asyncio

import pytest

from pipeline.environments.scienceworld.names import BY_ID
from pipeline.export.rows import trajectory_rows
from pipeline.methods.base import Seat
from pipeline.methods.prompts import exemplar_tasks, library_of, spec_for
from pipeline.methods.registry import load_method
from pipeline.models.base import Completion, Sampling
from pipeline.models.expert import ExpertModel
from pipeline.recipe.models import MethodRecipe, PanelRecipe
from pipeline.rendering.parse import clean_action, clean_thought
from pipeline.rollout.episode import Limits, play
from pipeline.trajectories.panels import draw_panel
from pipeline.trajectories.schema import Outcome
from tests.environments.scienceworld.conftest import cache, installed, task_of, world

__all__ = ["cache", "installed", "world"]


class Listed:
    """As much of the environment as exemplars need."""

    name, family, label, tools = "scienceworld", "", "Task", ()


EXAMPLES = library_of(Listed()).exemplars


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.task)
def test_an_exemplar_happens_as_it_says(world, example):
    task = task_of(world, example.task)
    assert (task.split, task.instruction) == ("train", example.instruction)
    episode = world.episode(task)
    try:
        assert episode.reset().strip() == example.opening
        for number, step in enumerate(example.steps, 1):
            seen = episode.step(step.action)
            assert (seen.text, seen.done) == (step.observation, number == len(example.steps))
        grade = episode.grade()
        assert (grade.correct, grade.reward) == (True, 1.0)
    finally:
        episode.close()


def test_exemplars_are_short_sparse_and_clean():
    assert len(EXAMPLES) == 3
    for example in EXAMPLES:
        assert len(example.steps) <= 15
        thoughts = [step.thought for step in example.steps]
        assert 0 < len(list(filter(None, thoughts))) < len(thoughts)
        assert all(clean_thought(text) == text for text in thoughts)
        assert all(clean_action(step.action) == step.action for step in example.steps)


def test_no_panel_holds_an_exemplar(world):
    shown = exemplar_tasks(world)
    assert {name.split("-")[0] for name in shown} == {"scienceworld"}
    kinds = ["4-2", "7-1", "3-1"]
    tasks = [task for task in world.tasks("train") if task.kind in kinds]
    assert shown <= {task.id for task in tasks}
    panel = draw_panel(tasks, PanelRecipe(split="train"), exclude=shown)
    # Other variations ask the same words and stay.
    assert len(panel) == sum(len(BY_ID[kind].fold("train")) for kind in kinds) - 3


def test_exemplars_show_their_openings():
    for exemplar, example in zip(spec_for(Listed(), "react").exemplars, EXAMPLES, strict=True):
        assert exemplar.instruction == f"{example.instruction}\n{example.opening}"


def seat(world, model):
    task = task_of(world, "scienceworld-4-2-0012")
    return Seat(task, world, model, Sampling(max_tokens=40), "s", 1)


class Repeating:
    """A model that plays the exemplar, as ReAct writes it."""

    address = "repeating"

    def __init__(self):
        self.asked = []

    async def generate(self, request):
        self.asked.append(request.prompt.text)
        words = [" It hangs here.\nAction 1: focus on drawing", "\nAction 2: move drawing to red box"]
        return Completion(words[len(self.asked) - 1])

    def forget(self, session):
        pass


@pytest.mark.parametrize(("name", "model"), [("act", ExpertModel()), ("react", Repeating())])
def test_an_episode_is_shown_its_opening_and_its_rows_are_what_was_served(world, name, model):
    method = load_method(MethodRecipe(name=name, shots=0))
    played = asyncio.run(play(seat(world, model), method, Limits(60), {}, 0))
    assert (played.outcome, played.grade.correct, played.grade.metrics["score"]) == (
        Outcome.FINISHED,
        True,
        1,
    )
    assert played.opening.startswith("This room is called the living room.")
    rows = trajectory_rows(played, name, "text", method.spec(world), method.renderer)
    assert f"{played.task.instruction}\n{played.opening.strip()}\n" in rows[0]["prompt"]
    assert len(rows) == len(played.steps)
    if name == "react":
        assert [row["prompt"] for row in rows] == model.asked
        assert rows[1]["completion"] == "\nAction 2: move drawing to red box\nObservation"
