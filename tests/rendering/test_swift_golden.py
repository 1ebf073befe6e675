"""SWIFT's wire format by hand: golden inputs for each of ScienceWorld's ten task families.

Every expected text was composed from the specification, as one literal, before the code was asked. Facts
(actions, observations, scores) are modelled on gold runs; rooms are shortened. Every episode begins in a
cellar: a room that the first action leaves is not to be seen.
"""

from pipeline.rendering.swift import swift_examples, swift_input
from tests.rendering.test_swift import HOLDS, episode, step, task

CELLAR = "This room is called the cellar. In it, you see: \n\tthe agent\n"
OUTSIDE = (
    "This outside location is called the outside. Here you see: \n\tthe agent\n\ta dove egg\n"
    "\ta fire pit (containing nothing)\nYou also see:\n\tA door to the kitchen (that is open)\n"
)
WAITED = "You decide to wait for 1 iterations."


def made(kind, text, *steps):
    """The examples of an episode that begins in the cellar, by the number of the step that is the target."""
    examples = swift_examples(episode(text, f"{CELLAR}\n{HOLDS}", list(steps), kind))
    return {example.step: (example.target, example.input) for example in examples}


def test_1_boil_scores_and_rewards_are_cut_each_by_itself():
    """3 + 33 + 6 + 33 is 75, the score is 76 (0.7667); open doors and empty cups lose their marks."""
    bathroom = (
        "This room is called the bathroom. In it, you see: \n\tthe agent\n"
        "\ta glass cup (containing nothing)\nYou also see:\n\tA door to the kitchen (that is open)\n"
    )
    foundry = (
        "This room is called the foundry. In it, you see: \n\tthe agent\n\ta blast furnace\n"
        "You also see:\n\tA door to the outside (that is open)\n"
    )
    pot = "In your inventory, you see:\n\ta metal pot (containing nothing)\n\tan orange\n"
    got = made(
        "1-1",
        "Your task is to boil lead.",
        step("look around", bathroom, 0.0, bathroom),
        step("open door to kitchen", "The door is already open.", 0.0, bathroom, pot),
        step("go to foundry", "You move to the foundry.", 0.03333333333333333, foundry, pot),
        step("focus on lead", "You focus on the lead.", 0.36666666666666664, foundry, pot),
        step("activate blast furnace", "The blast furnace is now activated.", 0.4333333333333333, foundry),
        step("examine lead", "a substance called lead", 0.7666666666666666, foundry),
        step("wait1", WAITED, 0.7666666666666666, foundry),
    )
    assert list(got) == [3, 4, 5, 6, 7]
    assert got[3] == (
        "go to foundry",
        "Your task is to boil lead. </s> Time: 1; Score: 0; </s> Action history: </s> <extra_id_10> look "
        "around (+0) --> N/A |  </s> Current environment: This room is called the bathroom. In it, you see:  "
        "| the agent | a glass cup  | You also see: | A door to the kitchen  |  </s> Current inventory: In "
        "your inventory, you see: | a metal pot  | an orange |  </s> Visited rooms: bathroom </s>  What "
        "action should you do next? </s> ",
    )
    assert got[7] == (
        "wait1",
        "Your task is to boil lead. </s> Time: 5; Score: 76; </s> Action history: </s> <extra_id_10> look "
        "around (+0) --> N/A |  <extra_id_9> go to foundry (+3) --> You move to the foundry. |  <extra_id_8> "
        "focus on lead (+33) --> You focus on the lead. |  <extra_id_7> activate blast furnace (+6) --> The "
        "blast furnace is now activated. |  <extra_id_6> examine lead (+33) --> a substance called lead |  "
        "</s> Current environment: This room is called the foundry. In it, you see:  | the agent | a blast "
        "furnace | You also see: | A door to the outside  |  </s> Current inventory: In your inventory, you "
        "see: | an orange |  </s> Visited rooms: bathroom, foundry </s>  What action should you do next? "
        "</s> ",
    )


def test_1_freeze_a_closed_door_goes_a_closed_freezer_stays():
    """`close door to` is left out and its door is seen closed; `close freezer` is a step like others."""
    kitchen = "This room is called the kitchen. In it, you see: \n\tthe agent\n\ta freezer\nYou also see:\n"
    ajar, shut = f"{kitchen}\tA door (that is open)\n", f"{kitchen}\tA door (that is closed)\n"
    got = made(
        "1-3",
        "Your task is to freeze lead.",
        step("open freezer", "The freezer is now open.", 0.0, ajar),
        step("move metal pot to freezer", "You move the metal pot to the freezer.", 0.1, ajar),
        step("close freezer", "The freezer is now closed.", 0.1, ajar),
        step("close door to hallway", "The door is now closed.", 0.1, shut),
        step("wait", "You decide to wait for 10 iterations.", 0.43333333333333335, shut),
    )
    assert list(got) == [2, 3, 5]
    assert got[3] == (
        "close freezer",
        "Your task is to freeze lead. </s> Time: 2; Score: 10; </s> Action history: </s> <extra_id_10> look "
        "around (+0) --> N/A |  <extra_id_9> move metal pot to freezer (+10) --> You move the metal pot to "
        "the freezer. |  </s> Current environment: This room is called the kitchen. In it, you see:  | the "
        "agent | a freezer | You also see: | A door  |  </s> Current inventory: In your inventory, you see: "
        "| an orange |  </s> Visited rooms: kitchen </s>  What action should you do next? </s> ",
    )
    assert got[5] == (
        "wait",
        "Your task is to freeze lead. </s> Time: 3; Score: 10; </s> Action history: </s> <extra_id_10> look "
        "around (+0) --> N/A |  <extra_id_9> move metal pot to freezer (+10) --> You move the metal pot to "
        "the freezer. |  <extra_id_8> close freezer (+0) --> The freezer is now closed. |  </s> Current "
        "environment: This room is called the kitchen. In it, you see:  | the agent | a freezer | You also "
        "see: | A door (that is closed) |  </s> Current inventory: In your inventory, you see: | an orange "
        "|  </s> Visited rooms: kitchen </s>  What action should you do next? </s> ",
    )


