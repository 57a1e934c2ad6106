"""Values that a tensor of the dataset does not take, in a source that was ingested before.

The dataset's types decide how text is read, so that one bad value is one bad row; and the last line
of an error is a remedy that works.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tensorlake as tl
from tensorlake.types import as_type
from tests.support.sources import write
from tests.unit.ingest.vision.test_annotations import jpeg, png

PIXELS = np.zeros((4, 4, 3), np.uint8)
START = [{"id": "a", "p": 10}, {"id": "b", "p": 20}, {"id": "c", "p": 30}]


@pytest.fixture
def url(tmp_path) -> str:
    return f"memory://{tmp_path.name}"


def put(folder: Path, kind: str, rows: list[dict[str, object]]) -> Path:
    path = folder / f"x.{kind}"
    if kind == "jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        path.write_text("id,p\n" + "".join(f"{row['id']},{row['p']}\n" for row in rows))
    return path


def values(url: str) -> list[int]:
    with tl.open(url) as ds:
        return ds["p"][:].tolist()


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("bad", ["x", 2.5])
def test_one_bad_value_of_a_keyed_table_is_one_rejected_row(url, tmp_path, kind, bad):
    ingest = getattr(tl.ingest, kind)
    ingest(put(tmp_path, kind, START), url, key="id")
    path = put(tmp_path, kind, [START[0] | {"p": 11}, START[1] | {"p": bad}, START[2] | {"p": 31}])

    with pytest.raises(tl.InvalidInputError, match="on_error='skip'") as caught:
        ingest(path, url, key="id")
    assert "id=b" in str(caught.value) or "line 3" in str(caught.value)
    assert values(url) == [10, 20, 30]
    report = ingest(path, url, key="id", on_error="skip").ingest_report
    assert (report.updated, report.rejected) == (2, 1)
    assert values(url) == [11, 20, 31]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("bad", ["x", 2.5])
def test_a_bad_value_added_at_the_end_of_a_table_is_named(url, tmp_path, kind, bad):
    ingest = getattr(tl.ingest, kind)
    ingest(put(tmp_path, kind, START), url)
    path = put(tmp_path, kind, [*START, {"id": "d", "p": bad}, {"id": "e", "p": 50}])

    with pytest.raises(tl.InvalidInputError, match=f"line {4 + (kind == 'csv')} of x.{kind}"):
        ingest(path, url)
    report = ingest(path, url, on_error="skip").ingest_report
    assert (report.added, report.unchanged, report.rejected) == (1, 3, 1)
    assert values(url) == [10, 20, 30, 50]


def test_codes_and_empty_cells_do_not_become_values_of_a_known_column(url, tmp_path):
    path = tmp_path / "x.csv"
    write(path, b"id,code,note\na,7,yes\nb,8,no\n")
    tl.ingest.csv(path, url, key="id")

    write(path, b"id,code,note\na,007,yes\nb,8,no\n")
    with pytest.raises(tl.InvalidInputError, match=r"'code'.*'007'"):
        tl.ingest.csv(path, url, key="id")
    write(path, b"id,code,note\na,7,\nb,8,no\n")
    with pytest.raises(tl.InvalidInputError, match="nullable=True"):
        tl.ingest.csv(path, url, key="id")


def follow(error: BaseException) -> None:
    """Do what the last line of an error says to the dataset."""
    code = re.search(r"repeat the call: (ds = .*?ds\.commit\(\))", str(error))
    assert code is not None, str(error)
    exec(code.group(1), {"tl": tl})


def test_advice_for_null_and_for_wider_numbers_works(url):
    kinds = pa.array([1, 2], pa.int32())
    tl.ingest.arrow(pa.table({"id": ["a", "b"], "p": kinds}), url, key="id")

    for wider in (pa.array([1, None], pa.int32()), pa.array([2**40, 3], pa.int64())):
        table = pa.table({"id": ["a", "b"], "p": wider})
        with pytest.raises(tl.InvalidInputError) as caught:
            tl.ingest.arrow(table, url, key="id")
        follow(caught.value)
        ds = tl.ingest.arrow(table, url, key="id")
        assert ds["p"].read(null=0).tolist() == wider.fill_null(0).to_pylist()
        ds.close()


def test_an_image_of_another_format_is_taken_as_the_advice_tells(url, tmp_path):
    write(tmp_path / "photos" / "a.jpg", jpeg(1))
    tl.ingest.images(tmp_path / "photos", url)
    write(tmp_path / "photos" / "b.jpg", png(PIXELS))  # misnamed

    with pytest.raises(tl.InvalidInputError, match="stores JPEG, but the sample is PNG") as caught:
        tl.ingest.images(tmp_path / "photos", url)
    follow(caught.value)

    assert len(tl.ingest.images(tmp_path / "photos", url)) == 2


def test_no_change_of_a_tensor_is_advised_for_an_image_of_another_mode(url, tmp_path):
    write(tmp_path / "photos" / "a.jpg", jpeg(1))
    tl.ingest.images(tmp_path / "photos", url)
    write(
        tmp_path / "photos" / "b.png", png(np.zeros((4, 4, 4), np.uint8))
    )  # with an alpha channel

    with pytest.raises(tl.InvalidInputError) as caught:
        tl.ingest.images(tmp_path / "photos", url)
    if "alter_tensor" in str(caught.value):  # it is PNG, too
        follow(caught.value)
        with pytest.raises(tl.InvalidInputError, match="on_error='skip'") as caught:
            tl.ingest.images(tmp_path / "photos", url)

    assert "alter_tensor" not in str(caught.value)
    ds = tl.ingest.images(tmp_path / "photos", url, on_error="skip")
    assert (len(ds), ds.ingest_report.rejected) == (1, 1)


def test_a_first_call_that_fails_leaves_no_dataset_so_that_its_advice_works(url, tmp_path):
    write(tmp_path / "photos" / "a.jpg", jpeg(1))
    write(tmp_path / "photos" / "b.jpg", png(PIXELS))

    with pytest.raises(tl.InvalidInputError, match=r"schema={'image': tl.Image\(codec=\"any\"\)}"):
        tl.ingest.images(tmp_path / "photos", url)
    assert not tl.exists(url)

    schema = {"image": tl.Image(codec="any")}
    assert len(tl.ingest.images(tmp_path / "photos", url, schema=schema)) == 2
    tl.create(f"{url}-own", {"image": tl.Image("png")})
    with pytest.raises(tl.InvalidInputError):  # a dataset of somebody else stays
        tl.ingest.images(tmp_path / "photos", f"{url}-own")
    assert tl.exists(f"{url}-own")


@pytest.mark.parametrize("flag", ["delete", "verify"])
def test_a_word_is_not_true_or_false(url, tmp_path, flag):
    path = put(tmp_path, "csv", START)

    with pytest.raises(tl.InvalidInputError, match=f"{flag} is True or False, got 'no'"):
        tl.ingest.csv(path, url, **{flag: "no"})


@pytest.mark.parametrize("text", ["a,b\n1\n2\n3\n", 'a,b\n"1,2\n'])
def test_types_do_not_follow_from_a_header_of_which_no_record_is_valid(tmp_path, text):
    path, url = tmp_path / "a.csv", f"memory://csv-{tmp_path.name}"
    path.write_text(text)

    with pytest.raises(tl.InvalidInputError, match=r"no rows to ingest as csv: line 2 of a\.csv: "):
        tl.ingest.csv(path, url, on_error="skip")
    with pytest.raises(tl.InvalidInputError, match="no rows to ingest as csv"):
        tl.ingest.csv(path, url, schema={"a": "int64"}, on_error="skip")


def test_with_all_types_given_no_record_has_to_be_valid(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1\n2\n")
    types = {"a": "int64", "b": "float32"}

    ds = tl.ingest.csv(tmp_path, f"memory://csv-{tmp_path.name}", schema=types, on_error="skip")

    assert (len(ds), ds.ingest_report.rejected) == (0, 2)
    assert ds.schema == {name: as_type(one) for name, one in types.items()}


def test_types_follow_from_runs_with_valid_records(tmp_path):
    for number, lines in enumerate(["x\n", "1,2.5\n2,3.5\n", "y\n"]):
        (tmp_path / f"{number}.csv").write_text("a,b\n" + lines)

    ds = tl.ingest.csv(tmp_path, f"memory://csv-{tmp_path.name}", on_error="skip")

    assert [one.describe() for one in ds.schema.values()] == ["Scalar(int64)", "Scalar(float64)"]
    assert ds["b"][:].tolist() == [2.5, 3.5]
