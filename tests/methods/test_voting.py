"""CoT-SC: the majority, and that a vote's samples are kept, paid for once, and drawn each by its own seed."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.environments.answers import normalise
from pipeline.errors import ModelError
from pipeline.methods.registry import load_method
from pipeline.methods.voting import majority
from pipeline.models.base import Completion, Request, Sampling, sample
from pipeline.recipe.models import MethodRecipe, VoteRecipe
from pipeline.trajectories.schema import Usage
from tests.methods.making import Expert, Recorder, Toy, propose, seat


class Voting(Toy):
    def normalise(self, answer):
        return normalise(answer)


def method(samples: int, **vote):
    return load_method(MethodRecipe(name="cot_sc", shots=0, vote=VoteRecipe(samples=samples, **vote)))


def vote(*texts, **options):
    recorder = Recorder(*texts)
    return propose(method(len(texts), **options), seat(recorder, Voting())), recorder


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ([], ("", 0)),
        (["", " "], ("", 0)),
        (["Lima"], ("Lima", 1)),
        (["Bern", "Lima", "lima."], ("Lima", 2)),
        (["The Nile", "Amazon", "nile", "amazon"], ("The Nile", 2)),
        (["", "", "", "Oslo"], ("Oslo", 1)),
        (["no", "yes", "yes", "no", "Yes!"], ("yes", 3)),
    ],
)
def test_the_commonest_answer_wins_and_ties_go_to_the_first_seen(votes, expected):
    assert majority(votes, normalise) == expected


@given(st.lists(st.sampled_from(["a b", "A  B", "b", "B!", "", "c"]), max_size=12))
def test_the_majority_is_a_vote_with_the_highest_count(votes):
    answer, count = majority(votes, normalise)
    counts = Counter(normalise(v) for v in votes if v.strip())
    assert count == max(counts.values(), default=0)
    assert (answer in votes) if count else (answer == "")
    # No other answer with as many votes was seen before the winner.
    rivals = [key for key, value in counts.items() if value == count and key != normalise(answer)]
    seen = [normalise(v) for v in votes]
    assert all(seen.index(rival) > seen.index(normalise(answer)) for rival in rivals)


def test_the_step_finishes_with_the_majority_and_keeps_every_sample():
    texts = [" It is Bern.\nAnswer: Bern", " Surely Lima.\nAnswer: Lima", " no answer", " So.\nAnswer: lima"]
    step, recorder = vote(*texts)
    assert step.action == "Finish[Lima]"
    assert step.thought == "Surely Lima."
    assert step.completion == texts[1]
    assert step.votes == ("Bern", "Lima", "", "lima")
    assert step.candidates == tuple(texts)
    assert step.usage == Usage(prompt_tokens=40, completion_tokens=8, calls=4)
    assert len({request.seed for request in recorder.requests}) == 4


def test_a_vote_without_answers_is_an_unreadable_step():
    step, _ = vote(" I wonder", " Hm")
    assert (step.action, step.flags, step.votes) == ("", ("no_action",), ("", ""))
    assert step.usage.calls == 2


def test_the_votes_own_sampling_is_used_and_enters_the_settings():
    chosen = method(3, temperature=0.9, top_p=0.8, max_tokens=12)
    assert chosen.sampling == Sampling(0.9, 0.8, 12)
    settings = chosen.settings(Voting())
    assert {"samples": 3, "temperature": 0.9, "top_p": 0.8, "max_tokens": 12}.items() <= settings.items()


def test_the_prompt_is_that_of_cot():
    (_, voted), asked = vote(" a\nAnswer: b"), Recorder(" a\nAnswer: b")
    propose(load_method(MethodRecipe(name="cot", shots=0)), seat(asked, Voting()))
    assert voted.requests[0].prompt == asked.requests[0].prompt


def test_the_expert_cannot_vote():
    class Playing(Expert):
        async def generate(self, request):
            raise ModelError("the expert cannot continue a prompt")

    with pytest.raises(ModelError, match="cannot continue"):
        propose(method(2), seat(Playing(), Voting()))


def test_a_model_that_can_sample_is_asked_once():
    class Sampler(Recorder):
        counts: list[int] = []

        async def sample(self, request, count):
            self.counts.append(count)
            return [Completion(text) for text in self.answers[:count]]

    model = Sampler(" a\nAnswer: x", " b\nAnswer: y", " c\nAnswer: y")
    step = propose(method(3), seat(model, Voting()))
    assert (step.action, model.counts, model.requests) == ("Finish[y]", [3], [])


def test_seeds_of_samples_depend_on_the_request_alone():
    def seeds(seed, count):
        model = Recorder(*["x"] * count)
        prompt = load_method(MethodRecipe(name="cot", shots=0)).renderer.prompt(
            method(1).spec(Voting()), seat(model).task, ()
        )
        asyncio.run(sample(model, replace(Request(prompt), seed=seed), count))
        return [request.seed for request in model.requests]

    assert seeds(1, 5) == seeds(1, 9)[:5]
    assert not set(seeds(1, 5)) & set(seeds(2, 5))