def test_2_measuring_an_unknown_substance_and_a_fall():
    """Sixteenths of points are cut; a wrong focus takes 0.4271 to -1: -142.7 is cut to -142, shown +-142."""
    hall = "This room is called the hallway. In it, you see: \n\tthe agent\n"
    bathroom = (
        "This room is called the bathroom. In it, you see: \n\tthe agent\n"
        "\ta purple box (containing nothing)\n\tunknown substance B\n"
    )
    reading = f"{HOLDS}\ta thermometer, currently reading a temperature of 10 degrees celsius\n"
    got = made(
        "2-1",
        "Measure unknown substance B.",
        step("open door to bathroom", "The door is already open.", 0.0, hall),
        step("go to bathroom", "You move to the bathroom.", 0.0625, bathroom),
        step("pick up thermometer", "You move the thermometer to the inventory.", 0.09375, bathroom, reading),
        step(
            "focus on thermometer in inventory",
            "You focus on the thermometer.",
            0.4270833333333333,
            bathroom,
            reading,
        ),
        step("focus on purple box", "You focus on the purple box.", -1.0, bathroom, reading),
        step(
            "focus on unknown substance B", "You focus on the unknown substance B.", -1.0, bathroom, reading
        ),
    )
    assert list(got) == [2, 3, 4, 5, 6]
    assert got[4] == (
        "focus on thermometer in inventory",
        "Measure unknown substance B. </s> Time: 3; Score: 9; </s> Action history: </s> <extra_id_10> look "
        "around (+0) --> N/A |  <extra_id_9> go to bathroom (+6) --> You move to the bathroom. |  "
        "<extra_id_8> pick up thermometer (+3) --> You move the thermometer to the inventory. |  </s> "
        "Current environment: This room is called the bathroom. In it, you see:  | the agent | a purple box  "
        "| unknown substance B |  </s> Current inventory: In your inventory, you see: | an orange | a "
        "thermometer, currently reading a temperature of 10 degrees celsius |  </s> Visited rooms: hallway, "
        "bathroom </s>  What action should you do next? </s> ",
    )
    assert got[6] == (
        "focus on unknown substance B",
        "Measure unknown substance B. </s> Time: 5; Score: -100; </s> Action history: </s> <extra_id_10> "
        "look around (+0) --> N/A |  <extra_id_9> go to bathroom (+6) --> You move to the bathroom. |  "
        "<extra_id_8> pick up thermometer (+3) --> You move the thermometer to the inventory. |  "
        "<extra_id_7> focus on thermometer in inventory (+33) --> You focus on the thermometer. |  "
        "<extra_id_6> focus on purple box (+-142) --> You focus on the purple box. |  </s> "
        "Current environment: This room is called the bathroom. In it, you see:  | the agent | a purple box  "
        "| unknown substance B |  </s> Current inventory: In your inventory, you see: | an orange | a "
        "thermometer, currently reading a temperature of 10 degrees celsius |  </s> Visited rooms: hallway, "
        "bathroom </s>  What action should you do next? </s> ",
    )


def test_3_conductivity_of_an_unknown_substance():
    """Points from before (0.0952) fall to the first focus shown; a reply in brackets stays as it is."""
    workshop = (
        "This room is called the workshop. In it, you see: \n\tthe agent\n"
        "\ta green box (containing nothing)\n"
    )
    there = f"{workshop}\tunknown substance U\n"
    unknown = f"{HOLDS}\tunknown substance U\n"
    got = made(
        "3-4",
        "Is unknown substance U conductive?",
        step(
            "pick up unknown substance",
            "You move the unknown substance U to the inventory.",
            0.09523809523809523,
            workshop,
            unknown,
        ),
        step(
            "focus on unknown substance",
            "You focus on the unknown substance U.",
            0.5952380952380952,
            workshop,
            unknown,
        ),
        step("look around", workshop, 0.5952380952380952, workshop, unknown),
        step(
            "drop unknown substance",
            "You move the unknown substance U to the workshop.",
            0.5952380952380952,
            there,
        ),
        step(
            "move unknown substance U to green box",
            "(disconnecting unknown substance U)You move the unknown substance U to the green box.",
            1.0,
            workshop,
        ),
        step("wait1", WAITED, 1.0, workshop),
    )
    assert list(got) == [2, 4, 5, 6]
    assert got[2] == (
        "focus on unknown substance",
        "Is unknown substance U conductive? </s> Time: 1; Score: 0; </s> Action history: </s> <extra_id_10> "
        "look around (+0) --> N/A |  </s> Current environment: This room is called the workshop. In it, you "
        "see:  | the agent | a green box  |  </s> Current inventory: In your inventory, you see: | an orange "
        "| unknown substance U |  </s> Visited rooms: workshop </s>  What action should you do next? </s> ",
    )
    assert got[6] == (
        "wait1",
        "Is unknown substance U conductive? </s> Time: 4; Score: 100; </s> Action history: </s> "
        "<extra_id_10> look around (+0) --> N/A |  <extra_id_9> focus on unknown substance (+59) --> You "
        "focus on the unknown substance U. |  <extra_id_8> drop unknown substance (+0) --> You move the "
        "unknown substance U to the workshop. |  <extra_id_7> move unknown substance U to green box (+40) "
        "--> (disconnecting unknown substance U)You move the unknown substance U to the green box. |  </s> "
        "Current environment: This room is called the workshop. In it, you see:  | the agent | a green box  "
        "|  </s> Current inventory: In your inventory, you see: | an orange |  </s> Visited rooms: workshop "
        "</s>  What action should you do next? </s> ",
    )


