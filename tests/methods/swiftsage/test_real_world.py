"""SwiftSage in the real simulator, with scripted models and with SAGE behind a real HTTP server."""

from __future__ import annotations

import asyncio

import pytest

from pipeline.cli.show import readable
from pipeline.environments.scienceworld.environment import ScienceWorldEnvironment
from pipeline.methods.registry import load_method
from pipeline.models.openai import OpenAIModel
from pipeline.recipe.models import MethodRecipe, ModelRecipe, SwitchRecipe
from pipeline.rollout.engine import Plan, run_episodes
from pipeline.trajectories.schema import Outcome, Task
from pipeline.trajectories.store import TrajectoryStore, read_trajectories
from tests.environments.scienceworld.conftest import installed
from tests.methods.swiftsage.fakes import Searching, Wise, acts
from tests.models.server import chat, serving

__all__ = ["installed"]

LONGEST_LIVED = Task(
    id="scienceworld-7-1-0093",
    environment="scienceworld",
    split="test",
    kind="7-1",
    instruction="Your task is to find the animal with the longest life span.  The animals are in the"
    " 'outside' location.  Focus on the animal with the longest life span.",
    meta={"name": "lifespan-longest-lived", "variation": 93},
)
LIVING = Task(
    id="scienceworld-4-1-0225",
    environment="scienceworld",
    split="test",
    kind="4-1",
    instruction="Your task is to find a(n) living thing. First, focus on the thing. Then, move it to the"
    " orange box in the living room.",
    meta={"name": "find-living-thing", "variation": 225},
)
TOAD = """Here is the plan:
Action 1: FOCUS(common toad) --> You focus on the common toad.
**Action 2:** PICK(common toad) --> It is in the inventory.
Action 3: GO(living room) --> You are there.
Action 4: MOVE(common toad, orange box) --> Done."""


@pytest.fixture(scope="module")
def world(installed):
    """An environment with one simulator. Its tasks are written out above: listing them all takes long."""
    world = ScienceWorldEnvironment(max_steps=300, simulators=1, timeout=300)
    yield world
    world.close()


def episode(world, folder, task, method, model, swift=None):
    """One episode through the engine, as stored."""
    recipe = MethodRecipe.model_validate(method)
    plan = Plan(world, load_method(recipe), recipe, model, swift=swift)
    path = folder / "trajectories.jsonl"
    with TrajectoryStore(path) as store:
        asyncio.run(run_episodes(plan, [task], store, concurrency=1))
    (made,) = read_trajectories(path)
    return made


def test_the_papers_rule(world, tmp_path):
    sage = Wise("Action 1: FOCUS(crocodile) --> You focus on the crocodile egg.\nAction 2: WAIT()")
    swift = Searching([["go to outside"], ["focus on baby baby wolf"]])
    method = {"name": "swiftsage", "max_tokens": 500, "switch": {"rule": "paper"}}
    made = episode(world, tmp_path, LONGEST_LIVED, method, sage, swift)
    assert acts(made) == [("go to outside", "swift"), ("focus on crocodile", "sage", "critical")]
    assert made.outcome is Outcome.FINISHED and made.grade.correct and made.settings["swift_model"] == "swift"
    assert "This outside location is called the outside." in sage.asked[0]
    assert "longest life span" in sage.asked[1] and "focus on baby baby wolf" in sage.asked[0]
    assert "Visited rooms: greenhouse, outside </s>" in swift.inputs[1]
    assert (
        "Score: 50;" in swift.inputs[1]
        and "go to outside (+50) --> You move to the outside." in swift.inputs[1]
    )


def test_the_released_rule(world, tmp_path):
    """SWIFT finds the place, may not focus, and SAGE's plan is carried out to the end."""
    sage = Wise(TOAD)
    swift = Searching([["go to outdoors", "teleport to outside"], ["focus on axe"]])
    method = {"name": "swiftsage", "max_tokens": 500}
    made = episode(world, tmp_path, LIVING, method, sage, swift)
    assert (
        acts(made)
        == [
            ("teleport to outside", "swift", "invalid", "planned"),
            ("focus on common toad", "sage", "idle", "unplanned_focus", "vain:swift:focus"),
            ("pick up common toad", "buffer", "valid"),
            ("teleport to living room", "buffer", "valid"),
            ("move common toad to orange box", "buffer", "valid"),
        ]
        and made.grade.correct
    )
    shown = readable(made)
    assert "    by SWIFT (invalid, planned)\n" in shown
    assert "    by SAGE (idle, unplanned_focus); before, in vain: SWIFT (focus)\n" in shown
    assert shown.endswith("steps: SWIFT 1, SAGE 1, SAGE's plan 3")


@pytest.mark.parametrize("rule", ["paper", "released"])
def test_sage_behind_a_server(world, tmp_path, rule, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")

    def respond(asked):
        text = asked["messages"][-1]["content"]
        return chat("First the toad." if "Answer five questions" in text else TOAD)

    swift = Searching([["teleport to outside"], ["look around"], ["focus on common toad"], ["wait"]])
    method = {"name": "swiftsage", "max_tokens": 500, "switch": SwitchRecipe(rule=rule).model_dump()}
    with serving(respond) as server:
        sage = OpenAIModel(ModelRecipe(address=f"openai:big@{server.url}", max_retries=0))
        made = episode(world, tmp_path, LIVING, method, sage, swift)
    why = {"paper": ("critical",), "released": ("idle", "unplanned_focus", "vain:swift:focus")}[rule]
    assert acts(made)[2:4] == [
        ("focus on common toad", "sage", *why),
        ("pick up common toad", "buffer", "valid"),
    ]
    assert made.grade.correct and made.steps[2].thought == "First the toad."
    planning, grounding = server.requests
    assert [message["role"] for message in planning["messages"]] == ["system", "user"]
    assert (planning["temperature"], planning["max_tokens"], planning["model"]) == (0.0, 500, "big")
    told, asked = planning["messages"][1]["content"], grounding["messages"][1]["content"]
    assert made.task.instruction in told and "teleport to outside --> You teleport to the outside." in told
    assert "A first impulse, perhaps wrong: focus on common toad" in told
    assert "Advice on how to go on:\nFirst the toad." in asked
    # Two calls of SAGE's, as the server counted them, beside SWIFT's.
    assert (made.steps[2].usage.calls, made.steps[2].usage.prompt_tokens) == (3, 2 * 10 + 7)


def test_swift_alone_and_random_valid(world, tmp_path):
    swift = Searching([["open door to outside"], ["go to outside"], ["focus on crocodile"]])
    made = episode(world, tmp_path, LONGEST_LIVED, {"name": "swift"}, swift)
    assert [step.action for step in made.steps][-1] == "focus on crocodile" and made.grade.correct
    # The simulator lists much that it then does not understand, so steps may be invalid.
    random = {"name": "random_valid", "max_steps": 15}
    made = episode(world, tmp_path / "random", LIVING, random, Wise("never"))
    assert made.error is None and made.usage.calls == 0 and made.steps
