"""What a hand did between two runs, and the words and commits of the run that finds it."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import tensorlake as tl
from tensorlake.ingest.engine import options
from tests.support.sources import write
from tests.unit.ingest.vision.test_annotations import jpeg


@pytest.fixture
def url(tmp_path) -> str:
    return f"memory://{tmp_path.name}"


@pytest.fixture
def photos(tmp_path) -> Path:
    for number in range(4):
        folder = "cat" if number < 2 else "dog"
        write(tmp_path / "photos" / folder / f"{number}.jpg", jpeg(number))
    return tmp_path / "photos"


def by_hand(url, change):
    with tl.open(url) as ds:
        change(ds)
        ds.commit("by hand")


def table(**columns):
    return pa.table(columns)


@pytest.mark.parametrize("is_copied", [False, True])
def test_a_deleted_row_stays_deleted_when_its_file_is_renamed(photos, url, is_copied):
    """Also where a file of the same content has a row: that one is followed first."""
    if is_copied:
        write(photos / "cat" / "same.jpg", jpeg(0))
    tl.ingest.images(photos, url)
    by_hand(url, lambda ds: ds.delete([0]))
    (photos / "cat" / "0.jpg").rename(photos / "dog" / "8.jpg")
    if is_copied:
        (photos / "cat" / "same.jpg").rename(photos / "dog" / "9.jpg")

    for _ in range(2):
        ds = tl.ingest.images(photos, url)
        report = ds.ingest_report
        assert (report.added, len(ds)) == (0, 4 if is_copied else 3)
        (conflict,) = report.conflicts
        assert conflict.reason.startswith("its row was deleted by hand")
    back = tl.ingest.images(photos, url, on_conflict="source")

    assert len(back) == (5 if is_copied else 4)
    assert back["image"].bytes(len(back) - 1) == jpeg(0)
    assert tl.ingest.images(photos, url).ingest_report.conflicts == []


def test_a_conflict_that_is_kept_is_committed_once(photos, url):
    tl.ingest.images(photos, url)
    by_hand(url, lambda ds: ds["label"].__setitem__(1, "dog"))
    write(photos / "cat" / "1.jpg", jpeg(71))

    versions = [tl.ingest.images(photos, url).version for _ in range(3)]

    assert versions == ["main@3"] * 3


def test_messages_of_commits_say_what_they_did(photos, url):
    tl.ingest.images(photos, url)
    (photos / "cat" / "0.jpg").rename(photos / "dog" / "0.jpg")
    tl.ingest.images(photos, url)
    (photos / "dog" / "2.jpg").unlink()
    tl.ingest.images(photos, url, delete=True)
    (photos / "dog" / "3.jpg").touch()
    tl.ingest.images(photos, url)
    write(photos / "dog" / "3.jpg", jpeg(73))
    write(photos / "dog" / "4.jpg", jpeg(74))
    ds = tl.ingest.images(photos, url)

    assert [commit.message for commit in ds.log()][:-1] == [
        "ingest images: 1 row, 1 updated",
        "ingest images: 1 image compared, no row changed",
        "ingest images: 1 deleted",
        "ingest images: 1 renamed or moved",
        "ingest images: 4 rows",
    ]


def test_a_vanished_row_that_a_hand_changed_names_what_removes_it(photos, url):
    tl.ingest.images(photos, url)
    by_hand(url, lambda ds: ds["label"].__setitem__(1, "dog"))
    (photos / "cat" / "1.jpg").unlink()

    for _ in range(2):
        ds = tl.ingest.images(photos, url, delete=True)
        assert (ds.version, ds.ingest_report.commits) == ("main@2", [])
        assert "changed by hand, stays in the dataset; to remove: on_conflict='source'" in str(
            ds.ingest_report
        )
        assert "delete=True" not in str(ds.ingest_report)
    ds = tl.ingest.images(photos, url, delete=True, on_conflict="source")

    assert len(ds) == 3


def test_a_rejected_item_that_has_a_row_says_that_it_stays(photos, url):
    tl.ingest.images(photos, url)
    write(photos / "cat" / "1.jpg", b"\xff\xd8 no picture")

    ds = tl.ingest.images(photos, url, on_error="quarantine")
    (skipped,) = ds.ingest_report.skipped

    assert skipped.reason.endswith("; its row stays as it was")
    assert f"rejected items are in {url}-quarantine" in str(ds.ingest_report)


def test_a_row_that_a_hand_added_for_an_item_is_in_conflict_with_it(url):
    tl.ingest.arrow(table(id=[1, 2], v=[1, 2]), url, key="id")
    by_hand(url, lambda ds: ds.extend({"id": [7, 8], "v": [70, 80]}))
    now = table(id=[1, 2, 7, 8, 9], v=[1, 2, 7, 80, 9])

    for _ in range(2):
        ds = tl.ingest.arrow(now, url, key="id")
        assert ds["id"][:].tolist() == [1, 2, 7, 8, 9]
        assert ds["v"][:].tolist() == [1, 2, 70, 80, 9]
        assert [(one.item, one.tensor) for one in ds.ingest_report.conflicts] == [("id=7", "v")]
    taken = tl.ingest.arrow(now, url, key="id", on_conflict="source")

    assert taken["v"][:].tolist() == [1, 2, 7, 80, 9]
    assert tl.ingest.arrow(now, url, key="id").ingest_report.conflicts == []


def test_rows_whose_key_is_there_are_not_appended(url):
    tl.ingest.arrow(table(id=[1, 2], v=[1, 2]), url, key="id")

    with pytest.raises(tl.InvalidInputError, match=r"1 of 2 rows, 'id=2' of .* is already in"):
        tl.ingest.arrow(table(id=[2, 5], v=[9, 9]), url, key="id", mode="append")
    ds = tl.ingest.arrow(table(id=[5], v=[9]), url, key="id", mode="append")

    assert ds["id"][:].tolist() == [1, 2, 5]


def test_a_key_given_later_is_refused_with_advice_that_works(tmp_path, url):
    file = tmp_path / "rows.csv"
    file.write_text("id,v\na,1\nb,2\n")
    tl.ingest.csv(file, url)
    file.write_text("id,v\na,5\nb,2\n")
    with pytest.raises(
        tl.InvalidInputError, match=r"'rows\.csv' changed before its end"
    ) as changed:
        tl.ingest.csv(file, url)
    with pytest.raises(tl.InvalidInputError, match="key='id' here, nothing then") as keyed:
        tl.ingest.csv(file, url, key="id")
    with pytest.raises(tl.InvalidInputError, match="already in"):
        tl.ingest.csv(file, url, key="id", mode="append")

    for refused in (changed, keyed):
        assert f"tl.delete({url!r}, confirm={url!r}), and the same call" in str(refused.value)
        assert "mode='append'" not in str(refused.value)
    tl.delete(url, confirm=url)
    assert tl.ingest.csv(file, url, key="id")["v"][:].tolist() == [5, 2]


def test_a_row_that_cannot_be_read_is_not_called_gone(tmp_path, url):
    file = tmp_path / "rows.csv"
    file.write_text("id,v\na,1\nb,2\nc,3\n")
    tl.ingest.csv(file, url, key="id", schema={"v": "int64"})
    file.write_text("id,v\na,1\nb,zz\nc,3\n")

    ds = tl.ingest.csv(file, url, key="id", schema={"v": "int64"}, on_error="skip")
    report = ds.ingest_report

    assert (report.vanished, report.rejected, report.unchanged) == (0, 1, 2)
    assert "1 row of the dataset is not among the items that could be read" in str(report)
    assert "delete=True" not in str(report)


def test_the_time_of_a_report_begins_with_the_call(photos, url, monkeypatch):
    """Listing and inference are part of it."""
    early = SimpleNamespace(monotonic=lambda: time.monotonic() - 1000)
    monkeypatch.setattr(options, "time", early)

    assert tl.ingest.images(photos, url).ingest_report.seconds >= 1000


def test_a_key_that_a_hand_changed_is_in_conflict_with_the_item_that_gets_it(url):
    tl.ingest.arrow(table(id=[1, 2], v=[1, 2]), url, key="id")
    by_hand(url, lambda ds: ds["id"].__setitem__(0, 100))
    now = table(id=[1, 2, 100], v=[1, 2, 7])

    for _ in range(2):
        ds = tl.ingest.arrow(now, url, key="id")
        assert ds["id"][:].tolist() == [100, 2]
        assert ds["v"][:].tolist() == [1, 2]
        assert [(one.item, one.tensor) for one in ds.ingest_report.conflicts] == [("id=100", "v")]
    taken = tl.ingest.arrow(now, url, key="id", on_conflict="source")

    assert dict(zip(taken["id"][:].tolist(), taken["v"][:].tolist(), strict=True)) == {
        100: 7,
        2: 2,
        1: 1,
    }
    again = tl.ingest.arrow(now, url, key="id").ingest_report
    assert (again.unchanged, again.conflicts, again.commits) == (3, [], [])


def test_a_key_that_a_hand_changed_in_a_renamed_tensor_is_seen(url):
    tl.ingest.arrow(table(id=[1, 2], v=[1, 2]), url, key="id")

    def change(ds):
        ds["id"][0] = 100
        ds.rename_tensor("id", "number")

    by_hand(url, change)

    ds = tl.ingest.arrow(table(id=[1, 2, 100], v=[1, 2, 7]), url, key="id")

    assert ds["number"][:].tolist() == [100, 2]
    assert [one.item for one in ds.ingest_report.conflicts] == ["id=100"]


def test_a_call_without_the_key_says_to_repeat_it_with_the_key(url):
    tl.ingest.arrow(table(id=[1, 2], v=[1, 2]), url, key="id")

    with pytest.raises(tl.InvalidInputError, match="Repeat the call with key='id'; to use it"):
        tl.ingest.arrow(table(id=[1, 2], v=[1, 3]), url)


def test_a_row_that_gets_the_key_of_an_item_with_a_row_stays_beside_it(url):
    tl.ingest.arrow(table(id=[1, 2], v=[1, 2]), url, key="id")
    by_hand(url, lambda ds: ds.append({"id": 1, "v": 7}))

    ds = tl.ingest.arrow(table(id=[1, 2], v=[5, 2]), url, key="id")

    assert ds.to_arrow().to_pydict() == {"id": [1, 2, 1], "v": [5, 2, 7]}
    assert ds.ingest_report.conflicts == []
    twice = ds.query("SELECT id, COUNT(*) AS n GROUP BY id HAVING n > 1")
    assert (twice["id"].tolist(), twice["n"].tolist()) == ([1], [2])
