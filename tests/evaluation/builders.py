"""Small episodes, groups and panels for the tests of evaluation."""

from collections.abc import Sequence

from pipeline.evaluation.rows import Group
from pipeline.trajectories.panels import Panel, PanelEntry
from pipeline.trajectories.schema import Grade, Outcome, Step, Task, Trajectory, Usage


def make_task(number: int, gold: str = "Paris", kind: str = "bridge2") -> Task:
    return Task(
        id=f"q{number}",
        environment="atlas",
        split="test",
        kind=kind,
        instruction=f"Number {number}?",
        gold=[gold],
    )


def make_panel(tasks: Sequence[Task], *, attached: bool = True) -> Panel:
    return Panel("test", 0, tuple(PanelEntry.of(t) for t in tasks), tuple(tasks) if attached else None)


def episode(
    task: Task,
    answer: str | None = None,
    *,
    correct: bool | None = None,
    outcome: Outcome = Outcome.FINISHED,
    metrics: dict[str, float] | None = None,
    tag: str = "",
    **fields: object,
) -> Trajectory:
    """An episode whose answer is right when it is the gold one, unless ``correct`` says otherwise."""
    right = (answer == task.gold[0]) if correct is None else correct
    values = {
        "id": f"{task.id}-{tag}",
        "task": task,
        "method": "react",
        "model": "m",
        "outcome": outcome,
        "answer": answer,
        "grade": Grade(
            correct=right, metrics={"em": float(right), "f1": float(right)} if metrics is None else metrics
        ),
        "steps": [Step(action=f"Finish[{answer}]", completion=f"Finish[{answer}]")],
        "usage": Usage(prompt_tokens=10, completion_tokens=2, cost=0.5),
        "seconds": 1.0,
    }
    return Trajectory.model_validate(values | fields)


def verdicts(tasks: Sequence[Task], pattern: str) -> list[Trajectory]:
    """One episode a task by a letter each: y right, n wrong, e model error, s step limit, - missing."""
    made = []
    for task, letter in zip(tasks, pattern, strict=True):
        if letter == "y":
            made.append(episode(task, task.gold[0]))
        elif letter == "n":
            made.append(episode(task, "wrong"))
        elif letter == "e":
            made.append(episode(task, outcome=Outcome.MODEL_ERROR, metrics={}))
        elif letter == "s":
            made.append(episode(task, outcome=Outcome.STEP_LIMIT, metrics={}))
    return made


def prompted(method: str, trajectories: Sequence[Trajectory], model: str = "base") -> Group:
    return Group(method, model, "prompted", trajectories)


def tuned(method: str, trajectories: Sequence[Trajectory], base: str = "base") -> Group:
    return Group(method, "student", "fine-tuned", trajectories, base)
