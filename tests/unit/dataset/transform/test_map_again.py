"""``map(to=)`` again, after its source changed: added, changed and gone rows; conflicts; kills."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.transform.map import dataset as map_to

_names = itertools.count()


@pytest.fixture
def ds():
    made = tl.create(
        f"memory://map-again-{next(_names)}",
        {"x": "int64", "other": "int64", "label": tl.ClassLabel(["cat", "dog"])},
    )
    made.extend({"x": np.arange(10), "other": np.zeros(10, np.int64), "label": ["cat", "dog"] * 5})
    made.commit("rows")
    return made


class Function:
    """Squares x, and notes for which rows it was called."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __call__(self, row):
        if isinstance(row["x"], np.ndarray):
            self.seen += row["x"].tolist()
            return {"y": row["x"] ** 2}
        self.seen.append(int(row["x"]))
        return {"y": row["x"] ** 2}


def mapped(ds, function, **options):
    given = {"columns": ["x"], "schema": {"y": "int64"}, "to": f"{ds.url}-to", "workers": 1}
    return ds.map(function, **{**given, **options})


def test_the_same_call_maps_what_is_new_and_what_changed(ds):
    mapped(ds, Function())
    ds.extend({"x": [20, 21], "other": [0, 0], "label": ["cat", "cat"]})
    ds["x"][3] = 30
    ds["other"][5] = 1  # not a column that the function gets
    ds.commit("changed")

    again = Function()
    made = mapped(ds, again)
    report = made.map_report

    assert again.seen == [30, 20, 21]
    assert made["y"][:].tolist() == [0, 1, 4, 900, 16, 25, 36, 49, 64, 81, 400, 441]
    assert (report.rows, report.updated, report.already_there, report.vanished) == (3, 1, 9, 0)
    assert (report.rows_made, report.conflicts, made.version) == (2, (), "main@2")
    assert "mapped 3 rows" in str(report)
    assert "; 1 row had changed; 9 rows were processed before" in str(report)


def test_an_unchanged_source_calls_nothing_reads_nothing_and_commits_nothing(ds, monkeypatch):
    mapped(ds, Function())
    monkeypatch.setattr(map_to.MapItems, "stamps", _stamps_of_none(map_to.MapItems.stamps))

    again = Function()
    made = mapped(ds, again)

    assert (again.seen, made.version, made.map_report.already_there) == ([], "main@1", 10)


def _stamps_of_none(_):
    def stamps(_items, some):
        assert not len(some)
        return np.zeros(0, np.uint64)

    return stamps


def test_rows_are_compared_by_digest_where_their_versions_are_gone(ds):
    mapped(ds, Function())
    ds["x"][3] = 30
    ds.commit("changed")
    ds.extend({"x": [20], "other": [0], "label": ["cat"]})
    ds.commit("added")
    ds.expire(keep_last=1)

    again = Function()
    made = mapped(tl.open(ds.url), again)

    assert again.seen == [30, 20]
    assert made["y"][3] == 900


def test_outputs_of_rows_that_are_gone_are_reported_and_deleted_where_asked(ds):
    mapped(ds, Function())
    ds.delete([2, 4])
    ds.commit("deleted")

    for _ in range(2):
        kept = mapped(ds, Function())
        assert (kept.map_report.vanished, kept.map_report.deleted, len(kept)) == (2, 0, 10)
        assert "2 rows are gone, their outputs kept; to remove: delete=True" in str(kept.map_report)
    made = mapped(ds, Function(), delete=True)

    assert made["y"][:].tolist() == [0, 1, 9, 25, 36, 49, 64, 81]
    assert (made.map_report.vanished, made.map_report.deleted) == (2, 2)
    assert mapped(ds, Function(), delete=True).map_report.vanished == 0


def test_a_row_that_comes_back_with_another_value_is_mapped_again(ds):
    call = {"where": "other = 0"}
    mapped(ds, Function(), **call)
    ds["other"][3] = 1
    ds.commit("gone")
    assert mapped(ds, Function(), **call).map_report.vanished == 1
    ds["x"][3] = 30
    ds.commit("changed while it was gone")
    mapped(ds, Function(), **call)
    ds["other"][3] = 0
    ds.commit("back")

    again = Function()
    made = mapped(ds, again, **call)

    assert again.seen == [30]
    assert (made["y"][3], made.map_report.vanished) == (900, 0)


