"""A toy environment and seats for tests of methods."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pipeline.environments.base import ToolSpec
from pipeline.methods.base import Method, Proposal, Seat
from pipeline.models.base import Completion, Request, Sampling
from pipeline.trajectories.schema import Step, Task, Usage

EXEMPLARS = """
version: 3
label: Claim
instructions:
  react: Think and act.
  act: Act.
  cot: Think.
  standard: Answer.
exemplars:
  - task: toy-7
    instruction: Bern is a city.
    answer: "yes"
    cot: Bern is where the parliament sits, so it is a city.
    steps:
      - {thought: I look up Bern., action: "Search[Bern]", observation: Bern is a city.}
      - {thought: So yes., action: "Finish[yes]"}
  - task: toy-8
    instruction: Rome is a river.
    answer: "no"
    cot: Rome is a city.
    steps:
      - {thought: I know., action: "Finish[no]", observation: Episode finished.}
"""


class Toy:
    """An environment of which only what methods look at is there."""

    name = "toy"
    version = "1"
    family = "things"
    label = "Question"
    max_steps = 5
    tools = (ToolSpec("Search", "name", "look a name up"), ToolSpec("Wait", "", "do nothing"))


class Taught(Toy):
    """A toy that points to a file of exemplars."""

    def __init__(self, path: Path) -> None:
        self.exemplars = path


class Recorder:
    """A model that answers from a list and keeps what it was asked."""

    address = "recorder"

    def __init__(self, *answers: str | Completion) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []

    async def generate(self, request: Request) -> Completion:
        self.requests.append(request)
        answer = self.answers.pop(0)
        usage = Usage(prompt_tokens=10, completion_tokens=2, calls=1)
        return answer if isinstance(answer, Completion) else Completion(answer, usage=usage)


class Expert:
    """A model that plays."""

    address = "expert"

    def __init__(self, *played: Step) -> None:
        self.played = played
        self.asked: list[tuple[Any, ...]] = []

    def plays(self, task: Task, environment: Any, seed: int) -> Iterator[Step]:
        self.asked.append((task.id, environment.name, seed))
        return iter(self.played)


def seat(model: Any, environment: Any = None, seed: int = 5) -> Seat:
    task = Task(id="toy-1", environment="toy", split="train", instruction="Is Lima a city?")
    return Seat(task, environment or Toy(), model, Sampling(max_tokens=7), "session-1", seed)


def propose(method: Method, at: Seat, steps: Sequence[Step] = ()) -> Proposal:
    return asyncio.run(method.agent(at).propose(steps))