def test_3_power_when_served_hides_nothing():
    """In serving, the first action, `look around` and `close door` are history, the first room is visited."""
    workshop = (
        "This room is called the workshop. In it, you see: \n\ta battery\n\ta electric motor, which is off\n"
    )
    steps = [
        step("go to workshop", "You move to the workshop.", 0.06666666666666667, workshop),
        step("close door to hallway", "The door is now closed.", 0.06666666666666667, workshop),
        step("look around", workshop, 0.06666666666666667, workshop),
        step("focus on electric motor", "You focus on the electric motor.", 0.5666666666666667, workshop),
        step(
            "connect battery anode to black wire terminal 1",
            "anode on battery is now connected to terminal 1 on black wire",
            0.7,
            workshop,
        ),
    ]
    served = swift_input(task("Turn on the electric motor.", "3-1"), f"{CELLAR}\n{HOLDS}", steps)
    assert served == (
        "Turn on the electric motor. </s> Time: 6; Score: 70; </s> Action history: </s> <extra_id_10> look "
        "around (+0) --> N/A |  <extra_id_9> go to workshop (+6) --> You move to the workshop. |  "
        "<extra_id_8> close door to hallway (+0) --> The door is now closed. |  <extra_id_7> look around "
        "(+0) --> This room is called the workshop. In it, you see:  | a battery | a electric motor, which "
        "is off |  |  <extra_id_6> focus on electric motor (+50) --> You focus on the electric motor. |  "
        "<extra_id_5> connect battery anode to black wire terminal 1 (+13) --> anode on battery is now "
        "connected to terminal 1 on black wire |  </s> Current environment: This room is called the "
        "workshop. In it, you see:  | a battery | a electric motor, which is off |  </s> Current inventory: "
        "In your inventory, you see: | an orange |  </s> Visited rooms: cellar, workshop </s>  What action "
        "should you do next? </s> "
    )


def test_4_find_plant_in_the_green_house():
    """`green house` is one word in action, reply, look and rooms; what holds something keeps its brackets."""
    hall = (
        "This room is called the hallway. In it, you see: \n\tthe agent\n"
        "You also see:\n\tA door to the green house (that is open)\n"
    )
    house = (
        "This room is called the green house. In it, you see: \n\tthe agent\n\ta jug (containing nothing)\n"
        "\ta flower pot 3 (containing a peach tree in the reproducing stage, soil)\n"
    )
    got = made(
        "4-3",
        "Your task is to find a(n) plant.",
        step("go to hallway", "You move to the hallway.", 0.08333333333333333, hall),
        step("go to green house", "You move to the green house.", 0.16666666666666666, house),
        step("look around", house, 0.16666666666666666, house),
        step("focus on adult peach tree", "You focus on the peach tree.", 0.6666666666666666, house),
        step("pick up flower pot 3", "You move the flower pot 3 to the inventory.", 0.75, house),
    )
    assert list(got) == [2, 4, 5]
    assert got[2] == (
        "go to greenhouse",
        "Your task is to find a(n) plant. </s> Time: 1; Score: 0; </s> Action history: </s> <extra_id_10> "
        "look around (+0) --> N/A |  </s> Current environment: This room is called the hallway. In it, you "
        "see:  | the agent | You also see: | A door to the greenhouse  |  </s> Current inventory: In your "
        "inventory, you see: | an orange |  </s> Visited rooms: hallway </s>  What action should you do "
        "next? </s> ",
    )
    assert got[5] == (
        "pick up flower pot 3",
        "Your task is to find a(n) plant. </s> Time: 3; Score: 66; </s> Action history: </s> <extra_id_10> "
        "look around (+0) --> N/A |  <extra_id_9> go to greenhouse (+16) --> You move to the greenhouse. |  "
        "<extra_id_8> focus on adult peach tree (+50) --> You focus on the peach tree. |  </s> Current "
        "environment: This room is called the greenhouse. In it, you see:  | the agent | a jug  | a flower "
        "pot 3 (containing a peach tree in the reproducing stage, soil) |  </s> Current inventory: In your "
        "inventory, you see: | an orange |  </s> Visited rooms: hallway, greenhouse </s>  What action should "
        "you do next? </s> ",
    )


