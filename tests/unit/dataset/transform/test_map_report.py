"""``ds.map_report``: rows read and made, tensors added, rows that were skipped."""

import warnings

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.transform.map import dataset as map_to
from tensorlake.dataset.transform.map import report as map_report


@pytest.fixture
def ds(request):
    made = tl.create(f"memory://map-report-{abs(hash(request.node.name))}", {"x": "int64"})
    made.extend({"x": range(10)})
    made.commit("ten")
    yield made
    made.discard()


def fails_at(*numbers):
    def function(row):
        if row["x"] in numbers:
            raise KeyError(int(row["x"]))
        return {"y": row["x"] * 2}

    return function


def test_a_handle_that_map_did_not_return_has_no_report(ds):
    assert ds.map_report is None
    assert "map_report" in dir(ds)
    with pytest.raises(AttributeError):
        _ = ds[:].map_report


def test_in_place_the_report_counts_rows_and_names_tensors(ds):
    ds.map(fails_at(), schema={"y": "int64"}, where="x < 4")
    report = ds.map_report

    assert (report.rows, report.rows_made, report.already_there) == (4, 4, 0)
    assert (report.tensors, report.added) == (("y",), ("y",))
    assert (report.url, report.version, report.skipped) == (ds.url, None, ())
    assert str(report).startswith("mapped 4 rows in ")
    assert f"→ {ds.url}: staged y (added); publish with ds.commit(message)" in str(report)
    ds.commit("doubled")

    ds.map(fails_at(), schema={"y": "int64"})

    assert ds.map_report is not report
    assert (ds.map_report.rows, ds.map_report.added) == (10, ())
    assert ": staged y; publish" in str(ds.map_report)


# since Python 3.12, of every fork beside threads; here children only compute
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_skipped_rows_are_numbered_with_the_reason(ds, engine):
    with pytest.warns(tl.SkippedRowsWarning, match="skipped 2 rows; the first raised KeyError: 3"):
        ds.map(fails_at(3, 8), schema={"y": "int64"}, engine=engine, on_error="skip")
    report = ds.map_report

    assert (report.rows, report.rows_made) == (8, 8)
    assert report.skipped_rows.tolist() == [3, 8]
    assert [one.reason for one in report.skipped] == ["KeyError: 3", "KeyError: 8"]
    assert report.skipped[0].item == f"row 3 of {ds.url!r}"
    assert ds[report.skipped_rows]["x"].to_list() == [3, 8]
    assert str(report).endswith("; 2 rows skipped: ds.map_report.skipped")


def test_of_many_skipped_rows_all_are_numbered_and_the_first_described(ds, monkeypatch):
    monkeypatch.setattr(map_report, "NAMED_ITEMS", 3)

    with warnings.catch_warnings(action="ignore"):
        ds.map(fails_at(*range(10)), schema={"y": "int64"}, on_error="skip")

    assert ds.map_report.rows == 0
    assert ds.map_report.skipped_rows.tolist() == [*range(10)]
    assert len(ds.map_report.skipped) == 3


def test_a_failed_call_leaves_the_report_of_the_last_one(ds):
    ds.map(fails_at(), schema={"y": "int64"})
    before = ds.map_report

    with pytest.raises(KeyError):
        ds.map(fails_at(3), schema={"y": "int64"})

    assert ds.map_report is before


def test_skipped_rows_of_a_condition_are_numbers_of_the_version(ds):
    with warnings.catch_warnings(action="ignore"):
        ds.map(fails_at(7), schema={"y": "int64"}, where="x > 5", on_error="skip")

    assert ds.map_report.skipped_rows.tolist() == [7]


def test_an_error_that_cannot_be_formatted_is_named(ds):
    class OddError(Exception):
        def __str__(self):
            raise RuntimeError

        __repr__ = __str__

    def function(row):
        raise OddError

    with pytest.warns(tl.SkippedRowsWarning, match="the first raised <OddError>"):
        ds.map(function, schema={"y": "int64"}, on_error="skip")

    assert {one.reason for one in ds.map_report.skipped} == {"<OddError>"}


