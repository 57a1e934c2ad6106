"""What a user meets before the reference: completion, help(), what is printed of a slip."""

import copy
import pickle
import re
import traceback
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl

REFERENCE = (Path(__file__).parents[4] / "docs/reference/sdk.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def ds():
    schema = {"label": tl.ClassLabel(["cat", "dog"]), "x": "int64"}
    with tl.create("memory://face", schema) as made:
        made.extend({"label": ["dog", "cat", "dog"], "x": [1, 2, 3]})
        made.commit("three")
        yield made


def offered(thing):
    return [name for name in dir(thing) if not name.startswith("_")]


def unknown_to_the_reference(names):
    return [name for name in names if not re.search(rf"\b{name}\b", REFERENCE)]


def test_completion_offers_what_the_reference_names_and_nothing_else(ds):
    assert unknown_to_the_reference(offered(ds)) == []
    assert unknown_to_the_reference(offered(ds.query("WHERE x > 1"))) == []
    assert {"query", "commit", "torch"} <= {*offered(ds)}


def test_completion_of_the_module_is_its_names_and_modules():
    assert offered(tl) == sorted({*tl.__all__, "list", "open", "testing"})


def test_help_and_a_pool_of_processes_know_the_functions_by_the_users_name():
    assert f"{tl.open.__module__}.{tl.open.__qualname__}" == "tensorlake.open"
    assert f"{tl.list.__module__}.{tl.list.__qualname__}" == "tensorlake.list"
    assert pickle.loads(pickle.dumps(tl.open)) is tl.open


def test_a_slip_in_a_query_shows_no_insides_of_the_engine(ds):
    with pytest.raises(tl.QueryError) as raised:
        ds.query("WHERE lable = 'cat'")

    printed = "".join(traceback.format_exception(raised.value))
    assert printed.count("no tensor or function 'lable'") == 1
    assert "tensorlake_query" not in printed


GROUPED = "SELECT label, COUNT(*) AS n GROUP BY label ORDER BY n DESC"


def test_classes_that_a_query_computed_keep_their_names(ds):
    counts = ds.query(GROUPED)

    assert counts["label"].as_names() == ["dog", "cat"]
    assert counts[0]["label"] == "dog"
    assert "1 'dog'" in repr(counts[0])
    assert counts.to_numpy()["label"].tolist() == [1, 0]


def test_classes_that_a_query_computed_are_categories_of_pandas(ds):
    pytest.importorskip("pandas")

    frame = ds.query(GROUPED).to_pandas()

    assert frame["label"].tolist() == ["dog", "cat"]
    assert frame["label"].cat.categories.tolist() == ["cat", "dog"]


def test_a_row_goes_to_another_process_as_its_values(ds):
    row = pickle.loads(pickle.dumps(ds[0]))

    assert row == {"label": 1, "x": 1}
    assert copy.copy(ds[0])["label"] == "dog"


def test_in_asks_for_columns_and_refuses_the_rest(ds):
    assert "label" in ds
    assert "n" in ds.query(GROUPED)
    assert "lable" not in ds
    with pytest.raises(tl.InvalidInputError, match="rows are found by conditions"):
        _ = 3 in ds


def test_a_box_without_a_class_is_refused_when_classes_are_one_each():
    schema = {"boxes": tl.BBox(), "label": tl.ClassLabel(["cat"], per="boxes", nullable=True)}
    with tl.create("memory://face-pairs", schema) as made:
        made.extend({"boxes": [[], [[1, 2, 3, 4]]], "label": [[], None]})

        with pytest.raises(tl.ShapeMismatchError, match=r"row 1 of extend\(\): 'label' has 2"):
            made.extend({"boxes": [[], [[1, 2, 3, 4]]], "label": [[], ["cat", "cat"]]})

        assert len(made) == 2
        made.discard()


def test_what_has_no_codec_of_its_own_is_printed_without_a_gap():
    with tl.create("memory://face-masks", {"mask": tl.InstanceMask()}) as made:
        made.append({"mask": np.zeros((2, 4, 5), bool)})

        made.commit("two masks")

        assert "  mask  2×4×5, " in repr(made[0])


def test_numbers_of_a_row_are_written_without_exponents_while_they_are_short():
    with tl.create("memory://face-numbers", {"area": tl.Array("float32", (None,))}) as made:
        made.append({"area": [148393.39, 0.00001, 3e12]})
        made.commit("areas")

        assert "[148393, 1e-05, 3e+12]" in repr(made[0])
