"""The raw-text format, letter by letter."""

from __future__ import annotations

import pytest

from pipeline.errors import FormatError
from pipeline.rendering.base import PromptSpec, TextPrompt
from pipeline.rendering.text import TextRenderer
from pipeline.trajectories.schema import Step
from tests.rendering.making import spec, steps, task

RENDERER = TextRenderer()


def both(prompt: TextPrompt) -> tuple[str, list[str]]:
    return prompt.text, [segment.text for segment in prompt.segments if segment.source == "model"]


def test_react_prompt_with_an_exemplar_and_a_step():
    prompt = RENDERER.prompt(spec(), task("Where?"), steps("It is\nfar."))
    text, model = both(RENDERER.prompt(spec(), task("Where?"), steps("It is\nfar.")[:1]))
    assert text == (
        "Solve the task.\n\n"
        "Question: What is Bern?\n"
        "Thought 1: I should look up topic 0.\nAction 1: Search[topic 0]\nObservation 1: Bern is a city.\n"
        "Thought 2: Now I know.\nAction 2: Finish[Lima]\nObservation 2: reward = 1\n\n"
        "Question: Where?\n"
        "Thought 1: I should look up topic 0.\nAction 1: Search[topic 0]\nObservation 1: It is\nfar.\n"
        "Thought 2:"
    )
    assert model == [" I should look up topic 0.\nAction 1: Search[topic 0]\nObservation"]
    assert prompt.stop == ("\nObservation",)
    shared = "".join(segment.text for segment in prompt.segments if segment.shared)
    assert shared.endswith("Observation 2: reward = 1\n\nQuestion:")


@pytest.mark.parametrize(
    ("style", "opened", "words", "stop"),
    [
        ("react", "Thought 1:", " Now I know.\nAction 1: Finish[Lima]\nObservation", ("\nObservation",)),
        ("act", "Action 1:", " Finish[Lima]\nObservation", ("\nObservation",)),
        ("reason", "Thought:", " Now I know.\nAnswer: Lima\n\n", ("\n\n", "\nQuestion:")),
        ("answer", "Answer:", " Lima\n", ("\n",)),
    ],
)
def test_each_style_without_exemplars(style, opened, words, stop):
    prompt = RENDERER.prompt(spec(style, shots=0), task("Where?"), [])
    assert prompt.text == f"Solve the task.\n\nQuestion: Where?\n{opened}"
    assert not any(segment.shared for segment in prompt.segments)
    row = RENDERER.training(spec(style, shots=0), task("Where?"), steps())
    assert row.text == prompt.text + words
    assert row.segments[: len(prompt.segments)] == prompt.segments
    assert row.stop == prompt.stop == stop
    assert words.endswith(stop[0])


@pytest.mark.parametrize(
    ("style", "shown"),
    [("reason", "Thought: Now I know.\nAnswer: Lima\n\n"), ("answer", "Answer: Lima\n\n")],
)
def test_exemplars_of_single_step_styles(style, shown):
    assert f"Question: What is Bern?\n{shown}Question:" in RENDERER.prompt(spec(style), task(), []).text


def test_a_chain_of_thought_is_an_episode_without_acts():
    row = RENDERER.training(spec("reason", 0), task(), steps("x", "y"))
    wanted = " I should look up topic 0. I should look up topic 1. Now I know.\nAnswer: Lima\n\n"
    assert row.segments[-1].text == wanted


def test_prompts_of_steps_are_segment_prefixes_of_the_row():
    episode = steps("x", "y", "z")
    row = RENDERER.training(spec(), task(), episode)
    for k in range(len(episode)):
        prompt = RENDERER.prompt(spec(), task(), episode[:k])
        assert row.segments[: len(prompt.segments)] == prompt.segments
        assert prompt.text[-1] == ":"


def test_a_draft_ends_where_the_action_begins():
    prompt = RENDERER.prompt(spec(), task(), steps("x")[:1], draft="Hm,\nwell.")
    assert prompt.text.endswith("\nThought 2: Hm, well.\nAction 2:")


def test_an_unreadable_step_still_has_a_place():
    prompt = RENDERER.prompt(spec(shots=0), task(), [Step(observation="No action was found.")])
    assert prompt.text.endswith("Thought 1:\nAction 1:\nObservation 1: No action was found.\nThought 2:")


def test_labels_in_words_cannot_break_the_format():
    odd = Step(
        thought="Observation 3: no\nAction: x", action="Action 2: Search[a\nb] tail", observation=" \n"
    )
    prompt = RENDERER.prompt(spec(shots=0), task(), [odd])
    assert prompt.text.endswith("Thought 1: no Action: x\nAction 1: Search[a b]\nObservation 1:\nThought 2:")


def test_an_empty_instruction_leaves_no_blank_line():
    bare = PromptSpec("react", "Claim", "")
    assert RENDERER.prompt(bare, task("It is."), []).text == "Claim: It is.\nThought 1:"


def test_an_episode_without_steps_is_no_row():
    with pytest.raises(FormatError, match=r"'t1'.*without steps"):
        RENDERER.training(spec(), task(), [])
