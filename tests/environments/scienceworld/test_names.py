import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.environments.scienceworld.names import BY_ID, BY_NAME, TYPES, chosen_types
from pipeline.environments.scienceworld.splits import listed_panels
from pipeline.errors import RecipeError

# Specs, section 4.2: number, id, name, variations in all, in train, dev and test.
SPEC = [
    (0, "1-1", "boil", 30, 14, 7, 9),
    (2, "6-1", "chemistry-mix", 32, 16, 8, 8),
    (3, "6-2", "chemistry-mix-paint-secondary-color", 36, 18, 9, 9),
    (5, "4-4", "find-animal", 300, 150, 75, 75),
    (9, "1-3", "freeze", 30, 14, 7, 9),
    (10, "5-2", "grow-fruit", 126, 62, 31, 33),
    (12, "8-1", "identify-life-stages-1", 14, 6, 3, 5),
    (13, "8-2", "identify-life-stages-2", 10, 4, 2, 4),
    (15, "9-2", "inclined-plane-friction-named-surfaces", 1386, 692, 346, 348),
    (17, "7-1", "lifespan-longest-lived", 125, 62, 31, 32),
    (20, "2-2", "measure-melting-point-known-substance", 436, 218, 109, 109),
    (25, "3-1", "power-component", 20, 10, 5, 5),
    (27, "3-3", "test-conductivity", 900, 450, 225, 225),
    (29, "2-1", "use-thermometer", 540, 270, 135, 135),
]


@pytest.mark.parametrize("row", SPEC)
def test_the_table_is_the_specification(row):
    index, identity, name, total, *folds = row
    kind = TYPES[index]
    assert (kind.index, kind.id, kind.name, kind.variations) == (index, identity, name, total)
    assert [len(kind.fold(split)) for split in ("train", "dev", "test")] == folds


def test_the_sums_are_the_specification():
    counts = [sum(len(kind.fold(split)) for kind in TYPES) for split in ("train", "dev", "test")]
    assert counts == [3592, 1796, 1819]
    assert len(TYPES) == len(BY_ID) == len(BY_NAME) == 30
    assert [kind.name for kind in TYPES] == sorted(kind.name for kind in TYPES)


def test_folds_follow_each_other_and_leave_nothing_out():
    for kind in TYPES:
        parts = [kind.fold(split) for split in ("train", "dev", "test")]
        assert [number for part in parts for number in part] == list(range(kind.variations))


def test_published_panels():
    panels = {name: ids for name, (split, ids) in listed_panels(TYPES).items() if split == "test"}
    assert {name: len(ids) for name, ids in panels.items()} == {
        "test_first10": 271,
        "test_mini": 90,
        "test_mini_2": 181,
    }
    assert set(panels["test_mini"]) | set(panels["test_mini_2"]) == set(panels["test_first10"])
    assert not set(panels["test_mini"]) & set(panels["test_mini_2"])
    # The fourth quarter of 30 variations begins at 21.
    assert "scienceworld-1-1-0021" in panels["test_mini"] and "scienceworld-1-1-0024" in panels["test_mini_2"]


@given(st.lists(st.sampled_from([name for kind in TYPES for name in (kind.id, kind.name)]), max_size=6))
def test_kinds_are_ids_or_names_in_one_order(kinds):
    chosen = chosen_types(kinds)
    wanted = {kind for kind in TYPES if not kinds or kind.id in kinds or kind.name in kinds}
    assert chosen == tuple(kind for kind in TYPES if kind in wanted)


def test_an_unknown_kind_is_refused_with_those_known():
    with pytest.raises(RecipeError, match=r"'11-1' is not a task of ScienceWorld.*10-2 mendelian"):
        chosen_types(["1-1", "11-1"])


def test_the_published_training_panels_keep_their_share_of_the_long_tasks():
    """Fifty variations of inclined planes and genetics, a hundred of 3-3, all of the others (specs, 4.3)."""
    panels = listed_panels(TYPES)
    sampled = [name for split in ("train", "dev") for name in panels[f"{split}_sampled"][1]]
    assert len(set(sampled)) == len(sampled)
    for kind in TYPES:
        drawn = [name for name in sampled if name.startswith(f"scienceworld-{kind.id}-")]
        everything = len(kind.fold("train")) + len(kind.fold("dev"))
        limit = 100 if kind.id == "3-3" else 50 if kind.id.startswith(("9-", "10-")) else everything
        assert len(drawn) <= limit
        assert len(drawn) == everything or limit < everything
    assert len({name.split("-")[1] + "-" + name.split("-")[2] for name in sampled[:30]}) == 30
