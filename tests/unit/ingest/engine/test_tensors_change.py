"""A known source whose columns change: another order, lost, new, renamed and dropped ones."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tensorlake as tl


@pytest.fixture
def url(tmp_path) -> str:
    return f"memory://{tmp_path.name}"


def columns(ds):
    return {name: [*ds[name][:]] for name in ds.schema}


def test_columns_in_another_order_are_the_same_columns(url):
    tl.ingest.arrow(pa.table({"id": [1, 2], "a": [1, 2], "b": [3, 4]}), url, key="id")
    ds = tl.ingest.arrow(pa.table({"b": [3, 4], "id": [1, 2], "a": [1, 5]}), url, key="id")

    assert columns(ds) == {"id": [1, 2], "a": [1, 5], "b": [3, 4]}
    report = ds.ingest_report
    assert (report.updated, report.unchanged, report.conflicts) == (1, 1, [])


def test_members_of_json_lines_may_move(tmp_path, url):
    file = Path(tmp_path / "rows.jsonl")
    file.write_text('{"id": 1, "a": 1, "t": "x"}\n{"id": 2, "a": 2, "t": "y"}\n')
    tl.ingest.jsonl(file, url, key="id")
    file.write_text('{"t": "x", "a": 1, "id": 1}\n{"id": 2, "a": 2, "t": "y"}\n')
    report = tl.ingest.jsonl(file, url, key="id").ingest_report
    assert (report.updated, report.unchanged, report.conflicts) == (0, 2, [])
    file.write_text('{"t": "z", "a": 3, "id": 1}\n{"id": 2, "a": 2, "t": "y"}\n')

    ds = tl.ingest.jsonl(file, url, key="id")

    assert columns(ds) == {"id": [1, 2], "a": [3, 2], "t": ["z", "y"]}
    assert (ds.ingest_report.updated, ds.ingest_report.conflicts) == (1, [])


def test_a_lost_column_keeps_its_values_and_is_followed_when_it_is_back(url):
    tl.ingest.arrow(pa.table({"id": [1, 2, 3], "price": [10, 20, 30]}), url, key="id")
    by_hand = tl.open(url)
    by_hand["price"][2] = 33
    by_hand.commit("by hand")

    for _ in range(2):
        lost = tl.ingest.arrow(pa.table({"id": [1, 2, 3]}), url, key="id").ingest_report
        assert (lost.updated, lost.unchanged, lost.conflicts) == (0, 3, [])
        assert lost.tensors == ["'price' is no longer in the source: its values stay"]
        assert "'price' is no longer in the source" in str(lost)
    back = pa.table({"id": [1, 2, 3], "price": [10, 21, 30]})
    ds = tl.ingest.arrow(back, url, key="id")

    assert columns(ds)["price"] == [10, 21, 33]
    report = ds.ingest_report
    assert (report.updated, report.unchanged, report.conflicts, report.tensors) == (1, 2, [], [])


def test_a_new_column_is_filled_once_its_tensor_is_added(tmp_path, url):
    file = tmp_path / "prices.csv"
    file.write_text("id,price\na,10\nb,20\nc,30\n")
    tl.ingest.csv(file, url, key="id")
    file.write_text("id,price,extra\na,10,1\nb,20,2\nc,30,3\n")
    with pytest.raises(tl.errors.TensorNotFoundError, match=r"has 'extra' \(Scalar") as refused:
        tl.ingest.csv(file, url, key="id")
    advice = str(refused.value).splitlines()[-1]
    code = advice.removeprefix("to add it: ").removesuffix("; then repeat the call")
    exec(code, {"tl": tl})
    with tl.open(url) as by_hand:
        by_hand["extra"][2] = 7
        by_hand.commit("by hand")

    ds = tl.ingest.csv(file, url, key="id")
    report = ds.ingest_report

    assert columns(ds)["extra"] == [1, 2, 7]
    assert (report.updated, report.unchanged) == (2, 0)
    assert [(one.item, one.tensor) for one in report.conflicts] == [("id=c", "extra")]


def test_a_tensor_renamed_by_hand_is_still_filled(url):
    tl.ingest.arrow(pa.table({"id": [1, 2], "a": [1, 2]}), url, key="id")
    with tl.open(url) as by_hand:
        by_hand.rename_tensor("a", "amount")
        by_hand.commit("renamed")

    ds = tl.ingest.arrow(pa.table({"id": [1, 2, 3], "a": [1, 5, 6]}), url, key="id")
    assert columns(ds) == {"id": [1, 2, 3], "amount": [1, 5, 6]}
    assert (ds.ingest_report.updated, ds.ingest_report.added) == (1, 1)
    both = tl.ingest.arrow(pa.table({"id": [1, 2, 3], "amount": [1, 5, 7]}), url, key="id")
    assert columns(both)["amount"] == [1, 5, 7]
    assert (both.ingest_report.updated, both.ingest_report.conflicts) == (1, [])


def test_a_tensor_dropped_by_hand_stays_dropped(url):
    tl.ingest.arrow(pa.table({"id": [1, 2], "a": [1, 2], "b": [3, 4]}), url, key="id")
    with tl.open(url) as by_hand:
        by_hand.drop_tensor("b")
        by_hand.commit("dropped")

    ds = tl.ingest.arrow(pa.table({"id": [1, 2, 3], "a": [1, 5, 6], "b": [3, 9, 9]}), url, key="id")

    assert columns(ds) == {"id": [1, 2, 3], "a": [1, 5, 6]}
    report = ds.ingest_report
    assert (report.updated, report.added, report.unchanged) == (1, 1, 1)
    (words,) = report.tensors
    assert words.startswith("'b' was dropped from the dataset")


def test_columns_that_share_a_digest_come_and_go(url):
    """More columns than digests: the first and the thirteenth have one together."""
    names = ["id", *(f"c{number}" for number in range(15))]
    table = {name: [1, 2] for name in names}
    tl.ingest.arrow(pa.table(table), url, key="id")
    with tl.open(url) as by_hand:
        by_hand["c11"][1] = 77
        by_hand.commit("by hand")

    lost = {name: values for name, values in table.items() if name not in ("c11", "c12")}
    report = tl.ingest.arrow(pa.table(lost), url, key="id").ingest_report
    assert (report.updated, report.unchanged, report.conflicts) == (0, 2, [])
    ds = tl.ingest.arrow(pa.table({**lost, "c0": [5, 2], "c14": [6, 2]}), url, key="id")

    assert (ds[0]["c0"], ds[0]["c14"], ds[1]["c11"]) == (5, 6, 77)
    assert (ds.ingest_report.updated, ds.ingest_report.conflicts) == (1, [])


def test_a_renamed_image_is_followed(tmp_path, url):
    from tests.support.sources import write
    from tests.unit.ingest.vision.test_annotations import jpeg

    for number in range(2):
        write(tmp_path / "photos" / "cat" / f"{number}.jpg", jpeg(number))
    tl.ingest.images(tmp_path / "photos", url)
    with tl.open(url) as by_hand:
        by_hand.rename_tensor("image", "picture")
        by_hand.commit("renamed")
    write(tmp_path / "photos" / "cat" / "1.jpg", jpeg(71))
    (tmp_path / "photos" / "cat" / "0.jpg").rename(tmp_path / "photos" / "cat" / "7.jpg")

    ds = tl.ingest.images(tmp_path / "photos", url)

    assert [ds["picture"].bytes(row) for row in range(2)] == [jpeg(0), jpeg(71)]
    assert (ds.ingest_report.updated, ds.ingest_report.renamed) == (1, 1)
    assert ds.ingest_report.tensors == []
