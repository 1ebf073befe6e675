"""SWIFT's rendering: one line of text in, one action out, for an encoder-decoder (T5).

The wire format is the public one (specification 4.3), to the letter: the task, time and score, the
newest actions behind sentinels that count down from K, the room and the inventory before the action,
the rooms visited, the question. One function writes it for serving and for training.

In training, an episode counts from behind its first remaining action: that action is neither a target
nor part of the history, and points it earned fall to the next one. ``look around`` and ``close door …``
are left out. Numbers are cut, not rounded: a score of 0.7667 reads 76, so it must come unrounded.

Text from outside cannot become a control token: a space is put behind every ``<`` that is followed by
anything else. No text of ScienceWorld's own holds a ``<``.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from pipeline.rendering.formal import formal_action
from pipeline.trajectories.schema import Step, Task, Trajectory

NAME: Final = "swift"
VERSION: Final = "1"
HISTORY: Final = 10
"""K: how many past actions are shown."""
LONGEST: Final = 99
"""T5 has sentinels up to ``<extra_id_99>``."""
QUESTION: Final = "What action should you do next?"
INVENTORY: Final = "In your inventory, you see:"
"""How ScienceWorld begins its list of what the agent holds."""

Actions = Literal["raw", "formal"]
"""How actions are written: as the environment takes them, or as ``FOCUS(x)``."""

_FIRST: Final = Step(action="look around", observation="N/A")
"""What the public data puts where the history begins."""
# U+FE64 and U+FF1C become "<" when T5's tokeniser normalises its text.
_OPENS: Final = re.compile("([<\ufe64\uff1c])(?! )")
_MOVED: Final = "move to the"
_ROOM: Final = "This room is called the"


@dataclass(frozen=True)
class Scene:
    """What stands before the agent's eyes: the newest observation, the room's look, the inventory."""

    observation: str = ""
    look: str = ""
    inventory: str = ""


@dataclass(frozen=True)
class SwiftPrompt:
    """The input in its parts, all of them clean. ``entries`` are past actions, oldest first.

    An entry reads ``action (+reward) --> observation``. ``history`` is K, where sentinels begin.
    """

    task: str
    time: int
    score: int
    entries: tuple[str, ...]
    look: str
    inventory: str
    rooms: str
    history: int = HISTORY

    @property
    def text(self) -> str:
        """The input as the model gets it."""
        past = "".join(
            f" <extra_id_{self.history - place}> {entry} | " for place, entry in enumerate(self.entries)
        )
        rooms = f"Visited rooms: {self.rooms} </s> " if self.rooms else ""
        return (
            f"{self.task} </s> Time: {self.time}; Score: {self.score}; </s> Action history: </s>{past} </s> "
            f"Current environment: {self.look} </s> Current inventory: {self.inventory} </s> {rooms}"
            f" {QUESTION} </s> "
        )


@dataclass(frozen=True)
class SwiftExample:
    """One training example. ``step`` says which step of the trajectory the target is, from 1."""

    input: str
    target: str
    step: int


@dataclass(frozen=True)
class Kept:
    """A step that stays, its number in the trajectory, and what the agent saw before and after it."""

    step: Step
    number: int
    after: Scene


def opening_scene(opening: str) -> Scene:
    """The first scene of an episode, from a trajectory's opening (look, line break, inventory)."""
    look, found, held = opening.rpartition(f"\n{INVENTORY}")
    if not found:
        return Scene("", opening)
    return Scene("", look, INVENTORY + held)


def swift_prompt(
    task: Task, start: Scene, kept: Sequence[Kept], history: int = HISTORY, actions: Actions = "raw"
) -> SwiftPrompt:
    """The parts of the input that asks what to do after the given steps."""
    past = [_FIRST, *(item.step for item in kept)]
    scores = _scores(past)
    rewards = [0.0, *(new - old for old, new in pairwise(scores))]
    now = kept[-1].after if kept else start
    entries = [
        f"{_written(step.action, actions)} (+{_percent(reward)}) --> {clean(step.observation)}"
        for step, reward in list(zip(past, rewards, strict=True))[-history:]
    ]
    return SwiftPrompt(
        task=clean(task.instruction),
        time=len(kept) + 1,
        score=_percent(scores[-1]),
        entries=tuple(entries),
        look=clean(now.look),
        inventory=clean(now.inventory),
        rooms=clean(", ".join(visited_rooms([start, *(item.after for item in kept)]))),
        history=history,
    )


