"""Merging class names of which one side dropped one and added it again."""

import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on
from tests.support.merging import check_nobody_can_be_preferred, labels


@pytest.fixture
def main() -> Dataset:
    """Six rows, none an owl; the class was added since the dataset was made."""
    ds = create_on(MemoryStore(), {"label": tl.ClassLabel(["cat", "dog"])})
    ds.extend({"label": ["cat", "dog"] * 3})
    ds.commit("six")
    ds["label"].add_names(["owl"])
    ds.commit("owl")
    return ds


@pytest.mark.parametrize("drops", ["main", "fix"])
def test_a_class_that_one_side_dropped_and_added_again_is_the_one_the_other_still_has(main, drops):
    fix = main.branch("side")
    one, other = (main, fix) if drops == "main" else (fix, main)
    one["label"].drop_names(["owl"])
    one.commit("dropped")
    one["label"].add_names(["emu", "owl"])
    one["label"][0] = "owl"
    one.commit("added again")
    other["label"][2] = "owl"
    other.commit("in use")

    main.merge("side")
    fix.merge("main")
    fix["label"][4] = "owl"
    fix.commit("and again")
    main.merge("side")

    for ds in (main, fix):
        assert labels(ds) == ["owl", "dog", "owl", "dog", "owl", "dog"]
        assert sorted(name for name in ds["label"].names if name) == ["cat", "dog", "emu", "owl"]
        assert len(ds.query("SELECT * WHERE label = 'owl'")) == 3


def test_a_class_that_both_dropped_and_added_again_is_one(main):
    fix = main.branch("side")
    for row, ds in enumerate((main, fix)):
        ds["label"].drop_names(["owl"])
        ds["label"].add_names(["owl"])
        ds["label"][row] = "owl"
        ds.commit("dropped and added again")

    main.merge("side")

    assert labels(main)[:3] == ["owl", "owl", "cat"]


def test_a_class_added_again_on_one_side_and_renamed_on_the_other_can_be_preferred_by_nobody(main):
    fix = main.branch("side")
    main["label"].drop_names(["owl"])
    main["label"].add_names(["owl"])
    main.commit("added again")
    fix["label"].rename("owl", "eagle")
    fix["label"][1] = "eagle"
    fix.commit("renamed")

    check_nobody_can_be_preferred(main, "side", "added it again, the other renamed it to 'eagle'")

    main["label"].rename("owl", "eagle")
    main.commit("the same name")
    main.merge("side")
    assert labels(main)[:2] == ["cat", "eagle"]
