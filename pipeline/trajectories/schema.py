"""The schema of a trajectory: the only thing that every stage of the pipeline shares.

Models here are plain data (pydantic). They are written as one JSON object a line, in UTF-8, with
non-ASCII characters kept. ``SCHEMA_VERSION`` rises whenever an old line could be read wrongly.
"""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1

Split = Literal["train", "dev", "test"]
StopReason = Literal["stop", "length", "error"]


class Record(BaseModel):
    """Base of everything that is stored: no unknown keys, no silent coercion of wrong types."""

    model_config = ConfigDict(extra="forbid", frozen=False, strict=True)


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text, so it can be hashed."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def digest(value: Any, length: int = 16) -> str:
    """The first ``length`` hexadecimal digits of the SHA-256 of ``canonical_json(value)``."""
    text = canonical_json(value).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:length]


class Task(Record):
    """One problem of an environment.

    ``instruction`` is what the agent is shown (``Question: …`` without the label). ``gold`` holds
    every accepted answer, best first. ``kind`` is the type used for balancing (``bridge2``,
    ``SUPPORTS``, …). ``meta`` carries the derivation and anything an environment needs again; its key
    ``problem`` names the problem where the instruction alone does not (the same words, another world).
    """

    id: str
    environment: str
    family: str = ""
    split: str
    kind: str = ""
    instruction: str
    gold: list[str] = Field(default_factory=list)
    meta: dict[str, Any] = Field(default_factory=dict)

    @property
    def problem(self) -> str:
        """The words by which two tasks are known to be the same problem, whatever their ids."""
        named = self.meta.get("problem")
        return named if isinstance(named, str) else self.instruction

    @property
    def content_hash(self) -> str:
        """Hash of what makes the task the same problem, whatever its id."""
        content = [self.environment, self.family, self.instruction, self.gold]
        return digest(content if self.problem == self.instruction else [*content, self.problem])


class Usage(Record):
    """What a call cost. ``cached_tokens`` are prompt tokens whose keys and values were reused."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    calls: int = 0
    seconds: float = 0.0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        mine, theirs = self.model_dump(), other.model_dump()
        return Usage(**{key: mine[key] + theirs[key] for key in mine})


class Step(Record):
    """One turn: what the model meant, what it really wrote, what the environment answered.

    ``completion`` is the model's raw text. ``flags`` name what the parser had to do about it
    (``hallucinated_observation``, ``truncated``, ``no_action``, ``repaired``, …).
    ``invalid`` is the environment's word: the action was not one that it could carry out.
    ``info`` is what else the environment showed of its state after the action, by name.
    ``votes`` are the answers of a vote (CoT-SC), one a sample in the order of sampling, empty where a
    sample has none; ``candidates`` are the raw texts of these samples.
    """

    thought: str = ""
    action: str = ""
    observation: str = ""
    reward: float = 0.0
    score: float | None = None
    completion: str = ""
    stop_reason: StopReason = "stop"
    flags: list[str] = Field(default_factory=list)
    invalid: bool = False
    usage: Usage = Field(default_factory=Usage)
    info: dict[str, str] = Field(default_factory=dict)
    votes: list[str] = Field(default_factory=list)
    candidates: list[str] = Field(default_factory=list)


class Outcome(StrEnum):
    """How an episode ended. Only ``FINISHED`` can be correct; the others say whose limit it was."""

    FINISHED = "finished"
    """The agent ended the episode itself, or the environment declared it over."""
    STEP_LIMIT = "step_limit"
    """The agent used its last step, token or second without finishing."""
    CONTEXT_LIMIT = "context_limit"
    """The next prompt would not fit the model."""
    FORMAT_ERROR = "format_error"
    """The model wrote nothing that can be read as an action, as often as the recipe allows."""
    ENVIRONMENT_ERROR = "environment_error"
    """The environment failed: not the agent's fault, reported apart from wrong answers."""
    MODEL_ERROR = "model_error"
    """The model could not be asked: not the agent's fault either."""


ERRORED = frozenset({Outcome.ENVIRONMENT_ERROR, Outcome.MODEL_ERROR})
"""Outcomes that are not the agent's fault."""


class Grade(Record):
    """The environment's own verdict on an episode.

    ``correct`` is never true for an unanswered or failed episode. ``metrics`` holds whatever the
    environment measures (``em``, ``f1``, ``accuracy``, ``score``), each between 0 and 1.
    """

    correct: bool = False
    reward: float = 0.0
    metrics: dict[str, float] = Field(default_factory=dict)


class Trajectory(Record):
    """The steps of one episode with everything needed to repeat, select, train on or grade it."""

    version: int = SCHEMA_VERSION
    id: str
    task: Task
    method: str
    model: str
    settings: dict[str, Any] = Field(default_factory=dict)
    sample: int = 0
    seed: int = 0
    opening: str = ""
    """The environment's first observation, before any step."""
    steps: list[Step] = Field(default_factory=list)
    outcome: Outcome
    answer: str | None = None
    grade: Grade = Field(default_factory=Grade)
    error: str | None = None
    usage: Usage = Field(default_factory=Usage)
    seconds: float = 0.0
    versions: dict[str, str] = Field(default_factory=dict)


def trajectory_id(task: Task, method: str, model: str, settings: dict[str, Any], sample: int) -> str:
    """The identity of an episode: the same for the same question asked in the same way."""
    return digest([task.id, task.content_hash, method, model, settings, sample])


def episode_seed(identity: str, run_seed: int) -> int:
    """A 63-bit seed from the episode's identity and the run's seed, never from scheduling."""
    return int(digest([identity, run_seed], length=16), 16) >> 1
