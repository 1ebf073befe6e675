"""What a tracker may be told of recipes and episodes: nothing secret, and no text that acts as markup."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final, cast

from pipeline.trajectories.files import clean_text
from pipeline.trajectories.schema import Trajectory
from pipeline.trajectories.store import read_trajectories
from pipeline.trajectories.text import printable

COLUMNS: Final = ["training step", "task", "steps", "outcome", "answer", "reward"]
ROWS: Final = 16
"""Episodes of a checkpoint that are shown."""
LONGEST: Final = 4000
"""Characters of an episode that are shown."""
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_SHORTEST = 8
"""Shorter values of such variables are switches and paths' parts, not keys."""
_URL = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)(?:[^\s/?#\"'@]*@)?([^\s?#\"']*)(?:\?[^\s#\"']*)?")
_MARKUP = str.maketrans({"<": "＜", ">": "＞", "`": "'"})


def scrubbed(value: Any) -> Any:
    """A value of JSON without secrets.

    Urls lose logins and queries; what an environment variable holds whose name speaks of a key, a token, a
    secret or a password becomes that name.
    """
    if isinstance(value, str):
        return _without_secrets(_URL.sub(r"\1\2", value))
    if isinstance(value, dict):
        return {scrubbed(key): scrubbed(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [scrubbed(item) for item in cast("list[Any]", value)]
    return value


def harmless(text: str) -> str:
    """Text from outside as plain text: trackers take it for Markdown, and their pages for HTML."""
    shown = "\n".join(map(printable, clean_text(text).split("\n")))
    shown = shown.translate(_MARKUP).replace("![", "! [").replace("](", "] (").replace("]:", "] :")
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def episode_rows(folder: Path, step: int) -> list[list[Any]]:
    """What a checkpoint played, a row an episode, in the order of ``COLUMNS``.

    Args:
        folder: where ``episodes-<step>.jsonl`` lies; without it there are no rows.
        step: the training step of the checkpoint.

    Raises:
        StoreError: the file is damaged.
    """
    path = folder / f"episodes-{step}.jsonl"
    if not path.is_file():
        return []
    # Another attempt at the same step may have left its episodes before these.
    latest = {trajectory.task.id: trajectory for trajectory in read_trajectories(path)}
    return [_row(trajectory, step) for _, trajectory in sorted(latest.items())[:ROWS]]


def _row(played: Trajectory, step: int) -> list[Any]:
    texts = (f"{played.task.id}: {played.task.instruction}", _story(played))
    task, story = (harmless(scrubbed(text)) for text in texts)
    answer = harmless(scrubbed(played.answer or ""))
    return [step, task, story, str(played.outcome), answer, float(played.grade.reward)]


def _story(played: Trajectory) -> str:
    lines: list[str] = [played.opening] if played.opening else []
    for number, step in enumerate(played.steps, 1):
        lines += [f"Thought {number}: {step.thought}"] if step.thought else []
        lines += [f"Action {number}: {step.action}", f"Observation {number}: {step.observation}"]
    return "\n".join(lines)


def _without_secrets(text: str) -> str:
    for name, secret in os.environ.items():
        if len(secret) >= _SHORTEST and _SECRET.search(name) and secret in text:
            text = text.replace(secret, f"${name}")
    return text