def test_4_find_animal_outside_is_a_room_by_the_move_alone():
    """Teleported outside, no room is named and the section is left out; a move outside names it."""
    kitchen = "This room is called the kitchen. In it, you see: \n\tthe agent\n"
    got = made(
        "4-4",
        "Your task is to find a(n) animal.",
        step("teleport to outside", "You teleport to the outside.", 0.08333333333333333, OUTSIDE),
        step("go to kitchen", "You move to the kitchen.", 0.08333333333333333, kitchen),
        step("go to outside", "You move to the outside.", 0.25, OUTSIDE),
        step("focus on dove egg", "You focus on the dove egg.", 0.75, OUTSIDE),
    )
    assert list(got) == [2, 3, 4]
    assert got[2] == (
        "go to kitchen",
        "Your task is to find a(n) animal. </s> Time: 1; Score: 0; </s> Action history: </s> <extra_id_10> "
        "look around (+0) --> N/A |  </s> Current environment: This outside location is called the outside. "
        "Here you see:  | the agent | a dove egg | a fire pit  | You also see: | A door to the kitchen  |  "
        "</s> Current inventory: In your inventory, you see: | an orange |  </s>  What action should you do "
        "next? </s> ",
    )
    assert got[4] == (
        "focus on dove egg",
        "Your task is to find a(n) animal. </s> Time: 3; Score: 25; </s> Action history: </s> <extra_id_10> "
        "look around (+0) --> N/A |  <extra_id_9> go to kitchen (+8) --> You move to the kitchen. |  "
        "<extra_id_8> go to outside (+16) --> You move to the outside. |  </s> Current environment: This "
        "outside location is called the outside. Here you see:  | the agent | a dove egg | a fire pit  | You "
        "also see: | A door to the kitchen  |  </s> Current inventory: In your inventory, you see: | an "
        "orange |  </s> Visited rooms: kitchen, outside </s>  What action should you do next? </s> ",
    )


def test_5_grow_plant_an_ambiguous_request_is_answered_in_a_step_of_its_own():
    """The question's list is one line; `0` is a target and an action of the history like any other."""
    house = (
        "This room is called the greenhouse. In it, you see: \n\tthe agent\n"
        "\ta flower pot 1 (containing soil)\n"
    )
    jar = f"{HOLDS}\ta seed jar (containing a orange seed, a orange seed)\n"
    asked = (
        "Ambiguous request: Please enter the number for the action you intended (or blank to cancel):\n"
        "0:\tmove orange seed (in seed jar) to flower pot 1 (in green house)\n"
        "1:\tmove orange seed (in seed jar) to flower pot 1 (in green house)\n"
    )
    got = made(
        "5-1",
        "Your task is to grow a orange plant from seed.",
        step("open door to hallway", "The door is already open.", 0.12941176470588234, house, jar),
        step("move orange seed in seed jar to flower pot 1", asked, 0.1411764705882353, house, jar),
        step("0", "You move the orange seed to the flower pot 1.", 0.15294117647058825, house, jar),
        step("wait1", WAITED, 0.15294117647058825, house, jar),
    )
    assert list(got) == [2, 3, 4]
    assert got[3] == (
        "0",
        "Your task is to grow a orange plant from seed. </s> Time: 2; Score: 14; </s> Action history: </s> "
        "<extra_id_10> look around (+0) --> N/A |  <extra_id_9> move orange seed in seed jar to flower pot 1 "
        "(+14) --> Ambiguous request: Please enter the number for the action you intended (or blank to "
        "cancel): | 0: | move orange seed (in seed jar) to flower pot 1 (in greenhouse) | 1: | move orange "
        "seed (in seed jar) to flower pot 1 (in greenhouse) |  |  </s> Current environment: This room is "
        "called the greenhouse. In it, you see:  | the agent | a flower pot 1 (containing soil) |  </s> "
        "Current inventory: In your inventory, you see: | an orange | a seed jar (containing a orange seed, "
        "a orange seed) |  </s> Visited rooms: greenhouse </s>  What action should you do next? </s> ",
    )
    assert got[4] == (
        "wait1",
        "Your task is to grow a orange plant from seed. </s> Time: 3; Score: 15; </s> Action history: </s> "
        "<extra_id_10> look around (+0) --> N/A |  <extra_id_9> move orange seed in seed jar to flower pot 1 "
        "(+14) --> Ambiguous request: Please enter the number for the action you intended (or blank to "
        "cancel): | 0: | move orange seed (in seed jar) to flower pot 1 (in greenhouse) | 1: | move orange "
        "seed (in seed jar) to flower pot 1 (in greenhouse) |  |  <extra_id_8> 0 (+1) --> You move the "
        "orange seed to the flower pot 1. |  </s> Current environment: This room is called the greenhouse. "
        "In it, you see:  | the agent | a flower pot 1 (containing soil) |  </s> Current inventory: In your "
        "inventory, you see: | an orange | a seed jar (containing a orange seed, a orange seed) |  </s> "
        "Visited rooms: greenhouse </s>  What action should you do next? </s> ",
    )


