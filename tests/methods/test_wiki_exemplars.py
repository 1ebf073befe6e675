"""The exemplars of hotpotqa and fever: consistent, playable, and no task of the data sets."""

import ast
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from pipeline.bootstrap.rules import VERDICT
from pipeline.environments.answers import LABELS, claim_label, exact_match
from pipeline.environments.base import ToolSpec
from pipeline.environments.fever import FeverEnvironment
from pipeline.environments.hotpotqa import HotpotQAEnvironment
from pipeline.environments.wiki.backend import SIMILAR, Page
from pipeline.environments.wiki.episode import SHOWN, WIKI_TOOLS, WikiEpisode
from pipeline.environments.wiki.local import LocalWiki
from pipeline.environments.wiki.sentences import split_sentences
from pipeline.methods.prompted import written
from pipeline.methods.prompts import exemplar_tasks, library_of, spec_for
from pipeline.recipe.models import PanelRecipe
from pipeline.rendering.chat import ChatRenderer
from pipeline.rendering.parse import split_action
from pipeline.rendering.text import TextRenderer
from pipeline.rendering.tools import ToolsRenderer, write_turn
from pipeline.trajectories.panels import draw_panel, normal_text
from pipeline.trajectories.schema import Grade, Task
from tests.rendering.making import smol

DATA = Path(__file__).resolve().parents[2] / "../shared/data"
STYLES = ["react", "act", "cot", "standard"]
COUNTS = {"hotpotqa": 6, "fever": 3}
ENVIRONMENTS = {"hotpotqa": HotpotQAEnvironment, "fever": FeverEnvironment}
MISS = re.compile(r"Could not find (.+)\. Similar: (\[.+\])\.")
RESULT = re.compile(r"\(Result \d+ / \d+\) (.+)")


class World:
    """As much of an environment as prompts look at."""

    version, family, label, max_steps = "1", "", "", 7
    tools: tuple[ToolSpec, ...] = WIKI_TOOLS

    def __init__(self, name):
        self.name = name


def examples_of(name):
    return library_of(World(name)).exemplars


EXAMPLES = [
    pytest.param(name, example, id=f"{name}-{example.answer}")
    for name in COUNTS
    for example in examples_of(name)
]


def task_of(example):
    return Task(id="t", environment="wiki", split="dev", instruction=example.instruction)


def wiki_of(example):
    """A wiki of the pages that the observations are taken from: what a search shows, what look-ups found.

    A title that was missed is an ambiguous one there, so that nothing here rests on how titles are ranked.
    """
    texts, others, current = {}, [], ""
    for step in example.steps[:-1]:
        verb, argument = split_action(step.action)
        miss, result = MISS.fullmatch(step.observation), RESULT.fullmatch(step.observation)
        if miss:
            for title in ast.literal_eval(miss[2]):
                texts.setdefault(title, ["Another page."])
                others.append((argument, title))
        elif verb == "Search":
            current = argument
            texts[current] = [step.observation]
        elif result:
            texts[current].append(result[1])
    return LocalWiki.build([Page(title, "\n".join(text)) for title, text in texts.items()], others)


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_a_wiki_of_the_observations_answers_with_them_literally(name, example):
    episode = WikiEpisode(wiki_of(example), lambda answer: Grade(correct=False))
    episode.reset()
    for step in example.steps[:-1]:
        observation = episode.step(step.action)
        assert observation.text == step.observation
        assert not observation.done
        assert not observation.invalid
    assert episode.step(example.steps[-1].action).done
    assert example.steps[-1].observation == ""
    assert episode.answer() == example.answer


@pytest.mark.parametrize("name", COUNTS)
def test_as_many_as_the_paper_shows_in_as_many_steps(name):
    examples = examples_of(name)
    assert len(examples) == COUNTS[name]
    assert all(2 <= len(example.steps) <= ENVIRONMENTS[name].max_steps for example in examples)
    assert library_of(World(name)).label == ENVIRONMENTS[name].label
    assert len({normal_text(example.instruction) for example in examples}) == len(examples)


