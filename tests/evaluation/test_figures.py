"""The figures of curves: readable images, whatever the methods are called."""

import xml.etree.ElementTree as ElementTree

import pytest

from pipeline.evaluation.figures import KINDS, SizePoint, plot_sizes, plot_votes
from pipeline.evaluation.votes import VotePoint

HOSTILE = "a $\\frac{1$ method"


def votes(count):
    return [
        VotePoint(samples=k, episodes=50, mean=0.3, ci_low=0.2, ci_high=0.4, ci_method="bca")
        for k in range(1, count + 1)
    ]


def sizes(*methods):
    return [
        SizePoint(
            method=method, kind=kind, size=size, parameters=number, value=0.3, ci_low=0.31, ci_high=0.29
        )
        for method in methods
        for kind in KINDS
        for size, number in (("1.7B", 1.7e9), ("135M", 1.35e8))
    ]


def words_of(picture):
    root = ElementTree.fromstring(picture)
    return [" ".join(node.itertext()).strip() for node in root.iter() if node.tag.endswith("text")]


@pytest.fixture
def written(monkeypatch):
    import matplotlib

    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")


def test_the_votes_and_the_other_methods_are_named(written):
    picture = plot_votes(votes(21), {"react": 0.35, HOSTILE: 0.2}, metric="em", image_format="svg")
    words = words_of(picture)
    assert {"Exact match on 50 tasks", "samples in the vote", "exact match", "react", HOSTILE} <= set(words)
    assert "vote, with its 95% interval" in words
    assert picture.count(b'id="line2d') > plot_votes(votes(21), {}, metric="em", image_format="svg").count(
        b'id="line2d'
    )


def test_sizes_are_two_panels_with_one_axis_of_sizes(written):
    words = words_of(plot_sizes(sizes("react", HOSTILE), metric="accuracy", image_format="svg"))
    assert {"prompted", "fine-tuned", "react", HOSTILE, "Accuracy by model size"} <= set(words)
    assert words.count("135M") == words.count("1.7B") == 2
    assert words.count("react") == 1


def test_one_point_or_one_panel_is_drawn():
    assert plot_votes(votes(1), {}, metric="f1").startswith(b"\x89PNG")
    assert plot_sizes(sizes("react")[:1], metric="em").startswith(b"\x89PNG")
    assert plot_sizes(sizes(*"abcdefghij"), metric="em").startswith(b"\x89PNG")