def test_5_grow_fruit_tabs_and_line_breaks_become_bars():
    """One bar for a break with its tab, one for each tab more; a look around shows what waiting grew."""
    young = "This room is called the greenhouse. In it, you see: \n\tan orange tree:\n\t\ta blossom\tpollen\n"
    grown = "This room is called the greenhouse. In it, you see: \n\tan orange tree:\n\t\tan orange\n\n"
    got = made(
        "5-2",
        "Your task is to grow a orange.",
        step("activate sink", "The sink is now activated.", 0.0, young),
        step("deactivate sink", "The sink is now deactivated.", 0.46428571428571414, young),
        step("wait1", WAITED, 0.46428571428571414, young),
        step("look around", grown, 0.46428571428571414, grown),
        step("focus on orange on orange tree", "You focus on the orange.", 1.0, grown),
        step("wait1", WAITED, 1.0, grown),
    )
    assert list(got) == [2, 3, 5, 6]
    assert got[3] == (
        "wait1",
        "Your task is to grow a orange. </s> Time: 2; Score: 46; </s> Action history: </s> <extra_id_10> "
        "look around (+0) --> N/A |  <extra_id_9> deactivate sink (+46) --> The sink is now deactivated. |  "
        "</s> Current environment: This room is called the greenhouse. In it, you see:  | an orange "
        "tree: |  | a blossom | pollen |  </s> Current inventory: In your inventory, you see: | an orange |  "
        "</s> Visited rooms: greenhouse </s>  What action should you do next? </s> ",
    )
    assert got[5] == (
        "focus on orange on orange tree",
        "Your task is to grow a orange. </s> Time: 3; Score: 46; </s> Action history: </s> <extra_id_10> "
        "look around (+0) --> N/A |  <extra_id_9> deactivate sink (+46) --> The sink is now deactivated. |  "
        "<extra_id_8> wait1 (+0) --> You decide to wait for 1 iterations. |  </s> Current environment: This "
        "room is called the greenhouse. In it, you see:  | an orange tree: |  | an orange |  |  </s> Current "
        "inventory: In your inventory, you see: | an orange |  </s> Visited rooms: greenhouse </s>  What "
        "action should you do next? </s> ",
    )


def test_6_mix_paint_a_tenth_less_a_rounding_error():
    """0.3 to 0.4 is 9.99… points, cut to 9 while the score reads 40; an empty cup's name stays in actions."""
    studio = "This room is called the art studio. In it, you see: \n\ta wood cup (containing nothing)\n"
    filled = "This room is called the art studio. In it, you see: \n\ta wood cup (containing violet paint)\n"
    got = made(
        "6-2",
        "Your task is to create violet paint.",
        step("look around", studio, 0.2, studio),
        step("open cupboard", "The cupboard is now open.", 0.2, studio),
        step(
            "pour cup containing red paint in cup containing nothing",
            "You pour the contents of the wood cup into the glass cup.",
            0.30000000000000004,
            studio,
        ),
        step(
            "mix cup containing blue paint and red paint",
            "Red and blue paint mix to produce violet paint.",
            0.4,
            filled,
        ),
        step("focus on violet paint", "You focus on the violet paint.", 1.0, filled),
    )
    assert list(got) == [3, 4, 5]
    assert got[3] == (
        "pour cup containing red paint in cup containing nothing",
        "Your task is to create violet paint. </s> Time: 1; Score: 0; </s> Action history: </s> "
        "<extra_id_10> look around (+0) --> N/A |  </s> Current environment: This room is called the art "
        "studio. In it, you see:  | a wood cup  |  </s> Current inventory: In your inventory, you see: | an "
        "orange |  </s> Visited rooms: art studio </s>  What action should you do next? </s> ",
    )
    assert got[5] == (
        "focus on violet paint",
        "Your task is to create violet paint. </s> Time: 3; Score: 40; </s> Action history: </s> "
        "<extra_id_10> look around (+0) --> N/A |  <extra_id_9> pour cup containing red paint in cup "
        "containing nothing (+30) --> You pour the contents of the wood cup into the glass cup. |  "
        "<extra_id_8> mix cup containing blue paint and red paint (+9) --> Red and blue paint mix to produce "
        "violet paint. |  </s> Current environment: This room is called the art studio. In it, you see:  | a "
        "wood cup (containing violet paint) |  </s> Current inventory: In your inventory, you see: | an "
        "orange |  </s> Visited rooms: art studio </s>  What action should you do next? </s> ",
    )


def test_6_chemistry_a_half_that_is_not_quite():
    """0.49999… reads 49; a recipe of two lines is one; the mark in what is held is deleted."""
    kitchen = "This room is called the kitchen. In it, you see: \n\tthe agent\n\ta substance called soap\n"
    empty = "In your inventory, you see:\n\ta glass cup (containing nothing)\n\tan orange\n"
    mixed = "In your inventory, you see:\n\ta glass cup (containing a substance called sugar water)\n"
    reads = "The recipe reads:\nTo make sugar water, you need to mix sugar, water."
    got = made(
        "6-1",
        "Your task is to create 'sugar water'.",
        step("pick up recipe", "You move the recipe to the inventory.", 0.25, kitchen, empty),
        step("read recipe in inventory", reads, 0.3333333333333333, kitchen, empty),
        step("mix cup", "Sugar and water mix to produce sugar water.", 0.49999999999999994, kitchen, mixed),
        step("focus on substance in cup", "You focus on the sugar water.", 1.0, kitchen, mixed),
    )
    assert list(got) == [2, 3, 4]
    assert got[3] == (
        "mix cup",
        "Your task is to create 'sugar water'. </s> Time: 2; Score: 33; </s> Action history: </s> "
        "<extra_id_10> look around (+0) --> N/A |  <extra_id_9> read recipe in inventory (+33) --> The "
        "recipe reads: | To make sugar water, you need to mix sugar, water. |  </s> Current environment: "
        "This room is called the kitchen. In it, you see:  | the agent | a substance called soap |  </s> "
        "Current inventory: In your inventory, you see: | a glass cup  | an orange |  </s> Visited rooms: "
        "kitchen </s>  What action should you do next? </s> ",
    )
    assert got[4] == (
        "focus on substance in cup",
        "Your task is to create 'sugar water'. </s> Time: 3; Score: 49; </s> Action history: </s> "
        "<extra_id_10> look around (+0) --> N/A |  <extra_id_9> read recipe in inventory (+33) --> The "
        "recipe reads: | To make sugar water, you need to mix sugar, water. |  <extra_id_8> mix cup (+16) "
        "--> Sugar and water mix to produce sugar water. |  </s> Current environment: This room is called "
        "the kitchen. In it, you see:  | the agent | a substance called soap |  </s> Current inventory: In "
        "your inventory, you see: | a glass cup (containing a substance called sugar water) |  </s> Visited "
        "rooms: kitchen </s>  What action should you do next? </s> ",
    )