def test_questions_cover_what_agents_meet():
    examples = examples_of("hotpotqa")
    searches = [sum(step.action.startswith("Search[") for step in example.steps) for example in examples]
    observations = [step.observation for example in examples for step in example.steps]
    titles = [ast.literal_eval(miss[2]) for text in observations if (miss := MISS.fullmatch(text))]
    assert "yes" in [example.answer for example in examples]
    assert 3 in searches
    assert [len(found) for found in titles] == [SIMILAR]
    assert any(text.startswith("(Result 2 / 2) ") for text in observations)
    assert all(exact_match(example.answer, example.answer) == 1.0 for example in examples)
    assert all(len(example.answer.split()) <= 3 for example in examples)


def test_a_missed_search_goes_on_with_one_of_the_similar_titles():
    repaired = [
        after.action in [f"Search[{title}]" for title in ast.literal_eval(miss[2])]
        for example in examples_of("hotpotqa")
        for before, after in pairwise(example.steps)
        if (miss := MISS.fullmatch(before.observation))
    ]
    assert repaired == [True]


def test_claims_cover_every_label_once():
    answers = [example.answer for example in examples_of("fever")]
    assert sorted(answers) == sorted(LABELS)
    assert [claim_label(answer) for answer in answers] == answers


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_texts_are_printable_and_free_of_verdicts(name, example):
    texts = [example.instruction, example.answer, example.cot]
    texts += [
        text for step in example.steps for text in (step.thought, step.inner, step.action, step.observation)
    ]
    assert all(text.isprintable() and text == text.strip() for text in texts)
    assert not any(VERDICT.search(text) or "reward" in text.lower() for text in texts)
    assert all(step.thought and step.inner for step in example.steps)


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_a_chain_of_thought_remembers_and_does_not_search(name, example):
    assert not re.search(r"search|look|page|wiki|observ|lookup", example.cot, re.IGNORECASE)
    assert example.cot.endswith(f" the answer is {example.answer}.")


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_pages_begin_as_an_encyclopedia_does(name, example):
    for step in example.steps:
        if step.action.startswith("Search[") and not MISS.fullmatch(step.observation):
            assert 2 <= len(split_sentences(step.observation)) <= SHOWN
            assert split_action(step.action)[1] in step.observation


@pytest.mark.parametrize("name", COUNTS)
def test_other_styles_are_react_with_parts_removed(name):
    examples = examples_of(name)
    react, act, cot, standard = (spec_for(World(name), style).exemplars for style in STYLES)
    for example, *shown in zip(examples, react, act, cot, standard, strict=True):
        with_thoughts, acts, reasons, answers = (exemplar.steps for exemplar in shown)
        assert [step.thought for step in with_thoughts] == [step.thought for step in example.steps]
        assert [step.model_copy(update={"thought": ""}) for step in with_thoughts] == list(acts)
        assert [(step.thought, step.action) for step in reasons] == [
            (example.cot, f"Finish[{example.answer}]")
        ]
        assert [(step.thought, step.action) for step in answers] == [("", f"Finish[{example.answer}]")]


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_an_inner_monologue_tells_of_the_goal_and_not_of_what_was_found(name, example):
    shown = next(
        exemplar
        for exemplar in spec_for(World(name), "react_im").exemplars
        if exemplar.instruction == example.instruction
    )
    assert [step.thought for step in shown.steps] == [step.inner for step in example.steps]
    assert [step.action for step in shown.steps] == [step.action for step in example.steps]
    goals = {step.inner.split("; ")[0] for step in example.steps}
    assert len(goals) == 1
    words = {word for step in example.steps for word in re.findall(r"[A-Z]\w+|\d+", step.observation)}
    found = words - set(re.findall(r"\w+", example.instruction)) - {"The"}
    assert not any(word in found for step in example.steps for word in re.findall(r"\w+", step.inner))


@pytest.mark.parametrize("name", COUNTS)
def test_instructions_name_the_tools_where_there_are_any(name):
    instructions = {style: spec_for(World(name), style).instruction for style in STYLES}
    for tool in WIKI_TOOLS:
        assert [style for style in STYLES if f"{tool.name}[" in instructions[style]] == ["react", "act"]
    wanted = LABELS if name == "fever" else ("a name", "a date", "yes or no")
    assert all(word in instructions[style] for style in STYLES for word in wanted)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("renderer", [TextRenderer(), ChatRenderer()], ids=lambda found: found.name)
