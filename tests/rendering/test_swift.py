"""SWIFT's wire format: golden inputs composed by hand from the specification, and its laws."""

import random
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ContextLimitError, FormatError
from pipeline.rendering.swift import (
    QUESTION,
    clean,
    downsampled,
    opening_scene,
    swift_examples,
    swift_input,
)
from pipeline.rendering.swift_fit import fit, read_prompt
from pipeline.trajectories.schema import Outcome, Step, Task, Trajectory

END = f"  {QUESTION} </s> "
HOLDS = "In your inventory, you see:\n\tan orange\n"


def task(text, kind="4-4"):
    return Task(id="t", environment="scienceworld", split="train", kind=kind, instruction=text)


def step(action, observation, score, look, inventory=HOLDS):
    info = {"look": look, "inventory": inventory}
    return Step(action=action, observation=observation, score=score, info=info)


def episode(text, opening, steps, kind="4-4"):
    return Trajectory(
        id="e",
        task=task(text, kind),
        method="react",
        model="expert",
        opening=opening,
        steps=steps,
        outcome=Outcome.FINISHED,
    )


def room(name, things=""):
    return f"This room is called the {name}. In it, you see: \n\tthe agent{things}\n"


def shown(name, things=""):
    return f"This room is called the {name}. In it, you see:  | the agent{things} | "


ORANGE = "In your inventory, you see: | an orange | "


def test_find_animal():
    """Family 4: the score begins above zero, moves name rooms, outside is known by the move alone."""
    outside = "This outside location is called the outside. Here you see: \n\tthe agent\n\ta dove\n"
    steps = [
        step("open door to kitchen", "The door is already open.", 0.08333333333333333, room("hallway")),
        step("go to kitchen", "You move to the kitchen.", 0.16666666666666666, room("kitchen")),
        step("look around", room("kitchen"), 0.16666666666666666, room("kitchen")),
        step("go to outside", "You move to the outside.", 0.25, outside),
        step("focus on dove", "You focus on the dove.", 0.75, outside),
    ]
    made = swift_examples(episode("Find a(n) animal.", f"{room('hallway')}\n{HOLDS}", steps))
    out = "This outside location is called the outside. Here you see:  | the agent | a dove | "
    look = " <extra_id_10> look around (+0) --> N/A | "
    assert [(example.input, example.target, example.step) for example in made] == [
        (
            f"Find a(n) animal. </s> Time: 1; Score: 0; </s> Action history: </s>{look} </s> "
            f"Current environment: {shown('hallway')} </s> Current inventory: {ORANGE} </s> "
            "Visited rooms: hallway </s>  What action should you do next? </s> ",
            "go to kitchen",
            2,
        ),
        (
            f"Find a(n) animal. </s> Time: 2; Score: 16; </s> Action history: </s>{look}"
            " <extra_id_9> go to kitchen (+16) --> You move to the kitchen. |  </s> "
            f"Current environment: {shown('kitchen')} </s> Current inventory: {ORANGE} </s> "
            "Visited rooms: hallway, kitchen </s>  What action should you do next? </s> ",
            "go to outside",
            4,
        ),
        (
            f"Find a(n) animal. </s> Time: 3; Score: 25; </s> Action history: </s>{look}"
            " <extra_id_9> go to kitchen (+16) --> You move to the kitchen. | "
            " <extra_id_8> go to outside (+8) --> You move to the outside. |  </s> "
            f"Current environment: {out} </s> Current inventory: {ORANGE} </s> "
            "Visited rooms: hallway, kitchen, outside </s>  What action should you do next? </s> ",
            "focus on dove",
            5,
        ),
    ]