def test_7_lifespan_longest_then_shortest():
    """The room left by the first action is not visited; 0.3333 to 0.8333 is 49.99… points, cut to 49."""
    got = made(
        "7-3",
        "Find the longest life span, then the shortest.",
        step("go to outside", "You move to the outside.", 0.0, OUTSIDE),
        step("wait1", WAITED, 0.3333333333333333, OUTSIDE),
        step("focus on crocodile", "You focus on the crocodile egg.", 0.8333333333333333, OUTSIDE),
        step("focus on baby baby mouse", "You focus on the baby mouse.", 1.0, OUTSIDE),
    )
    assert list(got) == [2, 3, 4]
    assert got[2] == (
        "wait1",
        "Find the longest life span, then the shortest. </s> Time: 1; Score: 0; </s> Action history: </s> "
        "<extra_id_10> look around (+0) --> N/A |  </s> Current environment: This outside location is called "
        "the outside. Here you see:  | the agent | a dove egg | a fire pit  | You also see: | A door to the "
        "kitchen  |  </s> Current inventory: In your inventory, you see: | an orange |  </s> Visited rooms: "
        "outside </s>  What action should you do next? </s> ",
    )
    assert got[4] == (
        "focus on baby baby mouse",
        "Find the longest life span, then the shortest. </s> Time: 3; Score: 83; </s> Action history: </s> "
        "<extra_id_10> look around (+0) --> N/A |  <extra_id_9> wait1 (+33) --> You decide to wait for 1 "
        "iterations. |  <extra_id_8> focus on crocodile (+49) --> You focus on the crocodile egg. |  </s> "
        "Current environment: This outside location is called the outside. Here you see:  | the agent | a "
        "dove egg | a fire pit  | You also see: | A door to the kitchen  |  </s> Current inventory: In your "
        "inventory, you see: | an orange |  </s> Visited rooms: outside </s>  What action should you do "
        "next? </s> ",
    )


def test_7_lifespan_falls():
    """From 0.3333 to -1 is -133.3, cut towards zero; from nothing it is -100; staying there is 0."""
    got = made(
        "7-1",
        "Find the longest life span.",
        step("open door to outside", "The door is already open.", 0.0, OUTSIDE),
        step("go to outside", "You move to the outside.", 0.3333333333333333, OUTSIDE),
        step("focus on dove", "You focus on the dove egg.", -1.0, OUTSIDE),
        step("focus on crocodile", "You focus on the crocodile egg.", -1.0, OUTSIDE),
        step("wait1", WAITED, -1.0, OUTSIDE),
    )
    assert list(got) == [2, 3, 4, 5]
    assert got[5] == (
        "wait1",
        "Find the longest life span. </s> Time: 4; Score: -100; </s> Action history: </s> <extra_id_10> "
        "look around (+0) --> N/A |  <extra_id_9> go to outside (+33) --> You move to the outside. |  "
        "<extra_id_8> focus on dove (+-133) --> You focus on the dove egg. |  <extra_id_7> focus on "
        "crocodile (+0) --> You focus on the crocodile egg. |  </s> Current environment: This outside "
        "location is called the outside. Here you see:  | the agent | a dove egg | a fire pit  | You also "
        "see: | A door to the kitchen  |  </s> Current inventory: In your inventory, you see: | an orange |  "
        "</s> Visited rooms: outside </s>  What action should you do next? </s> ",
    )
    fallen = made(
        "7-2",
        "Find the shortest life span.",
        step("wait1", WAITED, 0.0, OUTSIDE),
        step("focus on dove", "You focus on the dove egg.", -1.0, OUTSIDE),
        step("wait1", WAITED, -1.0, OUTSIDE),
    )
    assert fallen[3] == (
        "wait1",
        "Find the shortest life span. </s> Time: 2; Score: -100; </s> Action history: </s> <extra_id_10> "
        "look around (+0) --> N/A |  <extra_id_9> focus on dove (+-100) --> You focus on the dove egg. |  "
        "</s> Current environment: This outside location is called the outside. Here you see:  | the agent | "
        "a dove egg | a fire pit  | You also see: | A door to the kitchen  |  </s> Current inventory: In "
        "your inventory, you see: | an orange |  </s>  What action should you do next? </s> ",
    )