def swift_input(
    task: Task, opening: str, steps: Sequence[Step], history: int = HISTORY, actions: Actions = "raw"
) -> str:
    """The input that asks for step ``len(steps) + 1``, all steps shown as they were.

    Args:
        task: its instruction is shown without the words ``Task Description:``.
        opening: look and inventory at the start, as in ``Trajectory.opening``.
        steps: those so far; ``info`` holds ``look`` and ``inventory`` after the action.
        history: K, from 1 to 99.
        actions: how actions are written.
    """
    start = opening_scene(opening)
    return swift_prompt(task, start, _all_kept(start, steps), history, actions).text


def swift_examples(
    trajectory: Trajectory, history: int = HISTORY, actions: Actions = "raw", *, skip_first: bool = True
) -> list[SwiftExample]:
    """The training examples of a trajectory; none where fewer than two steps remain.

    Args:
        trajectory: an episode of ScienceWorld, gold or selected.
        history: K, from 1 to 99.
        actions: how actions are written.
        skip_first: as the public data does; False makes the first action a target as well.
    """
    start = opening_scene(trajectory.opening)
    kept = kept_steps(_all_kept(start, trajectory.steps))
    if len(kept) < 2:
        return []
    if skip_first:
        start, kept = kept[0].after, kept[1:]
    return [
        SwiftExample(
            swift_prompt(trajectory.task, start, kept[:index], history, actions).text,
            _written(item.step.action, actions, label=True),
            item.number,
        )
        for index, item in enumerate(kept)
    ]


def kept_steps(steps: Sequence[Kept]) -> list[Kept]:
    """Without ``look around`` and closed doors. What they changed is seen after the step before them."""
    kept: list[Kept] = []
    for item in steps:
        if not is_dropped(item.step.action):
            kept.append(item)
        elif kept:
            seen = Scene(kept[-1].after.observation, item.after.look, item.after.inventory)
            kept[-1] = Kept(kept[-1].step, kept[-1].number, seen)
    return kept


def is_dropped(action: str) -> bool:
    """Whether the public data leaves such steps out."""
    return action == "look around" or action.startswith("close door")


def visited_rooms(scenes: Sequence[Scene]) -> list[str]:
    """Rooms by when they were first named: by the words of a move, or by the look's first sentence."""
    rooms: list[str] = []
    for scene in scenes:
        rooms += [room for room in _named(scene) if room not in rooms]
    return list(dict.fromkeys(rooms))


def clean(text: str) -> str:
    """A text of the environment as SWIFT reads it (specification 4.3), control tokens broken."""
    text = _tidy(text)
    return text.replace("(that is open)", "").replace("(containing nothing)", "")


def downsampled(task_kind: str, variations: Sequence[int]) -> list[int]:
    """Those of a task's variations from which the public data is made.

    Draw before the split into folds. Inclined planes and genetics (9 and 10) keep 50, conductivity
    (3-3) keeps 100, in the order that ``random.Random(1)`` shuffles them to; others keep all.

    Args:
        task_kind: such as ``9-2``.
        variations: all of the task, in their order: train, dev, test.
    """
    keep = {"9": 50, "10": 50}.get(task_kind.split("-", maxsplit=1)[0], 100 if task_kind == "3-3" else None)
    drawn = list(variations)
    if keep is not None:
        random.Random(1).shuffle(drawn)
    return drawn[:keep]


def _all_kept(start: Scene, steps: Sequence[Step]) -> list[Kept]:
    """Every step with the scene after it; a step without ``info`` leaves room and inventory as they were."""
    scene, kept = start, list[Kept]()
    for number, step in enumerate(steps, 1):
        look = step.info.get("look", scene.look)
        scene = Scene(step.observation, look, step.info.get("inventory", scene.inventory))
        kept.append(Kept(step, number, scene))
    return kept


def _named(scene: Scene) -> Iterator[str]:
    moved = scene.observation.find(_MOVED)
    if moved >= 0:
        yield scene.observation[moved + len(_MOVED) + 1 : -1].strip()
    called = scene.look.find(_ROOM)
    if called >= 0:
        yield scene.look[called + len(_ROOM) + 1 : scene.look.find(".")]


def _scores(past: Sequence[Step]) -> list[float]:
    """The score after each step, from 0; where a step has none, what its reward makes of the one before."""
    scores = [0.0]
    for step in past[1:]:
        scores.append(scores[-1] + step.reward if step.score is None else step.score)
    return scores


def _percent(share: float) -> int:
    return int(share * 100) if math.isfinite(share) else 0


def _written(action: str, actions: Actions, *, label: bool = False) -> str:
    written = (formal_action(action) or action) if actions == "formal" else action
    return _tidy(written) if label else clean(written)


def _tidy(text: str) -> str:
    for mark in ("\n\t", "\n", "\t"):
        text = text.replace(mark, " | ")
    return _OPENS.sub(r"\1 ", text.replace("green house", "greenhouse"))