def test_a_new_dataset_has_the_report_of_the_rows_it_got(ds, tmp_path):
    def pairs(row):
        return [{"z": row["x"]}] * int(row["x"] % 3)

    made = ds.map(pairs, schema={"z": "int64"}, to=tmp_path / "pairs.tl")
    report = made.map_report

    assert ds.map_report is None
    assert (report.rows, report.rows_made) == (10, len(made)) == (10, 9)
    assert (report.url, report.version, report.added) == (made.url, "main@1", ())
    assert f"→ {made.url} main@1: committed 9 rows" in str(report)


def test_a_call_that_continues_another_counts_what_was_there(ds, tmp_path, monkeypatch):
    monkeypatch.setattr(map_to, "COMMIT_ROWS", 4)

    def stops(row):
        if row["x"] == 6:
            raise KeyboardInterrupt
        return {"y": row["x"]}

    with pytest.raises(KeyboardInterrupt):
        ds.map(stops, schema={"y": "int64"}, to=tmp_path / "new.tl")
    again = ds.map(fails_at(), schema={"y": "int64"}, to=tmp_path / "new.tl")

    assert (again.map_report.rows, again.map_report.already_there) == (6, 4)
    assert "; 4 rows were processed before" in str(again.map_report)


def test_a_batch_that_raises_is_skipped_in_a_new_dataset_too(ds, tmp_path):
    def of_batches(batch):
        if 4 in batch["x"]:
            raise ValueError("no\nfours")
        return {"y": batch["x"]}

    with pytest.warns(tl.SkippedRowsWarning, match="skipped 5 rows"):
        made = ds.map(
            of_batches,
            schema={"y": "int64"},
            to=tmp_path / "batches.tl",
            batch_size=5,
            on_error="skip",
        )

    assert made["y"].to_list() == [5, 6, 7, 8, 9]
    assert np.array_equal(made.map_report.skipped_rows, np.arange(5))
    (batch,) = made.map_report.skipped
    assert (batch.item, batch.reason) == (f"rows 0 to 4 of {ds.url!r}", "ValueError: no")


def test_a_commit_gives_the_report_its_version(ds):
    ds.map(fails_at(), schema={"y": "int64"}, where="x < 4")

    ds.commit("doubled")
    ds.append({"x": 11, "y": 22})
    ds.commit("one more")

    assert ds.map_report.version == "main@2"
    assert str(ds.map_report).endswith(" main@2: committed 4 rows of y (added)")


def test_discarded_outputs_have_no_report(ds):
    ds.map(fails_at(), schema={"y": "int64"})
    ds.discard()
    discarded = ds.map_report

    with pytest.raises(KeyError), ds.transaction("doubled"):
        ds.map(fails_at(), schema={"y": "int64"}).map(fails_at(3), schema={"z": "int64"})

    assert (discarded, ds.map_report) == (None, None)


def test_the_report_of_committed_outputs_outlives_what_is_discarded_later(ds):
    ds.map(fails_at(), schema={"y": "int64"})
    ds.commit("doubled")

    ds.append({"x": 11, "y": 22})
    ds.discard()

    assert ds.map_report.version == "main@2"


def test_a_key_that_is_known_discards_the_outputs_and_their_report(ds):
    ds.commit("nothing", key="map")
    ds.map(fails_at(), schema={"y": "int64"})
    ds.commit("doubled", key="map")

    ds.map(lambda row: {"y": 0}, schema={"y": "int64"})
    ds.commit("again", key="map")

    assert (ds["y"][3], ds.map_report) == (6, None)


def test_staged_changes_that_move_to_a_newer_version_keep_the_report(ds):
    ds.map(fails_at(), schema={"y": "int64"})
    with tl.open(ds.url) as other:
        other.append({"x": 11})
        other.commit("one more")

    ds.refresh(keep_staged=True)
    staged = ds.map_report.version
    ds.commit("doubled")

    assert (staged, ds.map_report.version) == (None, "main@3")


def test_a_call_without_outputs_stages_nothing_and_its_report_says_so(ds):
    ds.map(fails_at(), schema={"y": "int64"})
    ds.commit("doubled")

    ds.map(fails_at(), schema={"y": "int64"}, where="x > 100")

    assert not ds.has_changes
    assert (ds.map_report.rows, ds.map_report.version) == (0, "main@2")


def test_its_class_is_public():
    assert tl.MapReport.__doc__
    assert tl.MapReport is map_report.MapReport