def test_8_life_stages_of_an_animal():
    """Waits count as steps; 0.45 to 0.7 is 24.99… points; the stage reached is seen by a dropped look."""
    yard = "This outside location is called the outside. Here you see: \n\ta {} giant tortoise\n"
    egg, young, older = (yard.format(stage) for stage in ("egg", "hatchling", "juvenile"))
    got = made(
        "8-1",
        "Focus on the 4 life stages of the giant tortoise.",
        step("go to outside", "You move to the outside.", 0.08, egg),
        step("focus on egg", "You focus on the giant tortoise egg.", 0.33, egg),
        step("wait1", WAITED, 0.37, egg),
        step("wait", "You decide to wait for 10 iterations.", 0.45, egg),
        step("look around", young, 0.45, young),
        step("focus on hatchling giant tortoise", "You focus on the hatchling giant tortoise.", 0.7, older),
        step("wait1", WAITED, 0.7, older),
    )
    assert list(got) == [2, 3, 4, 6, 7]
    assert got[6] == (
        "focus on hatchling giant tortoise",
        "Focus on the 4 life stages of the giant tortoise. </s> Time: 4; Score: 45; </s> Action history: "
        "</s> <extra_id_10> look around (+0) --> N/A |  <extra_id_9> focus on egg (+33) --> You focus on the "
        "giant tortoise egg. |  <extra_id_8> wait1 (+3) --> You decide to wait for 1 iterations. |  "
        "<extra_id_7> wait (+8) --> You decide to wait for 10 iterations. |  </s> Current environment: This "
        "outside location is called the outside. Here you see:  | a hatchling giant tortoise |  </s> Current "
        "inventory: In your inventory, you see: | an orange |  </s> Visited rooms: outside </s>  What action "
        "should you do next? </s> ",
    )
    assert got[7] == (
        "wait1",
        "Focus on the 4 life stages of the giant tortoise. </s> Time: 5; Score: 70; </s> Action history: "
        "</s> <extra_id_10> look around (+0) --> N/A |  <extra_id_9> focus on egg (+33) --> You focus on the "
        "giant tortoise egg. |  <extra_id_8> wait1 (+3) --> You decide to wait for 1 iterations. |  "
        "<extra_id_7> wait (+8) --> You decide to wait for 10 iterations. |  <extra_id_6> focus on hatchling "
        "giant tortoise (+24) --> You focus on the hatchling giant tortoise. |  </s> Current environment: "
        "This outside location is called the outside. Here you see:  | a juvenile giant tortoise |  </s> "
        "Current inventory: In your inventory, you see: | an orange |  </s> Visited rooms: outside </s>  "
        "What action should you do next? </s> ",
    )


def test_8_life_stages_of_a_plant():
    """0.33 to 0.62 is 28.99… points; a door closed first of all is no first action."""
    pots = (
        "This outside location is called the outside. Here you see: \n\ta self watering flower pot 4 "
        "(containing a lemon seed in the seed stage, soil)\n\ta fountain (containing nothing)\n"
    )
    got = made(
        "8-2",
        "Focus on the life stages of the lemon plant.",
        step("close door to hallway", "The door is now closed.", 0.0, CELLAR),
        step("open door to outside", "The door is already open.", 0.0, CELLAR),
        step("go to outside", "You move to the outside.", 0.08, pots),
        step("focus on lemon seed", "You focus on the lemon seed.", 0.33, pots),
        step("focus on lemon tree", "You focus on the lemon tree.", 0.62, pots),
        step("wait1", WAITED, 0.62, pots),
    )
    assert list(got) == [3, 4, 5, 6]
    assert got[3] == (
        "go to outside",
        "Focus on the life stages of the lemon plant. </s> Time: 1; Score: 0; </s> Action history: </s> "
        "<extra_id_10> look around (+0) --> N/A |  </s> Current environment: This room is called the cellar. "
        "In it, you see:  | the agent |  </s> Current inventory: In your inventory, you see: | an orange |  "
        "</s> Visited rooms: cellar </s>  What action should you do next? </s> ",
    )
    assert got[6] == (
        "wait1",
        "Focus on the life stages of the lemon plant. </s> Time: 4; Score: 62; </s> Action history: </s> "
        "<extra_id_10> look around (+0) --> N/A |  <extra_id_9> go to outside (+8) --> You move to the "
        "outside. |  <extra_id_8> focus on lemon seed (+25) --> You focus on the lemon seed. |  <extra_id_7> "
        "focus on lemon tree (+28) --> You focus on the lemon tree. |  </s> Current environment: This "
        "outside location is called the outside. Here you see:  | a self watering flower pot 4 (containing a "
        "lemon seed in the seed stage, soil) | a fountain  |  </s> Current inventory: In your inventory, you "
        "see: | an orange |  </s> Visited rooms: cellar, outside </s>  What action should you do next? </s> ",
    )