def test_boil_closed_doors_leave_what_they_changed():
    """Family 1: the look before the next action is the one behind the closed door, which is not shown."""
    opened = room("kitchen", "\n\ta stove\nYou also see:\n\tA door to the hallway (that is open)")
    closed = room("kitchen", "\n\ta stove\nYou also see:\n\tA door to the hallway (that is closed)")
    steps = [
        step("teleport to kitchen", "You teleport to the kitchen.", 0.0, opened),
        step("close door to hallway", "The door is now closed.", 0.0, closed),
        step("activate stove", "The stove is now activated.", 0.03333333333333333, closed),
        step("wait1", "You decide to wait for 1 iterations.", 0.7666666666666666, closed),
    ]
    text = "Your task is to boil water."
    first, second = swift_examples(episode(text, f"{room('hallway')}\n{HOLDS}", steps, "1-1"))
    kitchen = (
        "This room is called the kitchen. In it, you see:  | the agent | a stove | You also see: | "
        "A door to the hallway (that is closed) | "
    )
    assert first.input == (
        f"{text} </s> Time: 1; Score: 0; </s> Action history: </s> <extra_id_10> look around (+0) --> N/A | "
        f" </s> Current environment: {kitchen} </s> Current inventory: {ORANGE} </s> "
        "Visited rooms: kitchen </s>  What action should you do next? </s> "
    )
    assert second.input == (
        f"{text} </s> Time: 2; Score: 3; </s> Action history: </s> <extra_id_10> look around (+0) --> N/A | "
        " <extra_id_9> activate stove (+3) --> The stove is now activated. | "
        f" </s> Current environment: {kitchen} </s> Current inventory: {ORANGE} </s> "
        "Visited rooms: kitchen </s>  What action should you do next? </s> "
    )
    assert (first.target, second.target) == ("activate stove", "wait1")
    assert (first.step, second.step) == (3, 4)


def test_grow_plant_cleaning_and_the_first_points():
    """Family 5: points of the first action fall to the next; green house is one word; marks are deleted."""
    things = "\n\ta pot (containing nothing)\n\ta door (that is open)\n"
    house = f"This room is called the green house. In it, you see: {things}"
    held = "In your inventory, you see:\n\ta seed\n"
    steps = [
        step("pick up seed", "You move the seed to the inventory.", 0.29, house, held),
        step("move seed to pot", "You move the seed to the pot.", 0.3, house),
        step("focus on green house", "Done.\n\tYes.", 1.0, house),
    ]
    first, second = swift_examples(episode("Grow it.", f"{house}\n{HOLDS}", steps, "5-1"))
    pots = "This room is called the greenhouse. In it, you see:  | a pot  | a door  | "
    # What was picked up reads as a move "to the …" only where the words are "move to the".
    assert first.input == (
        "Grow it. </s> Time: 1; Score: 0; </s> Action history: </s> <extra_id_10> look around (+0) --> N/A | "
        f" </s> Current environment: {pots} </s> "
        "Current inventory: In your inventory, you see: | a seed |  </s> "
        "Visited rooms: greenhouse </s>  What action should you do next? </s> "
    )
    assert " <extra_id_9> move seed to pot (+30) --> You move the seed to the pot. |  </s>" in second.input
    assert "Score: 30;" in second.input
    assert second.target == "focus on greenhouse"


def test_numbers_are_cut_not_rounded():
    steps = [
        step("a", "o", 0.0, "l"),
        step("b", "o", 0.29, "l"),
        step("c", "o", -1.0, "l"),
        step("d", "o", 0.0, "l"),
    ]
    made = swift_examples(episode("T", "l", steps))
    assert "Score: 28; " in made[1].input and "b (+28)" in made[1].input
    assert "Score: -100; " in made[2].input and "c (+-129)" in made[2].input


def test_short_paths_and_the_kept_first_action():
    steps = [
        step("look around", "o", 0.0, "l"),
        step("close door to x", "o", 0.0, "l"),
        step("wait", "o", 0.0, "l"),
    ]
    assert swift_examples(episode("T", "l", steps)) == []
    two = [step("wait", "o", 0.0, "l"), step("wait1", "o", 0.0, "l")]
    assert [example.target for example in swift_examples(episode("T", "l", two))] == ["wait1"]
    kept = swift_examples(episode("T", "l", two), skip_first=False)
    assert [(example.target, example.step) for example in kept] == [("wait", 1), ("wait1", 2)]
    assert kept[1].input == swift_input(task("T"), "l", two[:1])


