"""``staract evaluate RECIPE checkpoints=<folder>``: every checkpoint on the panel, success against steps."""

from __future__ import annotations

from pathlib import Path

from pipeline.cli.playing import play, results
from pipeline.cli.stages import Job
from pipeline.evaluation.sweep import build_sweep, find_checkpoints, players
from pipeline.evaluation.sweep_figures import no_effect_lines, sweep_sheet, write_sweep
from pipeline.evaluation.tables import to_terminal


def sweep(job: Job, checkpoints: Path) -> None:
    """Play the panel with every checkpoint below a folder; plot success against training steps.

    The entries of the recipe whose model is "student" are played, each by the checkpoints of its style and
    by the base before training. Stopped, the same command goes on.

    Raises:
        StaractError: the folder holds no checkpoint, or the recipe no student for it.
    """
    found, torn = find_checkpoints(checkpoints)
    for path in torn:
        job.log.say(f"evaluate: {path} was not saved to its end; passed over")
    job.log.say(f"evaluate: {len(found)} checkpoints below {checkpoints}")
    who = players(job.recipe, checkpoints, found)
    panel, groups = play(job, job.environment(), [one.entrant for one in who])
    result = build_sweep(job.recipe, panel, who, groups)
    write_sweep(results(job), result)
    job.log.show(to_terminal([sweep_sheet(result)]))
    for line in no_effect_lines(result):
        job.log.say(line)
    job.log.say(f"evaluate: done → {results(job)}/sweep.md")