def test_several_rows_for_one_follow_its_changes(ds):
    def times(row):
        return [{"y": row["x"]}] * int(row["other"])

    ds["other"][:4] = [2, 0, 1, 3]
    ds.commit("counts")
    call = {"columns": ["x", "other"]}
    made = mapped(ds, times, **call)
    assert made["y"][:].tolist() == [0, 0, 2, 3, 3, 3]
    ds["other"][:4] = [1, 2, 0, 3]
    ds["x"][3] = 30
    ds.commit("other counts")

    made = mapped(ds, times, **call)
    report = made.map_report

    assert sorted(made["y"][:].tolist()) == [0, 1, 1, 30, 30, 30]
    assert (report.updated, report.rows_made) == (4, 3)
    assert mapped(ds, times, **call).map_report.rows == 0


def test_batches_stay_together_and_new_rows_make_their_own(ds):
    call = {"batch_size": 4}
    mapped(ds, Function(), **call)
    ds.extend({"x": [20, 21], "other": [0, 0], "label": ["cat", "cat"]})
    ds["x"][5] = 50
    ds.delete([1])
    ds.commit("changed")

    again = Function()
    made = mapped(ds, again, **call)

    assert again.seen == [0, 2, 3, 4, 50, 6, 7, 20, 21]
    expected = [0, 4, 9, 16, 2500, 36, 49, 64, 81, 400, 441]
    assert sorted(made["y"][:].tolist()) == sorted(expected)
    assert mapped(ds, Function(), **call).map_report.rows == 0


def test_what_a_hand_changed_stays_until_its_row_changes(ds):
    mapped(ds, Function())
    made = tl.open(f"{ds.url}-to")
    made["y"][[2, 3]] = -1
    made.commit("by hand")
    ds["x"][3] = 30
    ds.commit("changed")

    kept = mapped(ds, Function())
    (conflict,) = kept.map_report.conflicts
    assert kept["y"][[2, 3]].tolist() == [-1, -1]
    assert (conflict.item, conflict.row, conflict.tensor) == (f"row 3 of {ds.url!r}", 3, "y")
    with pytest.raises(tl.ConflictError, match=r"row 3 of .*changed by hand"):
        mapped(ds, Function(), on_conflict="error")
    taken = mapped(ds, Function(), on_conflict="source")

    assert taken["y"][[2, 3]].tolist() == [-1, 900]
    assert mapped(ds, Function()).map_report.conflicts == ()


def test_a_renamed_class_is_a_change_of_its_rows_and_a_new_one_is_none(ds):
    call = {"columns": ["label", "x"]}
    mapped(ds, Function(), **call)
    ds["label"].add_names(["bird"])
    ds.commit("one more class")
    added = Function()
    mapped(ds, added, **call)
    ds["label"].rename("dog", "hound")
    ds.commit("renamed")

    renamed = Function()
    mapped(ds, renamed, **call)

    assert (added.seen, renamed.seen) == ([], [1, 3, 5, 7, 9])


def test_a_skipped_row_is_tried_again(ds):
    def fails(row):
        if row["x"] in (3, 30):
            raise ValueError("no")
        return {"y": row["x"] ** 2}

    with pytest.warns(tl.SkippedRowsWarning):
        mapped(ds, fails, on_error="skip")
    ds["x"][5] = 30
    ds.commit("one more")
    with pytest.warns(tl.SkippedRowsWarning, match="skipped 2 rows"):
        kept = mapped(ds, fails, on_error="skip")
    assert sorted(kept["y"][:].tolist()) == [0, 1, 4, 16, 25, 36, 49, 64, 81]

    again = Function()
    made = mapped(ds, again)

    assert again.seen == [3, 30]
    assert sorted(made["y"][:].tolist()) == [0, 1, 4, 9, 16, 36, 49, 64, 81, 900]


