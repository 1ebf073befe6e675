"""What an export says about itself: the content of ``export.json``."""

from __future__ import annotations

from pydantic import Field

from pipeline.trajectories.schema import Record


class StyleReport(Record):
    """One style's subset. ``skipped`` trajectories lack what the style is made of."""

    rows: int = 0
    dev_rows: int = 0
    trajectories: int = 0
    skipped: int = 0
    spec_digest: str


class ExportReport(Record):
    """The dataset's identity: how it was rendered, from what, and how much there is.

    ``rows`` of a style are those of ``train.jsonl`` and ``dev.jsonl`` together. ``source`` names the
    recipe and whatever else the caller knows of the trajectories.
    """

    format: str
    renderer: str
    renderer_version: str
    styles: dict[str, StyleReport]
    source: dict[str, str] = Field(default_factory=dict)