@pytest.mark.parametrize("name", COUNTS)
def test_every_turn_is_read_back_as_its_step(name, renderer, style):
    spec = spec_for(World(name), style)
    bare = replace(spec, exemplars=())
    for exemplar in spec.exemplars:
        task = Task(id="t", environment=name, split="dev", instruction=exemplar.instruction)
        for number, step in enumerate(exemplar.steps, 1):
            turn = written(renderer.training(bare, task, exemplar.steps[:number]))
            parsed = renderer.parse(spec, turn)
            assert (parsed.thought, parsed.action, parsed.flags) == (step.thought, step.action, ())


@pytest.mark.parametrize("style", ["react", "act"])
@pytest.mark.parametrize("name", COUNTS)
def test_every_tool_call_is_read_back_as_its_step(name, style):
    spec = replace(spec_for(World(name), style), tools=WIKI_TOOLS)
    renderer = ToolsRenderer()
    for exemplar in spec.exemplars:
        task = Task(id="t", environment=name, split="dev", instruction=exemplar.instruction)
        for number, step in enumerate(exemplar.steps, 1):
            row = renderer.training(replace(spec, exemplars=()), task, exemplar.steps[:number])
            parsed = renderer.parse(spec, write_turn(row.messages[-1]))
            assert (parsed.thought, parsed.action, parsed.flags) == (step.thought, step.action, ())


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", COUNTS)
def test_a_prompt_shows_exemplars_as_a_student_would_be_trained_on_them(name, style):
    spec = spec_for(World(name), style)
    other = Task(id="t", environment=name, split="dev", instruction="And this?")
    text = TextRenderer().prompt(spec, other, []).text
    messages = ChatRenderer().prompt(spec, other, []).messages
    for exemplar in spec.exemplars:
        task = other.model_copy(update={"instruction": exemplar.instruction})
        bare = replace(spec, exemplars=(), instruction="")
        assert TextRenderer().training(bare, task, exemplar.steps).text in text
        row = [
            (message.role, message.content)
            for message in ChatRenderer().training(bare, task, exemplar.steps).messages[1:]
        ]
        shown = [(message.role, message.content) for message in messages]
        start = shown.index(row[0])
        assert shown[start : start + len(row)] == row


@pytest.mark.model
@pytest.mark.parametrize(("name", "most"), [("hotpotqa", 1900), ("fever", 900)])
def test_the_longest_prompt_is_as_short_as_the_published_one(name, most):
    prompt = TextRenderer().prompt(spec_for(World(name), "react"), task_of(examples_of(name)[0]), [])
    assert len(smol().encode(prompt.text)) < most


@pytest.mark.parametrize("name", COUNTS)
def test_panels_leave_out_whatever_asks_the_same(name):
    asked = [f"  {example.instruction.upper()} " for example in examples_of(name)]
    tasks = [
        Task(id=str(index), environment=name, split="dev", instruction=text)
        for index, text in enumerate([*asked, "Something else?"])
    ]
    panel = draw_panel(tasks, PanelRecipe(split="dev"), exclude=exemplar_tasks(World(name)))
    assert [task.instruction for task in panel.tasks] == ["Something else?"]


def json_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("hotpotqa/dev_simplified.json", "question"),
        ("hotpotqa/distractor_300.jsonl", "question"),
        ("fever/paper_dev.jsonl", "claim"),
    ],
)
def test_no_exemplar_is_a_task_of_the_data_sets(path, key):
    if not (DATA / path).is_file():
        pytest.skip("no shared folder beside the repository")
    text = (DATA / path).read_text(encoding="utf-8")
    rows = json.loads(text) if path.endswith(".json") else json_lines(DATA / path)
    published = {normal_text(row[key]) for row in rows}
    assert len(published) > 250
    own = {normal_text(example.instruction) for name in COUNTS for example in examples_of(name)}
    assert not own & published