def test_formal_actions():
    steps = [
        step("wait1", "o", 0.0, "l"),
        step("pour cup in jug", "o", 0.0, "l"),
        step("open door to hallway", "o", 0.0, "l"),
    ]
    [one, two] = swift_examples(episode("T", "l", steps), actions="formal")
    assert (one.target, two.target) == ("POUR(cup, jug)", "OPEN_DOOR(hallway)")
    assert "<extra_id_10> SEE() (+0)" in two.input and "<extra_id_9> POUR(cup, jug) (+0)" in two.input


def test_opening_parts_at_the_inventory():
    scene = opening_scene(f"{room('foundry')}\n{HOLDS}")
    assert (scene.look, scene.inventory) == (room("foundry"), HOLDS)
    assert opening_scene("no list").look == "no list"


# A slow reference, written from the specification alone: whole-text cleaning, indices, no shared code.

TEXTS = st.sampled_from(
    [
        "You move to the kitchen.",
        "This room is called the hallway. In it:\n\tair\n",
        "green house (that is open)",
        "a cup (containing nothing)\n\tx\ty",
        "The door is already open.",
        "",
    ]
)
ACTIONS = st.sampled_from(
    ["wait", "look around", "close door to hallway", "focus on green house", "go to kitchen"]
)
SCORES = st.sampled_from([0.0, 0.03333333333333333, 0.29, 0.7666666666666666, 1.0, -1.0])
STEPS = st.lists(st.builds(step, ACTIONS, TEXTS, SCORES, TEXTS, TEXTS), max_size=25)


def reference(text, opening_look, opening_inventory, steps, history):
    before = [(opening_look, opening_inventory)] + [(s.info["look"], s.info["inventory"]) for s in steps]
    rows = [
        {
            "a": s.action,
            "o": s.observation,
            "s": s.score,
            "look": before[n][0],
            "inv": before[n][1],
            "n": n + 1,
        }
        for n, s in enumerate(steps)
        if s.action != "look around" and s.action[:10] != "close door"
    ]
    made = []
    for i in range(1, len(rows)):
        if len(rows) < 2:
            break
        lines = [("look around", 0, "N/A")]
        score = 0
        for row in rows[1:i]:
            lines.append((row["a"], row["s"] - score, row["o"]))
            score = row["s"]
        rooms = []
        for k in range(1, i + 1):
            said = rows[k - 1]["o"]
            if "move to the" in said:
                rooms.append(said[said.index("move to the") + 12 : -1].strip())
            look = rows[k]["look"]
            if "This room is called the" in look:
                rooms.append(look[look.index("This room is called the") + 24 : look.find(".")])
        rooms = sorted(set(rooms), key=rooms.index)
        whole = f"{text} </s> Time: {i}; Score: {int(score * 100)}; </s> Action history: </s>"
        for place, (a, r, o) in enumerate(lines[max(0, len(lines) - history) :]):
            whole += f" <extra_id_{history - place}> {a} (+{int(r * 100)}) --> {o} | "
        whole += (
            f" </s> Current environment: {rows[i]['look']} </s> Current inventory: {rows[i]['inv']} </s> "
        )
        if rooms:
            whole += "Visited rooms: " + ", ".join(rooms) + " </s> "
        whole += " What action should you do next? </s> "
        for old, new in (
            ("\n\t", " | "),
            ("\n", " | "),
            ("\t", " | "),
            ("green house", "greenhouse"),
            ("(that is open)", ""),
            ("(containing nothing)", ""),
        ):
            whole = whole.replace(old, new)
        made.append((whole, rows[i]["a"].replace("green house", "greenhouse"), rows[i]["n"]))
    return made


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, history=st.integers(1, 12), look=TEXTS)
def test_as_the_reference_says(steps, history, look):
    made = swift_examples(episode("A\ttask", f"{look}\n{HOLDS}", steps), history)
    wanted = reference("A\ttask", look, HOLDS, steps, history)
    assert [(example.input, example.target, example.step) for example in made] == wanted


