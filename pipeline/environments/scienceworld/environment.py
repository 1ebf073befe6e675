"""ScienceWorld as an environment (Wang et al. 2022; specs, section 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, get_args

from pipeline.environments.scienceworld.descriptions import load_descriptions, simulator_version
from pipeline.environments.scienceworld.episode import TOOL, Ambiguous, Rules, ScienceWorldEpisode
from pipeline.environments.scienceworld.gold import gold_steps
from pipeline.environments.scienceworld.groups import KIND_GROUPS
from pipeline.environments.scienceworld.names import BY_ID, TYPES, TaskType, chosen_types
from pipeline.environments.scienceworld.pool import Pool
from pipeline.environments.scienceworld.splits import Listed, listed_panels
from pipeline.errors import EnvironmentFault, RecipeError
from pipeline.recipe.models import PanelRecipe
from pipeline.trajectories.schema import Split, Step, Task, digest

VERSION: Final = "1"
"""Rises whenever the same simulator and settings give other tasks, observations or grades."""

SIMPLIFICATIONS: Final = (
    "teleportAction",
    "openDoors",
    "selfWateringFlowerPots",
    "noElectricalAction",
    "openContainers",
)


class ScienceWorldEnvironment:
    """Thirty task types with 7,207 variations, in simulators that are kept running.

    Args:
        family: none; this environment has one.
        kinds: only these tasks, by id (``1-1``) or name (``boil``); empty means all.
        simplifications: ``easy``, nothing, or names joined by commas.
        max_steps: limit on the simulator's moves, after which an episode is over (100 as published; gold
            paths of 9-2, 9-3, 10-1 and 10-2 need 300).
        simulators: Java processes that are kept; no more episodes than this should be open at a time.
        variations: only the first so many variations of each task in each split.
        ambiguous: ``ask`` shows the agent what its action could mean and expects a number; ``first``
            takes the first meaning.
        timeout: seconds that a simulator may take to answer before it is replaced.

    Raises:
        RecipeError: an option is wrong.
    """

    name = "scienceworld"
    label = "Task"
    tools = (TOOL,)
    free_form = True
    blocking = True
    kind_groups = KIND_GROUPS

    panels: ClassVar[dict[str, PanelRecipe]] = {
        "dev": PanelRecipe(split="dev"),
        "test": PanelRecipe(split="test"),
    }
    listed: Listed = listed_panels(TYPES)
    """Panels that are lists of ids: split and ids, by name."""

    def __init__(
        self,
        family: str = "",
        kinds: Sequence[str] = (),
        *,
        simplifications: str = "easy",
        max_steps: int = 100,
        simulators: int = 2,
        variations: int | None = None,
        ambiguous: Ambiguous = "ask",
        timeout: float = 120.0,
    ) -> None:
        if family:
            raise RecipeError(f"environment.family: {family!r} is not a family of scienceworld; it has none")
        if ambiguous not in get_args(Ambiguous):
            raise RecipeError(f"environment.options.ambiguous: {ambiguous!r} is neither ask nor first")
        _check_simplifications(simplifications)
        _check_number("max_steps", max_steps)
        _check_number("simulators", simulators)
        if variations is not None:
            _check_number("variations", variations)
        _check_seconds(timeout)
        self.family = ""
        self.concurrency = simulators
        """No more episodes than this should be open at a time."""
        self.max_steps = 2 * max_steps
        """Turns. As published, twice the moves: some actions take none."""
        self._types = chosen_types(kinds)
        self._variations = variations
        self._rules = Rules(simplifications, max_steps, ambiguous)
        self._pool = Pool(simulators, float(timeout))
        self.listed = listed_panels(self._types, variations)

    @property
    def version(self) -> str:
        """The simulator's version and a hash of the rules.

        Raises:
            EnvironmentFault: the simulator is not installed.
        """
        rules = [self._rules.simplifications, self._rules.max_moves, self._rules.ambiguous]
        return f"{VERSION}-{simulator_version()}-{digest(rules, 8)}"

    def tasks(self, split: Split) -> Iterator[Task]:
        """Every task of a split and of the chosen kinds: tasks by name, variations by number.

        Raises:
            EnvironmentFault: the simulator is missing (its words are needed at the first use).
        """
        texts = load_descriptions()
        for kind in self._types:
            for variation in kind.fold(split)[: self._variations]:
                yield _task(kind, variation, split, texts[kind.name][variation])

    def episode(self, task: Task) -> ScienceWorldEpisode:
        """A fresh episode.

        Raises:
            EnvironmentFault: it is no task of this environment.
        """
        kind, variation = _of(task)
        return ScienceWorldEpisode(self._pool, kind.name, variation, self._rules_for(kind))

    def expert(self, task: Task, seed: int) -> Iterator[Step]:
        """The gold path, without thoughts; there is one for each variation, whatever the seed."""
        kind, variation = _of(task)
        return gold_steps(self._pool, kind.name, variation, self._rules_for(kind))

    def normalise(self, answer: str) -> str:
        """The form in which two answers are compared: lower case, single spaces."""
        return " ".join(answer.lower().split())

    def close(self) -> None:
        """End the simulators. Without it they end when the environment is forgotten, or with the process."""
        self._pool.close()

    def _rules_for(self, kind: TaskType) -> Rules:
        """The rules of a task: it must stay possible, so wires can be connected where that is the task."""
        rules = self._rules
        if not kind.electrical:
            return rules
        kept = [name for name in rules.simplifications.split(",") if name != "noElectricalAction"]
        return Rules(",".join(kept), rules.max_moves, rules.ambiguous)


def _task(kind: TaskType, variation: int, split: Split, text: str) -> Task:
    return Task(
        id=kind.task_id(variation),
        environment=ScienceWorldEnvironment.name,
        split=split,
        kind=kind.id,
        instruction=text,
        # In many kinds every variation is asked in the same words.
        meta={"name": kind.name, "variation": variation, "problem": f"{kind.name} {variation}"},
    )


def _of(task: Task) -> tuple[TaskType, int]:
    kind = BY_ID.get(task.kind)
    variation: Any = task.meta.get("variation")
    if kind is None or not isinstance(variation, int) or not 0 <= variation < kind.variations:
        raise EnvironmentFault(f"task {task.id!r} names no variation of a ScienceWorld task: draw it again")
    return kind, variation


def _check_simplifications(names: Any) -> None:
    chosen = [name for name in names.split(",") if name] if isinstance(names, str) else [repr(names)]
    wrong = next((name for name in chosen if name not in SIMPLIFICATIONS), None)
    if wrong is not None and chosen != ["easy"]:
        known = ", ".join(SIMPLIFICATIONS)
        raise RecipeError(
            f"environment.options.simplifications: {wrong!r} is unknown; give easy, nothing, or of {known}"
        )


def _check_number(option: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise RecipeError(f"environment.options.{option}: {value!r} is not a whole number above 0")


def _check_seconds(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise RecipeError(f"environment.options.timeout: {value!r} is not a number of seconds above 0")