def test_9_friction_ten_entries_and_no_more():
    """With nine steps the sentinels count from 10 to 1; with two more the two oldest entries are gone."""
    plane = "inclined plane with a unknown material H surface"
    shop = f"This room is called the workshop. In it, you see: \n\tan {plane}\n"
    held = f"{HOLDS}\ta stopwatch, which is activated. The time reads 9 ticks.\n"
    hall = "This room is called the hallway. In it, you see: \n\tthe agent\n"
    looks = [
        step("look at plane h", f"a wood block approximately {share}% down the plane", 0.2, shop, held)
        for share in (1, 2, 3, 4, 4, 5, 6)
    ]
    got = made(
        "9-3",
        "Which unknown material has the most friction?",
        step("go to hallway", "You move to the hallway.", 0.0, hall),
        step("go to workshop", "You move to the workshop.", 0.1, shop),
        step(
            "move block to plane h",
            "You move the wood block to the inclined plane.",
            0.15000000000000002,
            shop,
        ),
        step("activate stopwatch", "The stopwatch is now activated.", 0.2, shop, held),
        *looks,
        step("wait1", WAITED, 0.2, shop, held),
        step("deactivate stopwatch", "The stopwatch is now deactivated.", 0.25, shop, held),
    )
    assert list(got) == [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
    assert got[11] == (
        "look at plane h",
        "Which unknown material has the most friction? </s> Time: 10; Score: 20; </s> Action history: </s> "
        "<extra_id_10> look around (+0) --> N/A |  <extra_id_9> go to workshop (+10) --> You move to the "
        "workshop. |  <extra_id_8> move block to plane h (+5) --> You move the wood block to the inclined "
        "plane. |  <extra_id_7> activate stopwatch (+4) --> The stopwatch is now activated. |  <extra_id_6> "
        "look at plane h (+0) --> a wood block approximately 1% down the plane |  <extra_id_5> look at plane "
        "h (+0) --> a wood block approximately 2% down the plane |  <extra_id_4> look at plane h (+0) --> a "
        "wood block approximately 3% down the plane |  <extra_id_3> look at plane h (+0) --> a wood block "
        "approximately 4% down the plane |  <extra_id_2> look at plane h (+0) --> a wood block approximately "
        "4% down the plane |  <extra_id_1> look at plane h (+0) --> a wood block approximately 5% down the "
        "plane |  </s> Current environment: This room is called the workshop. In it, you see:  | an inclined "
        "plane with a unknown material H surface |  </s> Current inventory: In your inventory, you see: | an "
        "orange | a stopwatch, which is activated. The time reads 9 ticks. |  </s> Visited rooms: hallway, "
        "workshop </s>  What action should you do next? </s> ",
    )
    assert got[13] == (
        "deactivate stopwatch",
        "Which unknown material has the most friction? </s> Time: 12; Score: 20; </s> Action history: </s> "
        "<extra_id_10> move block to plane h (+5) --> You move the wood block to the inclined plane. |  "
        "<extra_id_9> activate stopwatch (+4) --> The stopwatch is now activated. |  <extra_id_8> look at "
        "plane h (+0) --> a wood block approximately 1% down the plane |  <extra_id_7> look at plane h (+0) "
        "--> a wood block approximately 2% down the plane |  <extra_id_6> look at plane h (+0) --> a wood "
        "block approximately 3% down the plane |  <extra_id_5> look at plane h (+0) --> a wood block "
        "approximately 4% down the plane |  <extra_id_4> look at plane h (+0) --> a wood block approximately "
        "4% down the plane |  <extra_id_3> look at plane h (+0) --> a wood block approximately 5% down the "
        "plane |  <extra_id_2> look at plane h (+0) --> a wood block approximately 6% down the plane |  "
        "<extra_id_1> wait1 (+0) --> You decide to wait for 1 iterations. |  </s> Current environment: This "
        "room is called the workshop. In it, you see:  | an inclined plane with a unknown material H surface "
        "|  </s> Current inventory: In your inventory, you see: | an orange | a stopwatch, which is "
        "activated. The time reads 9 ticks. |  </s> Visited rooms: hallway, workshop </s>  What action "
        "should you do next? </s> ",
    )


def test_10_genetics_unknown_seeds_and_an_ambiguous_request():
    """An answer that earns 0.01 shows +1; the jar is empty afterwards and loses its mark."""
    house = "This room is called the greenhouse. In it, you see: \n\ta red box (containing nothing)\n"
    full = f"{HOLDS}\ta seed jar (containing a spherical unknown D seed)\n"
    empty = f"{HOLDS}\ta seed jar (containing nothing)\n"
    asked = "Ambiguous request: Please enter the number for the action you intended:\n0:\tone\n1:\ttwo\n"
    got = made(
        "10-2",
        "Is spherical seed shape dominant in the unknown D plant?",
        step("go to greenhouse", "You move to the greenhouse.", 0.17, house),
        step("pick up seed jar", "You move the seed jar to the inventory.", 0.19000000000000003, house, full),
        step("move unknown D seed to flower pot 3", asked, 0.19000000000000003, house, full),
        step("0", "You move the unknown D seed to the flower pot 3.", 0.20000000000000004, house, empty),
        step("focus on red box", "You focus on the red box.", 1.0, house, empty),
    )
    assert list(got) == [2, 3, 4, 5]
    assert got[4] == (
        "0",
        "Is spherical seed shape dominant in the unknown D plant? </s> Time: 3; Score: 19; </s> Action "
        "history: </s> <extra_id_10> look around (+0) --> N/A |  <extra_id_9> pick up seed jar (+19) --> You "
        "move the seed jar to the inventory. |  <extra_id_8> move unknown D seed to flower pot 3 (+0) --> "
        "Ambiguous request: Please enter the number for the action you intended: | 0: | one | 1: | two |  |  "
        "</s> Current environment: This room is called the greenhouse. In it, you see:  | a red box  |  </s> "
        "Current inventory: In your inventory, you see: | an orange | a seed jar (containing a spherical "
        "unknown D seed) |  </s> Visited rooms: greenhouse </s>  What action should you do next? </s> ",
    )
    assert got[5] == (
        "focus on red box",
        "Is spherical seed shape dominant in the unknown D plant? </s> Time: 4; Score: 20; </s> Action "
        "history: </s> <extra_id_10> look around (+0) --> N/A |  <extra_id_9> pick up seed jar (+19) --> You "
        "move the seed jar to the inventory. |  <extra_id_8> move unknown D seed to flower pot 3 (+0) --> "
        "Ambiguous request: Please enter the number for the action you intended: | 0: | one | 1: | two |  |  "
        "<extra_id_7> 0 (+1) --> You move the unknown D seed to the flower pot 3. |  </s> Current "
        "environment: This room is called the greenhouse. In it, you see:  | a red box  |  </s> Current "
        "inventory: In your inventory, you see: | an orange | a seed jar  |  </s> Visited rooms: greenhouse "
        "</s>  What action should you do next? </s> ",
    )
