"""What an export says about itself: the content of ``export.json``."""

from __future__ import annotations

from pydantic import Field

from pipeline.trajectories.schema import Record


def _is_absent(value: int | None) -> bool:
    """What other formats than ``swift`` do not have is not written."""
    return value is None


class StyleReport(Record):
    """One style's subset. ``skipped`` trajectories lack what the style is made of.

    ``dropped_steps`` are steps that ``swift`` leaves out of the trajectories it holds.
    """

    rows: int = 0
    dev_rows: int = 0
    trajectories: int = 0
    skipped: int = 0
    dropped_steps: int | None = Field(default=None, exclude_if=_is_absent)
    spec_digest: str


class ExportReport(Record):
    """The dataset's identity: how it was rendered, from what, and how much there is.

    ``rows`` of a style are those of ``train.jsonl`` and ``dev.jsonl`` together. ``source`` names the
    recipe and whatever else the caller knows of the trajectories. ``history`` is how many past actions an
    input shows, where the format has such a number (``swift``).
    """

    format: str
    renderer: str
    renderer_version: str
    styles: dict[str, StyleReport]
    history: int | None = Field(default=None, exclude_if=_is_absent)
    pairs: bool | None = Field(default=None, exclude_if=_is_absent)
    """Whether rows are pairs to prefer one of; then ``skipped`` of a style counts pairs."""
    source: dict[str, str] = Field(default_factory=dict)
