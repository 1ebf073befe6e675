"""One round of the stage ``rounds``: what it plays, selects and measures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.bootstrap.ledger import ledger_table
from pipeline.bootstrap.rationalize import failed_tasks, hint_fault, is_hinted
from pipeline.bootstrap.rounds import round_panels, rounds_of, union
from pipeline.bootstrap.rules import Excluded
from pipeline.bootstrap.select import select_into
from pipeline.cli.clock import clocked, seconds
from pipeline.cli.collect import describe
from pipeline.cli.panels import training_panel
from pipeline.cli.stages import Job
from pipeline.environments.base import Environment
from pipeline.environments.registry import load_environment
from pipeline.evaluation.entrants import STUDENT, Entrant, Found, check_prompt, find_model
from pipeline.evaluation.play import loaded, play_panel, weights_of
from pipeline.evaluation.report import load_report
from pipeline.evaluation.rounds_report import Round, student_row
from pipeline.methods.base import Method
from pipeline.methods.hinted import Hinted
from pipeline.methods.prompts import exemplar_tasks
from pipeline.methods.registry import load_method
from pipeline.recipe.models import EntryRecipe, MethodRecipe, Recipe, RoundsRecipe, SelectRecipe
from pipeline.rollout.engine import Plan, run_episodes
from pipeline.rollout.panels import recipe_panel
from pipeline.rollout.progress import RunProgress
from pipeline.trajectories.panels import Panel, check_disjoint
from pipeline.trajectories.schema import Task
from pipeline.trajectories.store import TrajectoryStore, read_trajectories

RATIONALIZED: Final = "rationalized.jsonl"


@dataclass(frozen=True)
class Course:
    """What all rounds of a recipe share.

    ``held_out`` are the panels that nothing is trained on, ``panels`` the new tasks of rounds 1, 2, …
    """

    rounds: RoundsRecipe
    concurrency: int
    environment: Environment
    dev: Panel
    held_out: list[Panel]
    panels: list[Panel]

    @property
    def excluded(self) -> Excluded:
        """The tasks that no round may be trained on."""
        return Excluded.of(self.held_out, exemplar_tasks(self.environment))


def plan_rounds(recipe: Recipe) -> Course:
    """Draw every panel that rounds need, before anything is played or trained.

    Raises:
        RecipeError: the recipe lacks a section, or there are not tasks enough.
        StoreError: the dev panel shares a task with what is trained on or evaluated.
    """
    section = rounds_of(recipe)
    load_method(section.method)
    if section.rationalize:
        Hinted(section.rationalize.method)
    environment = load_environment(recipe.environment)
    first, dev = training_panel(recipe, environment), recipe_panel(environment, section.dev)
    held_out = [recipe_panel(environment, panel) for panel in (recipe.select or SelectRecipe()).exclude]
    if recipe.evaluate:
        held_out.append(recipe_panel(environment, recipe.evaluate.panel))
        check_disjoint(held_out[-1], dev)
    check_disjoint(first, dev)
    held_out.append(dev)
    taken = {word for panel in [first, *held_out] for task in panel.tasks for word in (task.id, task.problem)}
    taken |= exemplar_tasks(environment)
    panels = round_panels(environment.tasks("train"), section, recipe.seed, taken)
    concurrency = recipe.generate.concurrency if recipe.generate else 1
    return Course(section, concurrency, environment, dev, held_out, panels)


async def collect_round(course: Course, before: Job, job: Job, tasks: Sequence[Task]) -> None:
    """The student of the round before plays the tasks; what it fails is tried again with a hint."""
    rounds, folder = course.rounds, job.run.folder
    table = _Table(course, job)
    with clocked(folder, "play"):
        student = find_model(before.recipe, STUDENT, rounds.method, job.checkpoints)
        method = load_method(rounds.method)
        await table.play("play", student, method, rounds.method, tasks, job.run.trajectories, rounds.samples)
    hints, failed = rounds.rationalize, failed_tasks(tasks, TrajectoryStore(job.run.trajectories).read())
    if hints is None or not failed:
        return
    with clocked(folder, "rationalize"):
        model = find_model(before.recipe, hints.model, hints.method, job.checkpoints)
        method = Hinted(hints.method)
        path = folder / RATIONALIZED
        await table.play("rationalize", model, method, hints.method, failed, path, hints.samples)


@dataclass(frozen=True)
class _Table:
    """Where the episodes of a round are played."""

    course: Course
    job: Job

    async def play(
        self,
        label: str,
        found: Found,
        method: Method,
        recipe: MethodRecipe,
        tasks: Sequence[Task],
        path: Path,
        samples: int,
    ) -> None:
        """Play what the store still lacks."""
        environment, log = self.course.environment, self.job.log
        check_prompt(found, method, environment, recipe)
        async with loaded(found) as model:
            assert model is not None  # noqa: S101 - it was found
            plan = Plan(environment, method, recipe, model, self.job.recipe.seed, weights_of(found))
            with TrajectoryStore(path) as store:
                summary = await run_episodes(
                    plan,
                    tasks,
                    store,
                    samples=samples,
                    concurrency=self.course.concurrency,
                    progress=RunProgress(label, say=log.say),
                )
        log.say(f"{label}: {describe(summary)} → {path}")


def select_round(course: Course, before: Job, job: Job) -> None:
    """Keep what the rounds before kept, and of this round what every rule lets through."""
    folder = job.run.folder
    source = union(
        lambda: read_trajectories(before.run.selected),
        lambda: TrajectoryStore(job.run.trajectories).read(),
        lambda: TrajectoryStore(folder / RATIONALIZED).read(),
    )
    selection = select_into(folder, source, job.recipe.select or SelectRecipe(), course.excluded)
    right = [one for one in TrajectoryStore(folder / RATIONALIZED).read() if one.grade.correct]
    faults = Counter(filter(None, map(hint_fault, right)))
    fallen = ", ".join(f"{count} not {rule}" for rule, count in faults.most_common()) or "none of them copied"
    job.log.say(f"select: {len(right)} right with a hint; {fallen}")
    job.log.say(ledger_table(selection.ledger))
    job.log.say(f"select: kept {len(selection.ids)} → {job.run.selected}")


async def dev_reward(course: Course, job: Job) -> float:
    """The mean reward of a round's student on the dev panel; what was never played counts as none."""
    method = course.rounds.method
    student = find_model(job.recipe, STUDENT, method, job.checkpoints)
    player = Entrant(EntryRecipe(model=STUDENT, method=method), student)
    with TrajectoryStore(job.run.folder / "dev" / "trajectories.jsonl") as store:
        [group] = await play_panel(
            course.environment,
            course.dev,
            [player],
            store,
            concurrency=course.concurrency,
            run_seed=job.recipe.seed,
            progress=lambda label: RunProgress(f"dev: {label}", say=job.log.say),
        )
    return sum(trajectory.grade.reward for trajectory in group.trajectories) / len(course.dev)


