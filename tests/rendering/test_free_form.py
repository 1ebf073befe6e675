"""Worlds whose actions are plain text: actions without brackets, turns without thoughts, openings."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.rendering.base import Exemplar, Message, Parsed, PromptSpec, ToolCall, ToolSpec
from pipeline.rendering.chat import FORMS, SPARSE, ChatRenderer
from pipeline.rendering.digest import spec_digest
from pipeline.rendering.opening import extended, shown
from pipeline.rendering.parse import clean_action, clean_thought
from pipeline.rendering.registry import load_renderer
from pipeline.rendering.text import TextRenderer
from pipeline.rendering.tokens import IGNORE, encode
from pipeline.rendering.tools import ToolsRenderer, write_turn
from pipeline.trajectories.schema import Step
from tests.rendering.making import byte_level, task, template

ACT = ToolSpec("act", "action", "carries out one action, written in plain words")
RENDERERS = ["text", "chat", "tools"]
SPARSE_STEPS = [
    Step(thought="I look for a door.", action="look around", observation="A door.\n\tA cup."),
    Step(action="open door to kitchen", observation="The door is open."),
    Step(action="0", observation="You go."),
    Step(thought="There it is.", action="focus on cup"),
]
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def spec(rendering: str = "text", style: str = "react", shots: int = 0) -> PromptSpec:
    worked = Exemplar("Find a cup.", tuple(SPARSE_STEPS), "")
    tools = (ACT,) if rendering == "tools" else ()
    return PromptSpec(style, "Task", "Solve the task.", (worked,) * shots, tools, free_form=True)  # type: ignore[arg-type]


def words(prompt) -> str:
    """What the model wrote last."""
    if hasattr(prompt, "segments"):
        return prompt.segments[-1].text.removesuffix(prompt.stop[0])
    return write_turn(prompt.messages[-1])


@pytest.mark.parametrize(
    ("completion", "wanted"),
    [
        (" Hm.\nAction 3: open door to kitchen", Parsed("Hm.", "open door to kitchen")),
        ("\nAction 3: open door to kitchen", Parsed("", "open door to kitchen")),
        ("\nAction 3: 0", Parsed("", "0")),
        ("\nAction 3: task", Parsed("", "task")),
        ("\nAction 3: `wait1`\nObservation 3: no", Parsed("", "wait1", ("hallucinated_observation",))),
        (" Hm.", Parsed("Hm.", "", ("no_action",))),
    ],
)
def test_an_action_without_brackets_is_an_action(completion, wanted):
    assert TextRenderer().parse(spec(), completion) == wanted
    assert ChatRenderer().parse(spec(), f"Thought:{completion}") == wanted


@settings(max_examples=200, deadline=None)
@given(WORDS, WORDS)
@pytest.mark.parametrize("rendering", RENDERERS)
def test_a_turn_is_read_back_with_and_without_a_thought(rendering, thought, action):
    renderer = load_renderer(rendering)
    row = renderer.training(spec(rendering), task(), [Step(thought=thought, action=action)])
    read = renderer.parse(spec(rendering), words(row))
    cleaned = clean_action(action)
    if not cleaned:
        assert read.action == ""
        return
    if rendering != "tools":
        assert read == Parsed(clean_thought(thought), cleaned)
    elif not cleaned.lower().startswith("act["):
        assert (read.action, read.flags) == (cleaned, ())
        assert row.messages[-1].calls == (ToolCall("act", {"action": cleaned}, "call00001"),)
        assert read.thought == row.messages[-1].content


@pytest.mark.parametrize("style", ["react", "act"])
@pytest.mark.parametrize("rendering", RENDERERS)
def test_prompts_of_sparse_steps_are_prefixes_of_the_row(rendering, style):
    renderer, fixed = load_renderer(rendering), spec(rendering, style, shots=1)
    row = renderer.training(fixed, task(), SPARSE_STEPS)
    parts = row.segments if rendering == "text" else row.messages
    for count in range(len(SPARSE_STEPS)):
        prompt = renderer.prompt(fixed, task(), SPARSE_STEPS[:count])
        shorter = renderer.training(fixed, task(), SPARSE_STEPS[: count + 1])
        before = prompt.segments if rendering == "text" else prompt.messages
        assert parts[: len(before)] == before
        assert renderer.parse(fixed, words(shorter)) == Parsed(
            SPARSE_STEPS[count].thought if style == "react" else "", SPARSE_STEPS[count].action
        )


@pytest.mark.parametrize("rendering", ["text", "chat"])
def test_what_is_served_is_trained_token_for_token(rendering):
    tokenizer, renderer = byte_level(template("headers_bos")), load_renderer(rendering)
    row = encode(renderer.training(spec(), task(), SPARSE_STEPS), tokenizer, generate=False)
    for count, step in enumerate(SPARSE_STEPS):
        served = encode(renderer.prompt(spec(), task(), SPARSE_STEPS[:count]), tokenizer, generate=True).ids
        assert row.ids[: len(served)] == served
        rest = row.labels[len(served) :]
        length = next((n for n, label in enumerate(rest) if label == IGNORE), len(rest))
        assert length > 0
        written = tokenizer.decode(rest[:length]).split("\nObservation")[0].removesuffix("<|eot_id|>")
        assert renderer.parse(spec(), written) == Parsed(step.thought, step.action)


def test_an_empty_thought_is_an_empty_line_of_raw_text():
    prompt = TextRenderer().prompt(spec(), task("Find it."), SPARSE_STEPS[1:2])
    assert prompt.text.endswith(
        "Task: Find it.\nThought 1:\nAction 1: open door to kitchen\n"
        "Observation 1: The door is open.\nThought 2:"
    )
    drafted = TextRenderer().prompt(spec(), task("Find it."), SPARSE_STEPS[1:2], draft="")
    assert drafted.text == f"{prompt.text}\nAction 2:"


def test_a_chat_turn_without_a_thought_has_no_such_line():
    row = ChatRenderer().training(spec(), task(), SPARSE_STEPS[:2])
    assert [m.content for m in row.messages if m.role == "assistant"] == [
        "Thought: I look for a door.\nAction: look around",
        "Action: open door to kitchen",
    ]
    assert row.messages[0].content == f"Solve the task.\n\n{SPARSE}"
    acting = ChatRenderer().prompt(spec(style="act"), task(), [])
    assert acting.messages[0].content.endswith(FORMS["act"])


def test_actions_are_calls_of_the_one_tool():
    prompt = ToolsRenderer().prompt(spec("tools"), task(), SPARSE_STEPS[:2])
    call = ToolCall("act", {"action": "open door to kitchen"}, "call00002")
    assert prompt.messages[-2:] == (
        Message("assistant", "", calls=(call,)),
        Message("tool", "The door is open.", answers="call00002"),
    )
    bracketed = ToolsRenderer().training(spec("tools"), task(), [Step(action="Act[ open door ]")])
    assert bracketed.messages[-1].calls == (ToolCall("act", {"action": "open door"}, "call00001"),)


@pytest.mark.parametrize(
    ("completion", "wanted"),
    [
        ('{"name": "act", "arguments": {"action": " open door\\n"}}', Parsed("", "open door")),
        ('{"name": "act", "arguments": {"action": 0}}', Parsed("", "0")),
        ('{"name": "Act", "arguments": {"command": "wait"}}', Parsed("", "wait", ("repaired",))),
        ('{"name": "act", "arguments": {}}', Parsed("", "", ("no_action",))),
        ('{"name": "act", "arguments": {"action": ""}}', Parsed("", "", ("no_action",))),
        ('{"name": "open", "arguments": {"what": "door"}}', Parsed("", "open[door]")),
    ],
)
def test_calls_are_actions(completion, wanted):
    assert ToolsRenderer().parse(spec("tools"), f"<tool_call>\n{completion}\n</tool_call>") == wanted


def test_words_in_place_of_a_call_are_read_as_thought_and_action():
    read = ToolsRenderer().parse(spec("tools"), "Thought: Hm.\nAction: open door")
    assert read == Parsed("Hm.", "open door", ("repaired",))


def test_the_opening_joins_the_task():
    fixed, asked = spec(), task("Find it.")
    assert shown(fixed, asked, "A room.\n\tA cup.\n").instruction == "Find it.\nA room.\n\tA cup."
    assert shown(fixed, asked, "A room.").id == asked.id
    assert asked.instruction == "Find it."


@pytest.mark.parametrize("opening", ["", " \n", "Task: Find it.", "Task: Find it.\n"])
def test_an_opening_that_says_nothing_changes_nothing(opening):
    asked = task("Find it.")
    assert shown(spec(), asked, opening) is asked
    assert shown(replace(spec(), free_form=False), asked, opening) is asked


@pytest.mark.parametrize("style", ["answer", "reason"])
def test_only_acting_styles_are_shown_the_opening(style):
    asked = task("Find it.")
    assert shown(spec(style=style), asked, "A room.") is asked


@given(st.text(max_size=30), st.text(max_size=30))
def test_an_extended_instruction_holds_both(instruction, opening):
    text = extended(instruction, opening)
    assert text == instruction or text == f"{instruction.strip()}\n{opening.strip()}"
    assert (text == instruction) >= (not opening.strip())


def test_free_form_changes_no_digest_that_training_recorded():
    assert spec_digest(spec()) == spec_digest(replace(spec(), free_form=False))