@settings(max_examples=40, deadline=None)
@given(steps=STEPS, history=st.integers(1, 12))
def test_serving_is_training_from_behind_the_first_action(steps, history):
    steps = [one for one in steps if one.action not in ("look around", "close door to hallway")]
    made = swift_examples(episode("T", f"l\n{HOLDS}", steps), history)
    for example in made:
        first = steps[0]
        opening = f"{first.info['look']}\n{HOLDS}"
        served = swift_input(task("T"), opening, steps[1 : example.step - 1], history)
        served, trained = read_prompt(served), read_prompt(example.input)
        assert (served.time, served.score, served.entries) == (trained.time, trained.score, trained.entries)
        if example.step > 2:
            assert (served.look, served.inventory) == (trained.look, trained.inventory)


HOSTILE = st.text(st.sampled_from("</s>extra_id_3pad |\n\t.:;()-\uff1c\ufe64\u200b\x01\ud800"), max_size=40)


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(HOSTILE, min_size=4, max_size=4), more=HOSTILE, count=st.integers(0, 12))
def test_no_text_can_become_a_control_token(texts, more, count):
    action, observation, look, inventory = texts
    steps = [step(action, observation, 0.5, look, inventory)] * count
    text = swift_input(task(more), f"{look}\n{HOLDS}", steps)
    flat = unicodedata.normalize("NFKC", text)
    assert flat.count("</s>") == text.count("</s>") in (7, 8)
    assert flat.count("<extra_id_") == min(count + 1, 10)
    assert "<pad>" not in flat
    assert text.endswith(END)
    assert read_prompt(text).text == text


def test_every_letter_that_normalises_to_an_opening_bracket_is_broken():
    openings = [chr(code) for code in range(0x110000) if "<" in unicodedata.normalize("NFKC", chr(code))]
    assert len(openings) >= 3
    for letter in openings:
        assert "</s>" not in unicodedata.normalize("NFKC", clean(f"{letter}/s>"))
    assert clean("a < b") == "a < b"


def words(text):
    return len(text.split(" "))


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, budget=st.integers(45, 200))
def test_what_fits_keeps_the_newest_the_task_and_the_question(steps, budget):
    text = swift_input(task("Boil all the water."), f"l\n{HOLDS}", steps)
    fitted = fit(text, words, budget)
    assert words(fitted.text) <= budget
    assert fitted.text.startswith("Boil all the water. </s> ") and fitted.text.endswith(END)
    whole, cut = read_prompt(text), read_prompt(fitted.text)
    assert len(cut.entries) == len(whole.entries) - fitted.entries >= 1
    assert whole.look.startswith(cut.look) and whole.inventory.startswith(cut.inventory)
    if cut.inventory != whole.inventory:
        assert cut.look == "" and len(cut.entries) == 1
    if cut.look != whole.look:
        assert len(cut.entries) == 1
    if cut.entries != whole.entries[fitted.entries :]:
        assert (cut.look, cut.inventory, cut.rooms) == ("", "", "")
    if words(text) <= budget:
        assert fitted.text == text and not fitted.entries and not fitted.characters


def test_one_endless_observation_is_cut_last():
    steps = [step("wait", "word " * 500, 0.0, room("foundry"))]
    fitted = fit(swift_input(task("T"), "l", steps), words, 60)
    cut = read_prompt(fitted.text)
    assert cut.entries[0].startswith("wait (+0) --> word word") and (cut.look, cut.inventory) == ("", "")
    assert fitted.entries == 1 and fitted.characters > 2000


def test_refusals():
    with pytest.raises(ContextLimitError, match="task and the question"):
        fit(swift_input(task("T"), "l", []), words, 5)
    with pytest.raises(FormatError, match="not an input"):
        fit("something else", words, 1)


def test_downsampling():
    def drawn(count, keep):
        numbers = list(range(count))
        random.seed(1)
        random.shuffle(numbers)
        return numbers[:keep]

    assert downsampled("9-2", range(1386)) == drawn(1386, 50)
    assert downsampled("10-1", range(120)) == drawn(120, 50)
    assert downsampled("3-3", range(900)) == drawn(900, 100)
    assert downsampled("3-4", range(600)) == list(range(600))
    assert downsampled("1-1", range(30)) == list(range(30))