def measured(course: Course, job: Job, number: int, dev: float) -> Round:
    """What a round came to, from what it left in its folder.

    Raises:
        StoreError: something that it should have left is missing.
    """
    folder, method = job.run.folder, course.rounds.method
    own = list(TrajectoryStore(job.run.trajectories).read())
    hinted = list(TrajectoryStore(folder / RATIONALIZED).read())
    tried = {trajectory.id for trajectory in hinted}
    kept = [one for one in read_trajectories(job.run.selected) if is_hinted(one) and one.id in tried]
    report = load_report(job.run.report)
    row = student_row(report, method.name)
    student = find_model(job.recipe, STUDENT, method, job.checkpoints)
    return Round(
        number=number,
        run=job.recipe.name,
        tasks=len({one.task.id for one in own}),
        correct=len({one.task.id for one in own if one.grade.correct}),
        tried=len({one.task.id for one in hinted}),
        rationalized=len({one.task.id for one in hinted if one.grade.correct}),
        kept=len({one.task.id for one in kept}),
        rows=int(student.trained.get("rows", 0)),
        dev=dev,
        test=row.value(report.metric),
        ci_low=row.ci_low,
        ci_high=row.ci_high,
        seconds=sum(spent for part, spent in seconds(folder).items() if part != "rounds"),
    )
