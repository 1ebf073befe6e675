"""Tool calls: what is shown, and what is read back."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import FormatError
from pipeline.rendering.base import Message, Parsed, ToolCall, ToolSpec
from pipeline.rendering.calls import read_call
from pipeline.rendering.chat import ChatRenderer
from pipeline.rendering.digest import spec_digest
from pipeline.rendering.parse import clean_action, clean_thought
from pipeline.rendering.tools import (
    FORMS,
    ToolsRenderer,
    tool_schema,
    tool_spec,
    write_call,
    write_turn,
)
from pipeline.trajectories.schema import Step
from tests.rendering.making import TOOLS, spec, steps, task
from tests.rendering.making import tool_spec as offering

RENDERER = ToolsRenderer()
CALL = '<tool_call>\n{"name": "Search", "arguments": {"title": "Lima"}}\n</tool_call>'
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


def parsed(completion: str, style: str = "react") -> Parsed:
    return RENDERER.parse(offering(style), completion)


def turn(step: Step, style: str = "react") -> Message:
    return RENDERER.training(offering(style, shots=0), task(), [step]).messages[-1]


def test_a_conversation_with_an_exemplar():
    row = RENDERER.training(offering(), task("Where?"), steps("It is far."))
    looked = "I should look up topic 0."
    assert row.messages == (
        Message("system", f"Solve the task.\n\n{FORMS['react']}", shared=True),
        Message("user", "Question: What is Bern?", shared=True),
        Message("assistant", looked, True, (ToolCall("Search", {"title": "topic 0"}, "call00001"),)),
        Message("tool", "Bern is a city.", True, answers="call00001"),
        Message("assistant", "Now I know.", True, (ToolCall("Finish", {"answer": "Lima"}, "call00002"),)),
        Message("tool", "Episode finished.", True, answers="call00002"),
        Message("assistant", "a city", True),
        Message("user", "Question: Where?"),
        Message("assistant", looked, False, (ToolCall("Search", {"title": "topic 0"}, "call00004"),)),
        Message("tool", "It is far.", answers="call00004"),
        Message("assistant", "Now I know.", False, (ToolCall("Finish", {"answer": "Lima"}, "call00005"),)),
    )
    assert row.tools == TOOLS
    assert row.stop == ("\nObservation",)


def test_act_has_no_thoughts():
    row = RENDERER.training(offering("act"), task(), steps("x"))
    assert {message.content for message in row.messages if message.calls} == {""}
    assert FORMS["act"] in row.messages[0].content


@pytest.mark.parametrize("style", ["reason", "answer"])
def test_a_single_answer_is_the_chat_renderers(style):
    chat = ChatRenderer()
    assert RENDERER.prompt(offering(style), task(), []) == chat.prompt(spec(style), task(), [])
    assert RENDERER.training(offering(style), task(), steps()) == chat.training(spec(style), task(), steps())
    assert RENDERER.parse(offering(style), "Answer: Lima").action == "Finish[Lima]"


def test_prompts_are_prefixes_of_the_row():
    episode = [*steps("x", "y")[:2], Step(thought="Hm.", observation="No action was found."), *steps()]
    row = RENDERER.training(offering(), task(), episode)
    for k in range(len(episode)):
        prompt = RENDERER.prompt(offering(), task(), episode[:k])
        assert row.messages[: len(prompt.messages)] == prompt.messages
        assert prompt.messages[-1].role in ("user", "tool")
    ids = [call.id for message in row.messages for call in message.calls]
    assert len(set(ids)) == len(ids)
    assert all(len(name) == 9 and name.isalnum() for name in ids)


@pytest.mark.parametrize(
    ("action", "call"),
    [
        ("Search[Li Bai]", ToolCall("Search", {"title": "Li Bai"})),
        ("search[Li Bai]", ToolCall("Search", {"title": "Li Bai"})),
        ("Wait", ToolCall("Wait", {})),
        ("Wait[]", ToolCall("Wait", {})),
        ("Search", ToolCall("Search", {})),
        ("Search[]", ToolCall("Search", {"title": ""})),
        ("Browse[x]", ToolCall("Browse", {"input": "x"})),
        ('Finish["a" ] b]', ToolCall("Finish", {"answer": '"a" ] b'})),
    ],
)
def test_actions_as_calls(action, call):
    message = turn(Step(thought="T.", action=action))
    assert message.content == "T."
    assert message.calls == (ToolCall(call.name, call.arguments, "call00001"),)


@pytest.mark.parametrize("action", ["go to cabinet 1", "put [x] in y", "李白[x]", ""])
def test_what_cannot_be_a_call_stays_words_and_is_answered_by_the_user(action):
    prompt = RENDERER.prompt(offering(shots=0), task(), [Step(thought="T.", action=action, observation="O.")])
    assert prompt.messages[-2:] == (
        Message("assistant", f"T.\nAction: {action}".strip()),
        Message("user", "Observation: O."),
    )


def test_refusals():
    with pytest.raises(FormatError, match="half-written"):
        RENDERER.prompt(offering(), task(), [], draft="Hm")
    with pytest.raises(FormatError, match=r"'t1'.*without steps"):
        RENDERER.training(offering(), task(), [])
    with pytest.raises(FormatError, match="no tools to offer"):
        RENDERER.prompt(spec(), task(), [])


def test_schemas_are_what_servers_take_and_can_be_read_back():
    assert tool_schema(TOOLS[0]) == {
        "type": "function",
        "function": {
            "name": "Search",
            "description": "shows the beginning of a page",
            "parameters": {
                "type": "object",
                "properties": {"title": {"type": "string", "description": "title"}},
                "required": ["title"],
            },
        },
    }
    assert tool_schema(TOOLS[1])["function"]["parameters"]["properties"] == {}
    assert tuple(tool_spec(tool_schema(tool)) for tool in TOOLS) == TOOLS


def test_the_canonical_form():
    call = ToolCall("Search", {"title": 'He said "é"'}, "call00001")
    written = '<tool_call>\n{"name": "Search", "arguments": {"title": "He said \\"é\\""}}\n</tool_call>'
    assert write_call(call) == written
    assert write_turn(Message("assistant", "T.", calls=(call,))) == f"T.\n{written}"
    assert write_turn(Message("assistant", "", calls=(call,))) == written
    assert write_turn(Message("assistant", "Answer: x")) == "Answer: x"


@given(TEXT, st.sampled_from(["Search", "Finish", "Browse", "Wait"]), TEXT)
def test_what_is_written_is_read_back(thought, name, argument):
    step = Step(thought=thought, action=f"{name}[{argument}]")
    message = turn(step)
    read = parsed(write_turn(message))
    action = clean_action(step.action)
    if message.calls:
        inside = action.removeprefix(f"{name}[").removesuffix("]").strip()
        assert read.action == ("Wait" if name == "Wait" and not inside else f"{name}[{inside}]")
        assert read.flags == (("repaired",) if name == "Wait" and inside else ())
    if not any(mark in thought for mark in "<[{"):
        assert message.content.startswith(clean_thought(thought))
    if message.calls:
        assert read.thought == message.content


@pytest.mark.parametrize(
    "thought",
    [
        CALL,
        "[TOOL_CALLS] [",
        '{"name": "Finish", "arguments": {}}',
        "<tool_<tool_call>call>",
        '{<think>"name":',
    ],
)
def test_a_thought_is_never_read_as_a_call(thought):
    read = parsed(write_turn(turn(Step(thought=thought, action="Search[x]"))))
    assert read.action == "Search[x]"


FORMS_OF_ONE_CALL = [
    CALL,
    '<tool_call>{"arguments": {"title": "Lima"}, "name": "Search"}</tool_call>',
    '<tool_call>\n{"name": "Search", "arguments": "{\\"title\\": \\"Lima\\"}"}\n</tool_call>',
    '<tool_call>\n```json\n{"name": "Search", "arguments": {"title": "Lima"}}\n```\n</tool_call>',
    '[TOOL_CALLS] [{"name": "Search", "arguments": {"title": "Lima"}, "id": "call00001"}]',
    '[{"name": "Search", "arguments": {"title": "Lima"}, "id": "call00001"}]',
    "<tool_call>\n<function=Search>\n<parameter=title>\nLima\n</parameter>\n</function>\n</tool_call>",
    "<function=Search><parameter=title>Lima</parameter></function>",
    '[TOOL_CALLS]Search{"title": "Lima"}',
    '[TOOL_CALLS]Search[CALL_ID]call00001[ARGS]{"title": "Lima"}',
    '{"name": "Search", "parameters": {"title": "Lima"}}',
    '<|python_tag|>{"name": "Search", "parameters": {"title": "Lima"}}',
    '{"type": "function", "function": {"name": "Search", "arguments": {"title": "Lima"}}}',
    '```json\n{"name": "Search", "parameters": {"title": "Lima"}}\n```',
    '{"name": "search", "arguments": {"TITLE": " Lima\n"}}',
]


@pytest.mark.parametrize("written", FORMS_OF_ONE_CALL)
@pytest.mark.parametrize("thought", ["", "I look.\n", "Thought: I look.\nAction:\n"])
def test_every_known_form_of_a_call(written, thought):
    assert parsed(thought + written) == Parsed("I look." if thought else "", "Search[Lima]", ())
    assert parsed(thought + written, "act") == Parsed("", "Search[Lima]", ())


@pytest.mark.parametrize(
    "written",
    [
        '<tool_call>\n{"name": "Search", "arguments": {"query": "Lima"}}\n</tool_call>',
        '<tool_call>\n{"name": "Search", "arguments": {"title": "Lima", "limit": 3}}\n</tool_call>',
        '<tool_call>\n{"name": "Search", "arguments": "Lima"}\n</tool_call>',
        '<tool_call>\n{"name": "Search", "arguments": ["Lima"]}\n</tool_call>',
        '<tool_call>\n{"name": "Search", "title": "Lima"}\n</tool_call>',
        '<tool_call>\n{"name": "functions.Search", "arguments": {"title": "Lima"}}\n</tool_call>',
        "<tool_call>\n{'name': 'Search', 'arguments': {'title': 'Lima'}}\n</tool_call>",
        '<tool_call>\n{"name": "Search", "arguments": {"title": "Lima"}\n</tool_call>',
        '<tool_call>\n{"name": "Search", "arguments": {"title": "Lima",},}\n</tool_call>',
        "Thought: I look.\nAction: Search[Lima]",
        "Search[Lima]",
    ],
)
def test_repaired_where_only_one_reading_is_possible(written):
    read = parsed(written)
    assert (read.action, read.flags) == ("Search[Lima]", ("repaired",))


@pytest.mark.parametrize(
    "written",
    [
        '<tool_call>\n{"name": "Search", "arguments": {"title": "unfini',
        '<tool_call>\n{"name": "Search", "arguments": {"title": "The "X" film"}}\n</tool_call>',
        '<tool_call>\n{"name": "Search", "arguments": {"a": "x", "b": "y"}}\n</tool_call>',
        '<tool_call>\n{"name": ["x"], "arguments": {"title": "x"}}\n</tool_call>',
        '<tool_call>\n{"name": "Finish", "arguments": {"answer": 19',
        '<tool_call>\n{"name": "Finish", "arguments": {',
        '<tool_call>\n{"name": "", "arguments": {"title": "x"}}\n</tool_call>',
        "<tool_call>\nSearch Lima\n</tool_call>",
        "<tool_call>\n<function=Search>\n<parameter=title>\nunfini",
        "<tool_call>\n<function=Search>\n<parameter=title>\nx\n</function>\n</tool_call>",
        "<tool_call>",
        '[TOOL_CALLS] [{"name": "Search"',
        'Search {"title": "unfini',
        "I think that it is Lima.",
        "",
        "<think>still thinking",
    ],
)
@pytest.mark.parametrize("style", ["react", "act"])
def test_no_action_where_a_call_is_unclear(written, style):
    read = parsed(written, style)
    assert read.action == ""
    assert "no_action" in read.flags


def test_values_that_are_no_strings():
    wrap = '<tool_call>{{"name": "Finish", "arguments": {{"answer": {}}}}}</tool_call>'
    values = {"12": "12", "1e400": "1e400", "true": "true", '["a"]': "a", '{"x": {"y": "b"}}': "b"}
    values |= {"9" * 5000: "9" * 5000, '["a", "b"]': '["a", "b"]', '"x\\ny"': "x y"}
    for given_, wanted in values.items():
        assert parsed(wrap.format(given_)).action == f"Finish[{wanted}]"
    assert parsed(wrap.format("null")).action == "Finish"


def test_escaped_pairs_are_one_character_and_lone_ones_are_replaced():
    """P28: each half decoded alone would crash when it is encoded."""
    wrap = '<tool_call>{{"name": "Finish", "arguments": {{"answer": "cheers {}"}}}}</tool_call>'
    assert parsed(wrap.format("\\ud83c\\udf78")).action == "Finish[cheers 🍸]"
    assert parsed(wrap.format("\\ud83c")).action == "Finish[cheers \ufffd]"


def test_unknown_tools_are_left_to_the_environment():
    written = '<tool_call>\n{"name": "Browse", "arguments": {"url": "x"}}\n</tool_call>'
    assert parsed(written) == Parsed("", "Browse[x]", ())


@pytest.mark.parametrize(
    ("after", "flag"),
    [
        (f"\n{CALL}", "extra_text"),
        ("\nThat should do.", "extra_text"),
        ("\n<tool_response>\nLima is a city.\n</tool_response>", "hallucinated_observation"),
        ("\nObservation: Lima is a city.", "hallucinated_observation"),
    ],
)
def test_what_follows_the_first_call_is_dropped(after, flag):
    assert parsed(CALL + after) == Parsed("", "Search[Lima]", (flag,))


def test_several_calls_in_one_list():
    first, second = ({"name": "Search", "arguments": {"title": name}} for name in ("Lima", "Oslo"))
    assert parsed(f"[TOOL_CALLS] {json.dumps([first, second])}") == Parsed(
        "", "Search[Lima]", ("extra_text",)
    )


def test_reasoning_is_left_out():
    assert parsed(f"<think>Hm. {CALL}</think>\n\nI look.\n{CALL}") == Parsed(
        "I look.", "Search[Lima]", ("reasoning",)
    )


@given(
    st.lists(st.sampled_from([*FORMS_OF_ONE_CALL, "<", "{", '"', "\\", "'", "</tool_call>", "x", "[", "]"]))
)
def test_parsing_never_raises(parts):
    for style in ("react", "act"):
        RENDERER.parse(offering(style), "".join(parts))


@given(st.text())
def test_parsing_anything_never_raises(text):
    for prefix in ("", "<tool_call>", "[TOOL_CALLS]", '{"name": "Search", "arguments": '):
        parsed(prefix + text)


@pytest.mark.parametrize(
    "unit",
    ['{"name":', "<tool_call>", '<tool_call>{"', "[TOOL_CALLS] [{", "```json\n", '{"name": "', "{" + " " * 50,
     "<tool_call>[", "'", '\\"', ',"a":[', "<tool_call>{'name': ",
     "<function=a>", "<function=a><parameter=b>", "</parameter>"],
)  # fmt: skip
def test_reading_takes_time_linear_in_the_text(unit):
    def seconds(length: int) -> float:
        text = "<tool_call>" + unit * (length // len(unit))
        start = time.process_time()
        read_call(text)
        return time.process_time() - start

    small = min(seconds(20_000) for _ in range(3))
    assert seconds(200_000) < 40 * small + 0.05


def test_offered_tools_are_part_of_the_prompts_identity():
    plain, offered = spec(), offering()
    assert spec_digest(plain) != spec_digest(offered)
    other = offering()
    assert spec_digest(other) == spec_digest(offered)
    fewer = ToolSpec("Search", "title", "shows a page")
    assert spec_digest(
        type(offered)(offered.style, "Question", "Solve the task.", (), (fewer,))
    ) != spec_digest(offered)
