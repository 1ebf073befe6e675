"""One step of whatever a model wrote."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.rendering.base import Parsed
from pipeline.rendering.chat import ChatRenderer
from pipeline.rendering.parse import clean_action, clean_thought, finish, parse, split_action
from pipeline.rendering.text import TextRenderer
from pipeline.trajectories.schema import Step
from tests.rendering.making import spec, task

FAULTS = Path(__file__).resolve().parents[2] / "../shared/cases/known_faults.jsonl"
STYLES = ["react", "act", "reason", "answer"]


def fault(identity: str) -> dict:
    if not FAULTS.is_file():
        pytest.skip("the collection of known faults is not on this machine")
    lines = FAULTS.read_text(encoding="utf-8").split("\n")
    return next(row for row in map(json.loads, filter(None, lines)) if row["id"] == identity)


@pytest.mark.parametrize("rendering", [TextRenderer(), ChatRenderer()], ids=["text", "chat"])
@pytest.mark.parametrize("identity", ["P01", "P02", "P03", "P07", "P16", "P17"])
def test_known_faults(identity, rendering):
    case = fault(identity)
    wanted = case["expected"]
    read = rendering.parse(spec(), case["input"]["completion"])
    verb, argument = split_action(read.action)
    assert argument == wanted["argument"]
    assert verb == wanted.get("action", "Finish")
    if "thought" in wanted:
        assert read.thought == wanted["thought"]
    if "flag" in wanted:
        assert wanted["flag"] in read.flags
        assert wanted["discarded_text_contains"] not in read.thought + read.action
    if "finish" in wanted:
        assert (verb.lower() == "finish") == wanted["finish"]


@pytest.mark.parametrize("rendering", [TextRenderer(), ChatRenderer()], ids=["text", "chat"])
@pytest.mark.parametrize("identity", ["P09", "P22"])
def test_known_faults_of_labels(identity, rendering):
    case = fault(identity)
    for completion, wanted in zip(case["input"]["completions"], case["expected"], strict=True):
        verb, argument = split_action(rendering.parse(spec(), completion).action)
        assert (verb.lower(), argument) == (wanted["action"].lower(), wanted.get("argument", ""))


@pytest.mark.parametrize("rendering", [TextRenderer(), ChatRenderer()], ids=["text", "chat"])
def test_known_fault_of_empty_actions(rendering):
    for completion in fault("P18")["input"]["completions"]:
        read = rendering.parse(spec(), completion)
        assert read.action == ""
        assert read.flags == ("no_action",)


def test_the_stop_marker_covers_numbered_observations():
    """A stop on the marker without its number cuts ``Observation 3:`` and ``Observation:`` alike."""
    marker = TextRenderer().prompt(spec(), task(), []).stop[0]
    assert fault("P03")["expected"]["stop_list_must_match"].startswith(marker)
    assert "\nObservation: x".startswith(marker)


@pytest.mark.parametrize(
    ("style", "text", "wanted"),
    [
        ("react", "I see.\nAction 1: Search[x]", Parsed("I see.", "Search[x]")),
        ("react", "Thought 2: a\n\n\nAction 2 : Search[x]\n\n", Parsed("a", "Search[x]")),
        ("react", "THOUGHT: a\n  ACTION: go to cabinet 1\n", Parsed("a", "go to cabinet 1")),
        ("react", "**Thought**: a\n**Action**: **Search[x]**", Parsed("a", "Search[x]")),
        ("react", "- Thought: a\n- Action: Search[x]", Parsed("a", "Search[x]")),
        ("react", "Thought: a\nAction:\n```\nSearch[x]\n```", Parsed("a", "Search[x]", ("extra_text",))),
        (
            "react",
            "Thought: a\nAction: Search\nAction Input: x\nObserv",
            Parsed("a", "Search[x]", ("repaired",)),
        ),
        ("react", "Thought: a\nAction: Search[x] because [y] is", Parsed("a", "Search[x]", ("extra_text",))),
        ("react", "Thought: a\nAction: Search[x].", Parsed("a", "Search[x]")),
        (
            "react",
            "Thought: a\nAction: Search[x[1] of y] now",
            Parsed("a", "Search[x[1] of y]", ("extra_text",)),
        ),
        ("react", "Thought: a\nAction: Search[x[1] now", Parsed("a", "Search[x[1]", ("extra_text",))),
        ("react", "Thought: a\nAction: Search[x", Parsed("a", "Search[x")),
        ("react", "Thought: a\nAction: put [x] in y", Parsed("a", "put [x] in y")),
        ("react", "Thought: a\nAction: \nThought: b", Parsed("a", "", ("extra_text", "no_action"))),
        ("react", "I will look.\nSearch[x]", Parsed("I will look.", "Search[x]", ("repaired",))),
        ("react", "I will look.", Parsed("I will look.", "", ("no_action",))),
        ("react", "I will look.\nObserv", Parsed("I will look.", "", ("no_action",))),
        (
            "react",
            "Thought: a\nObservation 1: b\nAction: Finish[b]",
            Parsed("a", "", ("hallucinated_observation", "no_action")),
        ),
        ("react", "Question: q\nThought: a\nAction: Search[x]", Parsed("a", "Search[x]")),
        (
            "react",
            "So it is.\n\nQuestion: new\nThought 1: b\nAction 1: Search[y]",
            Parsed("So it is.", "", ("extra_text", "no_action")),
        ),
        (
            "react",
            "Thought: a\nAction: Search[x]\nAction: Search[y]",
            Parsed("a", "Search[x]", ("extra_text",)),
        ),
        (
            "react",
            "<think>hm\nAction: Search[no]</think>\nThought: a\nAction: Search[x]",
            Parsed("a", "Search[x]", ("reasoning",)),
        ),
        ("react", "<think>hm", Parsed("", "", ("reasoning", "no_action"))),
        ("react", "Thought: a\nAction: Search[x]\r\n", Parsed("a", "Search[x]")),
        ("react", "Thought: Action 1: Search[x]", Parsed("", "Search[x]")),
        ("react", "Thought: a\u2028Action: no\nAction: Search[x]", Parsed("a\u2028Action: no", "Search[x]")),
        (
            "act",
            "Action: Search[x]\nObservation 1: b\nAction 2: Finish[b]",
            Parsed("", "Search[x]", ("hallucinated_observation",)),
        ),
        ("act", "go to cabinet 1", Parsed("", "go to cabinet 1", ("repaired",))),
        ("act", "Thought: a\nAction: Search[x]", Parsed("", "Search[x]")),
        ("act", "\n \n", Parsed("", "", ("no_action",))),
        ("reason", "Thought: a\nb\nAnswer: **c**", Parsed("a\nb", "Finish[c]")),
        ("reason", "a\nFinal Answer: c\nmore", Parsed("a", "Finish[c]", ("extra_text",))),
        ("reason", "a\nAnswer:\nc", Parsed("a", "Finish[c]")),
        ("reason", "a\nQuestion: q\nAnswer: c", Parsed("a", "", ("no_action",))),
        ("reason", "Question: q\nThought: a\nAnswer: c", Parsed("a", "Finish[c]")),
        ("reason", "", Parsed("", "", ("no_action",))),
        ("answer", "\n Paris \n", Parsed("", "Finish[Paris]")),
        ("answer", "Answer: a ] b\nQuestion: q", Parsed("", "Finish[a ] b]", ("extra_text",))),
        ("answer", " \n", Parsed("", "", ("no_action",))),
    ],
)
def test_shapes(style, text, wanted):
    assert parse(style, text) == wanted


def test_the_label_that_the_prompt_wrote_counts():
    text = TextRenderer()
    assert text.parse(spec("act"), " go north\nAction 2: go south").action == "go north"
    assert text.parse(spec("react"), " a\nb\nAction 1: go north") == Parsed("a\nb", "go north")
    assert text.parse(spec("answer"), " Paris") == Parsed("", "Finish[Paris]")
    assert text.parse(spec("reason"), " a.\nAnswer: Paris") == Parsed("a.", "Finish[Paris]")


@pytest.mark.parametrize(
    ("action", "wanted"),
    [
        ("Search[Li Bai]", ("Search", "Li Bai")),
        ("Finish[a ] b]", ("Finish", "a ] b")),
        ("go to cabinet 1", ("go to cabinet 1", "")),
        ("", ("", "")),
    ],
)
def test_split_action(action, wanted):
    assert split_action(action) == wanted


ANY = st.text(max_size=60)
ARGUMENT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@settings(max_examples=300, deadline=None)
@given(ANY, ARGUMENT)
@pytest.mark.parametrize("rendering", ["text", "chat"])
def test_what_is_rendered_is_read_back(rendering, thought, argument):
    renderer = {"text": TextRenderer(), "chat": ChatRenderer()}[rendering]
    step = Step(thought=thought, action=f"Search[{argument}]")
    row = renderer.training(spec(shots=0), task(), [step])
    words = (
        row.segments[-1].text.removesuffix(row.stop[0]) if rendering == "text" else row.messages[-1].content
    )
    read = renderer.parse(spec(), words)
    assert read == Parsed(clean_thought(thought), clean_action(step.action))
    if "think>" not in argument:
        assert split_action(read.action)[1] == " ".join(f"[{argument}]".split())[1:-1]


@settings(max_examples=300, deadline=None)
@given(ANY, ANY)
def test_cleaning_twice_is_cleaning_once(thought, action):
    assert clean_thought(clean_thought(thought)) == clean_thought(thought)
    assert clean_action(clean_action(action)) == clean_action(action)
    assert "\n" not in clean_thought(thought) + clean_action(action)


PIECES = [
    "Thought",
    "Action",
    "Observation",
    "Answer",
    " 1",
    ":",
    "\n",
    "[",
    "]",
    "`",
    "**",
    "<think>",
    "</think>",
    "Finish",
    "Question",
    " ",
    "\ud800",
    "\u2028",
    "x",
]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=30), st.sampled_from(STYLES))
def test_nothing_raises(pieces, style):
    read = parse(style, "".join(pieces))
    assert (read.action == "") == ("no_action" in read.flags)
    assert "\n" not in read.action


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    "text",
    [
        "Action:" * 20_000,
        "Action" + " " * 100_000 + "x",
        "[" * 100_000,
        "*" * 100_000,
        "Action: S[" + "[" * 100_000,
        "Action: S[" + "]" * 99_999 + "x",
        "\n" * 100_000,
        "Thought: x\n" * 10_000,
        "Action 1" + "1" * 100_000,
        "<think>" * 15_000,
        "`Action: " * 11_000,
        "Observ\n" * 15_000,
    ],
    ids=lambda text: text[:12],
)
def test_time_is_linear(style, text):
    start = time.process_time()
    parse(style, text)
    assert time.process_time() - start < 1.0


def test_finish_wraps_an_answer():
    assert finish("Lima") == "Finish[Lima]"
