from __future__ import annotations

from dataclasses import replace

from pipeline.rendering.base import Exemplar, PromptSpec
from pipeline.rendering.digest import spec_digest

SPEC = PromptSpec("react", "Question", "Think and act.")


def test_exemplars_do_not_count_and_all_else_does() -> None:
    shot = replace(SPEC, exemplars=(Exemplar("q", (), "a"),))
    assert spec_digest(shot) == spec_digest(SPEC)
    changed = [replace(SPEC, style="act"), replace(SPEC, label="Claim"), replace(SPEC, instruction="Act.")]
    assert len({spec_digest(spec) for spec in [SPEC, *changed]}) == 4


def test_the_value_is_the_same_for_ever() -> None:
    # printf '["react","Question","Think and act."]' | sha256sum
    assert spec_digest(SPEC) == "ba24cfe42e36bd5b"
