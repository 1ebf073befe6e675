"""STaR rounds: which tasks each round plays, by which recipe it is trained, and when rounds end.

Source: STaR (Zelikman et al. 2022), algorithm 1: the student generates, the base is trained anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from pipeline.bootstrap.rationalize import hint_fault
from pipeline.errors import RecipeError
from pipeline.recipe.models import PanelRecipe, Recipe, RoundsRecipe, SelectRecipe
from pipeline.trajectories.panels import Panel, PanelEntry, draw_panel, normal_text
from pipeline.trajectories.schema import Task, Trajectory

STUDENT = "student"


def rounds_of(recipe: Recipe) -> RoundsRecipe:
    """The recipe's rounds section, once everything is there that rounds rest on.

    Raises:
        RecipeError: a section is missing, or one says something that rounds cannot do.
    """
    rounds, train, export = recipe.rounds, recipe.train, recipe.export
    missing = [
        name
        for name in ("rounds", "generate", "select", "export", "train", "evaluate")
        if getattr(recipe, name) is None
    ]
    if missing or rounds is None or train is None or export is None:
        raise RecipeError(f"recipe {recipe.name!r}: rounds need a section {missing[0]!r} as well")
    if train.run is not None:
        raise RecipeError("train.run: rounds train on what they collect themselves; leave it out")
    if train.dpo is not None or export.pairs is not None:
        raise RecipeError("rounds imitate what was correct: leave train.dpo and export.pairs out")
    if recipe.evaluate and recipe.evaluate.checkpoints is not None:
        raise RecipeError(
            "evaluate.checkpoints: rounds compare finished students; leave it out, and afterwards run"
            " `staract evaluate` with it"
        )
    if recipe.evaluate and all(entry.model != STUDENT for entry in recipe.evaluate.entries):
        raise RecipeError("evaluate.entries: rounds compare students, so one entry's model must be student")
    return rounds


def round_panels(tasks: Iterable[Task], recipe: RoundsRecipe, seed: int, taken: Iterable[str]) -> list[Panel]:
    """The new tasks of every round after round 0, no two of them asking the same.

    A round's tasks do not depend on how many rounds there are.

    Args:
        tasks: the training split.
        recipe: how many rounds, and tasks a round.
        seed: decides the order in which tasks are taken.
        taken: ids and problems of tasks that no round may play: round 0's, held-out ones, exemplars.

    Raises:
        RecipeError: there are not so many tasks.
    """
    drawn = draw_panel(tasks, PanelRecipe(split="train", seed=seed), exclude=taken)
    first: dict[str, Task] = {}
    for task in drawn.tasks:
        first.setdefault(normal_text(task.problem), task)
    distinct = list(first.values())
    needed = recipe.most * recipe.tasks
    if len(distinct) < needed:
        raise RecipeError(
            f"rounds: {recipe.most} rounds of {recipe.tasks} new tasks need {needed} of split 'train', but"
            f" only {len(distinct)} are left: lower rounds.most or rounds.tasks, or name more kinds of task"
        )
    starts = range(0, needed, recipe.tasks)
    return [_panel(distinct[start : start + recipe.tasks], seed) for start in starts]


def _panel(tasks: Sequence[Task], seed: int) -> Panel:
    return Panel("train", seed, tuple(PanelEntry.of(task) for task in tasks), tuple(tasks))


def round_recipe(recipe: Recipe, number: int, held_out: Sequence[PanelRecipe] = ()) -> Recipe:
    """The recipe by which a later round selects, exports, trains and evaluates.

    It trains from the same base on the same terms; its selection has room for every round's
    trajectories, and its evaluation plays the students alone.

    Args:
        recipe: the whole recipe.
        number: the round, from 1 on.
        held_out: panels to keep out of the selection beside those that the recipe names.
    """
    rounds, select = rounds_of(recipe), recipe.select or SelectRecipe()
    target = select.target + number * rounds.tasks * select.per_task
    exclude = [*select.exclude, *held_out]
    evaluate = recipe.evaluate and recipe.evaluate.model_copy(
        update={
            "entries": [entry for entry in recipe.evaluate.entries if entry.model == STUDENT],
            "checkpoints": None,
        }
    )
    changes = {
        "name": f"{recipe.name}-round-{number}",
        "description": f"Round {number} of {recipe.name}: trained on what rounds 0 to {number} kept.",
        "generate": None,
        "select": select.model_copy(update={"target": target, "exclude": exclude}),
        "evaluate": evaluate,
        "rounds": None,
    }
    return recipe.model_copy(update=changes)


def union(*sources: Callable[[], Iterable[Trajectory]]) -> Callable[[], Iterator[Trajectory]]:
    """A stream for the selection: every source after the other, without rationalised ones that copied."""

    def read() -> Iterator[Trajectory]:
        return (trajectory for source in sources for trajectory in source() if hint_fault(trajectory) is None)

    return read


def stops(dev: Sequence[float], gain: float) -> bool:
    """Whether the last round was the last: its reward is not more than ``gain`` above the best before."""
    return len(dev) > 1 and not dev[-1] > max(dev[:-1]) + gain


def best_round(dev: Sequence[float]) -> int:
    """The round with the highest dev reward; of equal ones the earliest, which cost least."""
    return max(range(len(dev)), key=lambda number: (dev[number], -number))
