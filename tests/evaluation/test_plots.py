"""The bar chart: a readable image whatever the rows are called."""

import re
import struct
import xml.etree.ElementTree as ElementTree

import pytest

from pipeline.evaluation.plots import MAX_BARS, draw_bars, label
from pipeline.evaluation.rows import Group, Settings, build_rows
from tests.evaluation.builders import make_panel, make_task, prompted, tuned, verdicts

TASKS = [make_task(i) for i in range(6)]
NAMES = ["base", "a $\\frac{1$ model", "<svg>&", "模型 \U0001f600", "x" * 500]


def rows_of(*groups):
    return build_rows(make_panel(TASKS), groups, Settings(resamples=199))


def draw(rows, image_format="png"):
    return draw_bars(rows, metric="em", confidence=0.95, split="test", image_format=image_format)


@pytest.fixture(scope="module")
def rows():
    baselines = [prompted("act", verdicts(TASKS, "ynnn-e"), model=name) for name in NAMES]
    return rows_of(tuned("react", verdicts(TASKS, "yyyyyn")), *baselines)


def test_the_picture_is_a_png_that_grows_with_the_rows(rows):
    def size(picture):
        assert picture.startswith(b"\x89PNG\r\n\x1a\n")
        return struct.unpack(">II", picture[16:24])

    wide, tall = size(draw(rows))
    assert (wide, size(draw(rows[:2]))[0]) == (1200, 1200)
    assert size(draw(rows[:2]))[1] < tall < 1200


def test_the_picture_prints_title_values_and_both_kinds(rows, monkeypatch):
    import matplotlib

    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
    root = ElementTree.fromstring(draw(rows, "svg"))
    words = [" ".join(node.itertext()).strip() for node in root.iter() if node.tag.endswith("text")]
    assert "Exact match on 6 test tasks" in words
    assert "exact match with its 95% interval" in words
    assert words.count("0.17") == len(NAMES)
    assert {"0.83", "fine-tuned", "prompted", "react × student"} <= set(words)
    assert any("$\\frac{1$" in word for word in words)


def test_one_row_of_one_kind_is_drawn():
    assert draw(rows_of(Group("act", "base", "prompted", []))).startswith(b"\x89PNG")


def test_more_rows_than_can_be_read_are_cut():
    many = rows_of(*(prompted("act", [], model=f"m{i}") for i in range(MAX_BARS + 1)))
    assert draw(many) == draw(many[:MAX_BARS])


def test_labels_are_short_printable_lines():
    folded = label("act × " + "long model " * 20 + "\x1b[0m\u2028")
    assert len(folded.splitlines()) == 3
    assert all(len(line) <= 26 for line in folded.splitlines())
    assert folded.endswith("…")
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", label("a\x1bb\tc"))
