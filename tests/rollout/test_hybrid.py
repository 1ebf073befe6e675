"""Hybrids: which part settles a task, what a joined episode holds, and that parts are played once."""

import asyncio
from itertools import islice

import pytest

from pipeline.environments.answers import normalise
from pipeline.environments.registry import load_environment
from pipeline.errors import RecipeError
from pipeline.methods.registry import load_hybrid, load_method, method_names
from pipeline.models.base import Completion
from pipeline.recipe.models import EnvironmentRecipe, MethodRecipe, VoteRecipe
from pipeline.rollout.hybrid import Host, join, joined, play_parts
from pipeline.trajectories.schema import Grade, Outcome, Step, Task, Trajectory, Usage
from pipeline.trajectories.store import TrajectoryStore
from tests.methods.making import Toy

TASK = Task(id="t", environment="toy", split="test", instruction="Is Lima a city?", gold=["yes"])
RIGHT = Grade(correct=True, reward=1.0)


class Voting(Toy):
    def normalise(self, answer):
        return normalise(answer)


def episode(method, steps, outcome=Outcome.FINISHED, answer=None, grade=None, tokens=10):
    return Trajectory(
        id=method,
        task=TASK,
        method=method,
        model="m",
        steps=steps,
        outcome=outcome,
        answer=answer,
        grade=grade or Grade(),
        usage=Usage(completion_tokens=tokens, calls=1),
        seconds=2.0,
    )


def voted(*votes, outcome=Outcome.FINISHED):
    return episode("cot_sc", [Step(action="Finish[x]", votes=list(votes))], outcome, votes[0], RIGHT, 50)


def acted(outcome=Outcome.FINISHED, answer="yes"):
    steps = [Step(action="Search[Lima]"), Step(action="Wait[]")]
    return episode("react", steps, outcome, answer, Grade(), 20)


def hybrid(name, samples=4):
    return load_hybrid(MethodRecipe(name=name, vote=VoteRecipe(samples=samples)))


@pytest.mark.parametrize("outcome", [Outcome.STEP_LIMIT, Outcome.FORMAT_ERROR, Outcome.CONTEXT_LIMIT])
def test_the_vote_answers_where_react_did_not(outcome):
    react, vote = acted(outcome, None), voted("yes", "no")
    whole = join(hybrid("react_then_cot_sc"), Voting(), react, vote)
    assert whole.steps == [*react.steps, *vote.steps]
    assert (whole.outcome, whole.answer, whole.grade) == (vote.outcome, vote.answer, vote.grade)
    assert whole.usage == Usage(completion_tokens=70, calls=2)
    assert (whole.seconds, whole.method) == (4.0, "react_then_cot_sc")


def test_an_empty_answer_of_react_does_not_stand():
    assert join(hybrid("react_then_cot_sc"), Voting(), acted(answer=" "), voted("a")).answer == "a"


def test_react_stands_where_it_answered_even_if_wrongly():
    whole = join(hybrid("react_then_cot_sc"), Voting(), acted(answer="no"), voted("yes"))
    assert (whole.answer, whole.usage.completion_tokens, len(whole.steps)) == ("no", 20, 2)


@pytest.mark.parametrize(
    ("votes", "stands"),
    [
        (("a", "a", "b", "c"), True),  # two of four: not fewer than half
        (("a", "b", "c", "d"), False),
        (("a", "A.", "", ""), True),
        (("a", "", "", ""), False),  # one of four samples, though every answer agrees
    ],
)
def test_the_vote_stands_with_at_least_half_of_the_samples(votes, stands):
    vote, react = voted(*votes), acted()
    whole = join(hybrid("cot_sc_then_react"), Voting(), vote, react)
    assert whole.steps == (vote.steps if stands else react.steps)
    assert whole.usage.completion_tokens == (50 if stands else 70)


def test_with_21_samples_ten_do_not_carry_and_eleven_do():
    votes = [*"a" * 10, *"b" * 6, *"c" * 5]
    assert not hybrid("cot_sc_then_react", 21).stands(voted(*votes), Voting())
    assert hybrid("cot_sc_then_react", 21).stands(voted(*votes[:10], "a", *votes[11:]), Voting())


@pytest.mark.parametrize("name", ["react_then_cot_sc", "cot_sc_then_react"])
@pytest.mark.parametrize("outcome", [Outcome.MODEL_ERROR, Outcome.ENVIRONMENT_ERROR])
def test_an_episode_that_failed_stays_a_failure(name, outcome):
    first = episode("first", [], outcome)
    assert join(hybrid(name), Voting(), first, None).outcome is outcome


def test_without_the_part_that_is_needed_there_is_no_episode():
    assert join(hybrid("react_then_cot_sc"), Voting(), acted(Outcome.STEP_LIMIT, None), None) is None


def test_a_hybrid_is_no_part_of_anything_and_is_listed():
    assert {"react_then_cot_sc", "cot_sc_then_react", "cot_sc", "react"} <= set(method_names())
    assert load_hybrid(MethodRecipe(name="react")) is None
    with pytest.raises(RecipeError, match="joins two methods"):
        load_method(MethodRecipe(name="react_then_cot_sc"))


ATLAS = load_environment(EnvironmentRecipe(name="atlas", family="questions"))


class Answering:
    """Answers in ReAct on every second question; its chains of thought agree on every third."""

    address = "answering"

    def __init__(self, questions):
        self.questions = questions
        self.calls = 0

    async def generate(self, request):
        self.calls += 1
        text = request.prompt.text
        number = self.questions.index(text.rsplit("Question: ", 1)[1].split("\n")[0])
        usage = Usage(completion_tokens=1, calls=1)
        if text.endswith("Thought:"):
            answer = "yes" if number % 3 == 0 else str(request.seed)
            return Completion(f" Hm.\nAnswer: {answer}", usage=usage)
        action = "Finish[no]" if number % 2 == 0 else "Search[Lima]"
        return Completion(f" Go.\nAction 1: {action}", usage=usage)

    def forget(self, session):
        pass


def test_parts_are_played_once_whatever_order_methods_come_in(tmp_path):
    tasks = list(islice(ATLAS.tasks("test"), 12))
    model = Answering([task.instruction for task in tasks])
    host = Host(ATLAS, model)

    def run(name):
        chosen = hybrid(name)
        with TrajectoryStore(tmp_path / "t.jsonl") as store:
            asyncio.run(play_parts(chosen, host, tasks, store))
            return list(joined(chosen, host, tasks, store))

    acted_first = run("react_then_cot_sc")
    # Six questions in one ReAct step each, six in seven; then four samples for each of the latter.
    assert model.calls == 6 + 6 * 7 + 6 * 4
    voted_first = run("cot_sc_then_react")
    assert model.calls == 6 + 6 * 7 + 12 * 4, "only the six votes that were missing are new"
    assert [t.task.id for t in acted_first] == [t.task.id for t in voted_first] == [t.id for t in tasks]
    assert len({t.id for t in [*acted_first, *voted_first]}) == 24
    assert [len(t.steps) for t in acted_first] == [1, 8] * 6
    assert [t.answer for t in acted_first][::2] == ["no"] * 6
    assert [t.answer == "yes" for t in voted_first] == [True, False, False] * 4
    assert [t.outcome is Outcome.FINISHED for t in voted_first] == [True, False, True, True, True, False] * 2
    assert run("react_then_cot_sc") == acted_first
    assert model.calls == 6 + 6 * 7 + 12 * 4
