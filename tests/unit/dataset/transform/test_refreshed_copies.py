"""``refresh_copy``: a copy follows its source, and keeps what a hand changed in it."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import (
    ConflictError,
    InvalidInputError,
    InvalidStateError,
    ReadOnlyError,
    UncommittedChangesError,
)


def doubled(x):
    return 2 * x


ENCODE = {"x": (doubled, "int64")}
FUNCTIONS = {"x": doubled}


def table(ds):
    """The rows of a dataset by y, with the names of classes."""
    rows = (ds[at] for at in range(len(ds)))
    return {int(row["y"]): (int(row["x"]), str(row["label"]).partition(" ")[2]) for row in rows}


def test_rows_that_are_new_changed_and_gone_are_one_commit(source, url):
    copy = source.query("WHERE y < 100").materialize(url, encode=ENCODE)
    source.extend({"x": [5, 6], "y": [50, 600], "label": ["dog", "dog"]})
    source["x"][1] = 100
    source.delete([0])
    source.commit("three changes")

    report = copy.refresh_copy(functions=FUNCTIONS)

    assert (report.added, report.updated, report.deleted, report.unchanged) == (1, 1, 1, 2)
    assert copy["x"][:].tolist() == [200, 4, 6, 10]
    assert copy["y"][:].tolist() == [10, 20, 30, 50]
    assert next(one.message for one in copy.log()) == (
        f"copy: 1 row added, 1 row updated, 1 row deleted from {source.url} main@2"
    )
    assert report.commits == ["main@2"] == [copy.version]


def test_a_refresh_without_changes_commits_nothing(source, url):
    copy = source[:].materialize(url, encode=ENCODE)
    source.add_tensor("beside", "int64", fill=0)
    source.commit("a column that the copy does not have")

    for _ in range(2):
        report = copy.refresh_copy(functions=FUNCTIONS)
        assert (report.added, report.updated, report.unchanged, report.commits) == (0, 0, 4, [])
    assert copy.version == "main@1"
    assert "beside" not in copy.schema


def test_only_rows_that_changed_are_made_again(source, url):
    calls = []

    def noted(x):
        calls.append(int(x))
        return x

    copy = source[:].materialize(url, encode={"x": (noted, "int64")})
    source["y"][2] = 21
    source.commit()
    calls.clear()
    copy.refresh_copy(functions={"x": noted})

    assert calls == [2]


def test_a_source_that_was_reverted_takes_the_copy_back(source, url):
    copy = source[:].materialize(url, encode={})
    before = table(copy)
    source["x"][:] = 9
    source.delete([3])
    source.commit("changed")
    copy.refresh_copy()
    assert table(copy) != before
    source.restore("main@1")
    if source.has_changes:
        source.commit("as before")
    copy.refresh_copy()

    assert table(copy) == before


def test_what_a_hand_changed_stays_unless_the_source_changed_it_too(source, url):
    copy = source[:].materialize(url, encode={})
    copy["x"][0] = -1  # by hand alone
    copy["x"][1] = -1  # also at the source
    copy.commit("by hand")
    source["x"][1] = 100
    source["x"][2] = 200
    source.commit()

    report = copy.refresh_copy()

    assert copy["x"][:].tolist() == [-1, -1, 200, 3]
    assert [(one.tensor, one.row) for one in report.conflicts] == [("x", 1)]
    assert [(one.tensor, one.row) for one in copy.refresh_copy().conflicts] == [("x", 1)]
    with pytest.raises(ConflictError, match="changed by hand"):
        copy.refresh_copy(on_conflict="error")
    assert not copy.has_changes
    copy.refresh_copy(on_conflict="source")
    assert copy["x"][:].tolist() == [-1, 100, 200, 3]


def test_a_row_that_a_hand_deleted_stays_deleted(source, url):
    copy = source[:].materialize(url, encode={})
    copy.delete([1])
    copy.commit()

    report = copy.refresh_copy()

    assert len(copy) == 3
    assert len(report.conflicts) == 1
    copy.refresh_copy(on_conflict="source")
    assert sorted(copy["y"][:].tolist()) == [0, 10, 20, 30]


def test_rows_that_a_hand_added_stay(source, url):
    copy = source[:].materialize(url, encode={})
    copy.append({"x": 7, "y": 70, "label": None})
    copy.commit()
    source.delete([0, 1, 2])
    source.commit()

    copy.refresh_copy()

    assert sorted(copy["y"][:].tolist()) == [30, 70]


def test_rows_chosen_by_hand_are_followed_and_repeats_of_them(source, url):
    copy = source[[3, 1, 1]].materialize(url, encode={})
    source["x"][1] = 100
    source.extend({"x": [5], "y": [50], "label": [None]})
    source.commit()

    copy.refresh_copy()

    assert copy["x"][:].tolist() == [3, 100, 100]
    source.delete([1])
    source.commit()
    copy.refresh_copy()
    assert copy["x"][:].tolist() == [3]


def test_columns_that_a_query_computes_are_computed_again(source, url):
    copy = source.query("SELECT y, x + 1 AS z").materialize(url, encode={})
    source["x"][2] = 50
    source.commit()

    report = copy.refresh_copy()

    assert (report.updated, copy["z"][:].tolist()) == (1, [1, 2, 51, 4])


def test_an_expression_of_the_source_becomes_values(source, url):
    source.add_tensor("sum", "int64", compute="x + y")
    source.commit()
    copy = source[:].materialize(url, encode={})
    source["x"][0] = 5
    source.commit()

    copy.refresh_copy()

    assert copy["sum"][:].tolist() == [5, 11, 22, 33]


def test_classes_follow_by_name(source, url):
    copy = source[:].materialize(url, encode={})
    source["label"].add_names(["fox"])
    source["label"][0] = "fox"
    source["label"].rename("dog", "hound")
    source.commit()

    copy.refresh_copy()

    assert table(copy) == table(source)


def test_renamed_columns_are_the_same_on_both_sides(source, url):
    copy = source[:].materialize(url, encode=ENCODE)
    source.rename_tensor("x", "width")
    source["width"][0] = 50
    source.commit()
    copy.rename_tensor("y", "height")
    copy.commit()

    copy.refresh_copy(functions=FUNCTIONS)

    assert copy["x"][:].tolist() == [100, 2, 4, 6]
    assert list(copy.schema) == ["x", "height", "label"]


def test_a_column_that_the_copy_gave_up_is_not_missed(source, url):
    copy = source[:].materialize(url, encode=ENCODE)
    copy.drop_tensor("x")
    copy.commit()
    source["y"][0] = 5
    source.commit()

    copy.refresh_copy()

    assert copy["y"][:].tolist() == [5, 10, 20, 30]


def test_boxes_are_scaled_where_the_copy_gave_up_their_image(url):
    ds = tl.create(f"{url}-of", {"image": tl.Image("png"), "boxes": tl.BBox(of="image")})
    ds.extend({"image": [np.zeros((8, 8, 3), np.uint8)], "boxes": [[[0, 0, 8, 8]]]})
    ds.commit()
    copy = ds[:].materialize(url, encode={"image": tl.Image("png", max_side=4)})
    copy.drop_tensor("image")
    copy.commit()
    ds["boxes"][0] = [[0, 0, 4, 4]]
    ds.commit()

    copy.refresh_copy()

    assert copy["boxes"][0].tolist() == [[0, 0, 2, 2]]


def test_a_branch_of_the_source_is_followed(source, url):
    side = source.branch("side")
    side["x"][0] = 5
    side.commit()
    copy = side[:].materialize(url, encode={})
    side["x"][1] = 6
    side.commit()
    source["x"][2] = 7
    source.commit()

    copy.refresh_copy()
    assert copy["x"][:].tolist() == [5, 6, 2, 3]


def test_versions_that_expired_are_compared_by_their_digests(source, url):
    copy = source[:].materialize(url, encode=ENCODE)
    for number in range(3):
        source["x"][0] = 50 + number
        source.commit()
    source.expire(keep_last=1, older_than="0s")
    report = copy.refresh_copy(functions=FUNCTIONS)

    assert (report.updated, report.unchanged) == (1, 3)
    assert copy["x"][:].tolist() == [104, 2, 4, 6]


def test_changes_that_are_not_committed_may_be_copied_and_are_followed(source, url):
    source.append({"x": 4, "y": 40, "label": None})
    copy = source[:].materialize(url, encode={})
    assert len(copy) == 5
    source.discard()

    report = copy.refresh_copy()

    assert (report.deleted, len(copy)) == (1, 4)


def test_a_view_of_no_rows_is_followed(source, url):
    copy = source.query("WHERE x > 100").materialize(url, encode={})
    assert len(copy) == 0
    source["x"][0] = 101
    source.commit()

    assert copy.refresh_copy().added == 1
    source["x"][0] = 0
    source.commit()
    assert copy.refresh_copy().deleted == 1


def test_functions_are_given_again(source, url):
    copy = source[:].materialize(url, encode=ENCODE)
    source["x"][0] = 1
    source.commit()

    with pytest.raises(InvalidStateError, match=r"functions=\{'x': doubled\}"):
        copy.refresh_copy()
    with pytest.raises(InvalidStateError, match="not the function that made column"):
        copy.refresh_copy(functions={"x": lambda x: 3 * x})
    with pytest.raises(InvalidInputError, match="which no function made"):
        copy.refresh_copy(functions={**FUNCTIONS, "y": doubled})
    with pytest.raises(InvalidInputError, match="which no function made"):
        copy.refresh_copy(functions={**FUNCTIONS, "nothing": doubled})


def test_what_cannot_be_refreshed_is_refused(source, url):
    plain = source[:].materialize(url)
    with pytest.raises(InvalidStateError, match=r"materialize\(url, encode=\{\}\)"):
        plain.refresh_copy()
    copy = source[:].materialize(f"{url}-copy", encode={})
    with pytest.raises(InvalidInputError, match="'keep', 'source', 'error'"):
        copy.refresh_copy(on_conflict="theirs")
    source["x"][0] = 9
    source.commit()
    with pytest.raises(ReadOnlyError):
        tl.open(copy.url, read_only=True).refresh_copy()
    copy["x"][0] = 1
    with pytest.raises(UncommittedChangesError, match="not part of the refresh"):
        copy.refresh_copy()


def test_a_handle_that_stayed_behind_is_refreshed_first(source, url):
    copy = source[:].materialize(url, encode={})
    behind = tl.open(copy.url)
    source["x"][0] = 5
    source.commit()
    copy.refresh_copy()
    source["x"][1] = 6
    source.commit()

    behind.refresh_copy()

    assert behind["x"][:].tolist() == [5, 6, 2, 3]


def test_all_rows_may_be_replaced(source, url):
    copy = source[:].materialize(url, encode={})
    source.delete([0, 1, 2, 3])
    source.append({"x": 7, "y": 70, "label": "cat"})
    source.commit()

    report = copy.refresh_copy()

    assert (report.added, report.deleted, table(copy)) == (1, 4, {70: (7, "'cat'")})


def test_two_refreshes_at_once_bring_each_row_once(source, url):
    copy = source[:].materialize(url, encode={})
    source.extend({"x": [7, 8], "y": [70, 80], "label": [None, None]})
    source["x"][0] = 5
    source.commit()
    handles = [tl.open(copy.url) for _ in range(3)]
    start = threading.Barrier(3)
    errors = []

    def refresh(handle):
        start.wait()
        try:
            handle.refresh_copy()
        except ConflictError as error:
            errors.append(error)

    threads = [threading.Thread(target=refresh, args=[one]) for one in handles]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert len(errors) < 3
    copy.refresh()
    copy.refresh_copy()
    assert table(copy) == table(source)
    assert len(copy) == 6


def test_a_copy_of_a_copy_follows_it(source, url):
    first = source[:].materialize(url, encode=ENCODE)
    second = first.query("WHERE x > 2").materialize(f"{url}-second", encode={})
    source["x"][0] = 50
    source.commit()
    first.refresh_copy(functions=FUNCTIONS)
    second.refresh_copy()

    assert sorted(second["x"][:].tolist()) == [4, 6, 100]


def test_the_rows_of_a_copy_name_their_source(source, url):
    copy = source[:].materialize(url, encode={})

    assert copy.query("SELECT _source")["_source"][0].endswith(source.row_ids[0])


def test_an_optimized_source_and_an_optimized_copy_change_nothing(source, url):
    copy = source[:].materialize(url, encode={})
    source["x"][0] = 5
    source.commit()
    copy.refresh_copy()
    source.optimize(order_by="x DESC")
    copy.optimize(order_by="y DESC")

    report = copy.refresh_copy()

    assert (report.added, report.updated, report.deleted, len(report.conflicts)) == (0, 0, 0, 0)
    source["x"][0] = 500
    source.commit()
    copy.refresh_copy()
    assert table(copy) == table(source)