def test_row_numbers_given_to_the_function_are_followed(ds):
    def numbered(row):
        return {"y": row["_row"]}

    mapped(ds, numbered, columns=["_row"])
    ds.delete([0])
    ds.commit("one less")

    made = mapped(ds, numbered, columns=["_row"], delete=True)

    assert made["y"][:].tolist() == list(range(9))


def test_rows_of_staged_changes_are_compared_when_they_are_gone(ds):
    ds["x"][3] = 30
    mapped(ds, Function())
    ds.discard()

    again = Function()
    made = mapped(ds, again)

    assert again.seen == [3]
    assert made["y"][3] == 9


def test_a_source_none_of_whose_rows_are_known_is_refused_or_replaces(ds):
    mapped(ds, Function())
    other = tl.create(f"{ds.url}-other", ds.schema)
    other.extend({"x": [1], "other": [0], "label": ["cat"]})
    other.commit("rows")
    call = {"to": f"{ds.url}-to"}

    with pytest.raises(tl.InvalidInputError, match="none of them is there\nto replace them"):
        mapped(other, Function(), **call)
    made = mapped(other, Function(), delete=True, **call)

    assert made["y"][:].tolist() == [1]


def test_delete_and_on_conflict_are_for_new_datasets(ds):
    for options in ({"delete": True}, {"on_conflict": "source"}):
        with pytest.raises(tl.InvalidInputError, match="are for a new dataset"):
            ds.map(Function(), columns=["x"], schema={"y": "int64"}, **options)
    with pytest.raises(tl.InvalidInputError, match="give one of 'keep', 'source', 'error'"):
        mapped(ds, Function(), on_conflict="theirs")


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [None, 3])
def test_killed_anywhere_and_run_again_it_ends_as_undisturbed(ds, monkeypatch, batch_size):
    """Of first and second runs, with a commit for every few rows."""
    monkeypatch.setattr(map_to, "COMMIT_ROWS", 3)

    def pairs(row):
        if batch_size is not None:
            return {"y": np.repeat(row["x"], 1 + row["other"])}
        return [{"y": row["x"]}] * int(1 + row["other"])

    call = {"columns": ["x", "other"], "batch_size": batch_size}
    versions = [ds.version]
    ds["other"][[1, 4, 7]] = [1, 2, 3]
    ds["x"][[2, 4]] = [20, 40]
    ds.delete([0])
    ds.extend({"x": [30, 31], "other": [0, 1], "label": ["cat", "cat"]})
    ds.commit("changed")
    versions.append(ds.version)

    def bring(to, kill_at):
        for version in versions:
            source = tl.open(ds.url, version=version)
            calls = itertools.count()

            def killed(row):
                if next(calls) == kill_at:  # noqa: B023 - of this version
                    raise KeyboardInterrupt
                return pairs(row)

            try:
                mapped(source, killed, to=to, **call)
            except KeyboardInterrupt:
                mapped(source, pairs, to=to, **call)
        return mapped(source, pairs, to=to, **call)

    undisturbed = bring(f"{ds.url}-whole", None)["y"][:].tolist()
    for kill_at in (0, 2, 3, 7, 10) if batch_size is None else (0, 1, 3):
        made = bring(f"{ds.url}-killed-{kill_at}", kill_at)
        assert made["y"][:].tolist() == undisturbed, kill_at
        report = made.map_report
        assert report is not None
        assert report.rows == 0


def test_rows_that_get_their_first_output_or_lose_their_last_are_followed(ds):
    def repeated(row):
        return [{"y": number} for number in range(int(row["x"]) % 3)]

    made = mapped(ds, repeated)
    assert made["y"][:].tolist() == [0, 0, 1] * 3
    for x, wanted in ((3, [0, 0, 1, 0, 0, 1, 0]), (4, [0, 0, 1, 0, 0, 1, 0, 0])):
        ds["x"][8] = x
        ds.commit("changed")
        assert mapped(ds, repeated)["y"][:].tolist() == wanted


def test_one_row_is_counted_in_the_singular(ds):
    call = {"where": "x = 3"}
    mapped(ds, Function(), **call)
    assert "; 1 row was processed before" in str(mapped(ds, Function(), **call).map_report)
