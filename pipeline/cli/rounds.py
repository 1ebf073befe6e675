"""The stage ``rounds``: the student generates, failures are rationalised, and the base is trained anew.

Every round is a run of its own, ``<name>-round-<n>`` beside round 0, with a recipe of its own
(``round.yaml``), so that each of its stages goes on by itself wherever it was stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import yaml
from pydantic import ValidationError

from pipeline.bootstrap.rounds import best_round, round_recipe, stops
from pipeline.cli import collect, compare
from pipeline.cli.clock import clocked
from pipeline.cli.round import Course, collect_round, dev_reward, measured, plan_rounds, select_round
from pipeline.cli.stages import Job
from pipeline.errors import StoreError
from pipeline.evaluation.report import load_report
from pipeline.evaluation.rounds_report import Round, Rounds, rounds_sheet, write_rounds
from pipeline.evaluation.tables import to_terminal
from pipeline.training.launch import config_file
from pipeline.trajectories.files import read_json, write_json, write_text
from pipeline.trajectories.panels import save_panel
from pipeline.trajectories.run import open_run

DONE: Final = "round.json"
"""What a finished round came to. Where it is, the round is not looked at again."""
RECIPE: Final = "round.yaml"
"""The recipe of a later round, which the training program reads."""


def rounds(job: Job) -> None:
    """Play round after round until one does not help; the table is written after each.

    Raises:
        StaractError: as any stage.
    """
    course = plan_rounds(job.recipe)
    gain, jobs = course.rounds.gain, [job]
    done = [_finish(course, job, 0)]
    _report(course, job, done)
    while len(done) <= course.rounds.most and not stops([one.dev for one in done], gain):
        number = len(done)
        jobs.append(_round_job(job, course, number))
        _perform(course, jobs, number)
        done.append(_finish(course, jobs[-1], number))
        _report(course, job, done)
    dev = [one.dev for one in done]
    reason = "the last did not help" if stops(dev, gain) else "no more were asked for"
    job.log.say(
        f"rounds: {len(done) - 1} after round 0; {reason}. The best on dev is round {best_round(dev)}"
    )


def _round_job(job: Job, course: Course, number: int) -> Job:
    """The job of a later round, with its recipe written where training finds it."""
    recipe = round_recipe(job.recipe, number, [course.rounds.dev])
    if recipe.train and recipe.train.accelerate:
        # Looked for from where the whole recipe lies, as in round 0.
        path = str(config_file(recipe.train.accelerate, job.path).absolute())
        recipe = recipe.model_copy(update={"train": recipe.train.model_copy(update={"accelerate": path})})
    run = open_run(job.run.folder.parent, recipe)
    written = yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    write_text(run.folder / RECIPE, written)
    return Job(recipe, run.folder / RECIPE, (), run, job.checkpoints, job.log)


def _perform(course: Course, jobs: Sequence[Job], number: int) -> None:
    """Collect, select, export, train and evaluate; each part goes on where it was stopped."""
    before, job = jobs[number - 1], jobs[number]
    folder, panel = job.run.folder, course.panels[number - 1]
    if (folder / DONE).exists():
        return
    save_panel(folder / "panel.json", panel)
    job.log.say(f"round {number}: {len(panel)} new tasks for the student of round {number - 1}")
    asyncio.run(collect_round(course, before, job, panel.tasks))
    with clocked(folder, "select"):
        select_round(course, before, job)
    with clocked(folder, "export"):
        collect.export(job)
    with clocked(folder, "train"):
        compare.train(job)
    with clocked(folder, "evaluate"):
        compare.evaluate(job)


def _finish(course: Course, job: Job, number: int) -> Round:
    """What a round came to: read where it is finished, else measured and noted.

    Raises:
        StoreError: the note is damaged, or a part of the round is missing.
    """
    path = job.run.folder / DONE
    if path.exists():
        try:
            return Round.model_validate(read_json(path))
        except ValidationError:
            raise StoreError(f"{path} is not a round's result: remove it, and run again") from None
    job.needs(job.run.report / "report.json", "evaluate")
    with clocked(job.run.folder, "dev"):
        dev = asyncio.run(dev_reward(course, job))
    result = measured(course, job, number, dev)
    write_json(path, result.model_dump(mode="json"))
    return result


def _report(course: Course, job: Job, done: Sequence[Round]) -> None:
    """Write and show the table of the rounds so far."""
    test = load_report(job.run.report)
    result = Rounds(
        recipe=job.recipe.name,
        metric=test.metric,
        confidence=test.confidence,
        test_tasks=test.panel.size,
        dev_tasks=len(course.dev),
        best=best_round([one.dev for one in done]),
        rounds=list(done),
    )
    write_rounds(job.run.folder / "rounds", result)
    job.log.show(to_terminal([rounds_sheet(result)]))
    job.log.say(f"rounds: table → {job.run.folder}/rounds/rounds.md")
