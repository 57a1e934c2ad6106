"""Tables whose rows are known by a key follow their source, against a model and other engines."""

import itertools
import json
import os
import shutil
import tempfile
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import tensorlake as tl
from tensorlake.errors import ConflictError, InvalidInputError

SCHEMA = {"id": "int64", "x": "int64", "name": tl.Text()}
KINDS = ("csv", "jsonl", "parquet", "arrow", "huggingface")
_clock = itertools.count(1_700_000_000)


def table_of(rows):
    names = ("id", "x", "name")
    kinds = (pa.int64(), pa.int64(), pa.string())
    columns = zip(*((key, *row) for key, row in rows.items()), strict=True)
    return pa.table(
        [pa.array(one, kind) for one, kind in zip(columns, kinds, strict=True)], names=names
    )


def write(folder, kind, rows):
    """Write a source's file, later than all before; return it."""
    path = Path(folder, f"x.{kind}")
    if kind == "csv":
        path.write_text("id,x,name\n" + "".join(f"{k},{x},{n}\n" for k, (x, n) in rows.items()))
    elif kind == "jsonl":
        lines = [json.dumps({"id": k, "x": x, "name": n}) for k, (x, n) in rows.items()]
        path.write_text("\n".join(lines))
    else:
        pq.write_table(table_of(rows), path, row_group_size=2)
    now = next(_clock)
    os.utime(path, (now, now))
    return path


def sync(folder, kind, rows, dst, **options):
    """Ingest a source's rows by their key."""
    given = {"schema": SCHEMA, "key": "id", **options}
    if kind == "arrow":
        return tl.ingest.arrow(table_of(rows), dst, **given)
    if kind == "huggingface":
        datasets = pytest.importorskip("datasets")
        return tl.ingest.huggingface(datasets.Dataset(table_of(rows)), dst, **given)
    return getattr(tl.ingest, kind)(write(folder, kind, rows), dst, **given)


def rows_of(ds):
    return {int(row["id"]): (int(row["x"]), row["name"]) for row in ds}


def row_ids(ds):
    table = ds.to_arrow(columns=["id", "_row_id"])
    return dict(zip(*(one.to_pylist() for one in table.columns), strict=True))


FIRST = {1: (10, "a"), 2: (20, "b"), 3: (30, "c"), 4: (40, "d")}
LATER = {4: (40, "d"), 5: (50, "e"), 2: (20, "B"), 1: (10, "a")}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_call_brings_the_dataset_to_its_source(tmp_path, kind):
    dst = tmp_path / "d.tl"
    first = sync(tmp_path, kind, FIRST, dst)
    ids = row_ids(first)

    again = sync(tmp_path, kind, FIRST, dst).ingest_report
    later = sync(tmp_path, kind, LATER, dst)
    report = later.ingest_report
    gone = sync(tmp_path, kind, LATER, dst, delete=True)

    assert (again.added, again.updated, again.unchanged, again.vanished) == (0, 0, 4, 0)
    assert (report.added, report.updated, report.unchanged, report.vanished) == (1, 1, 2, 1)
    assert rows_of(later) == LATER | {3: (30, "c")}
    assert rows_of(gone) == LATER
    assert all(row_ids(gone)[key] == ids[key] for key in (1, 2, 4))  # updated in place


@pytest.mark.parametrize(("kind", "read"), [("csv", "read_csv"), ("jsonl", "read_json"),
                                            ("parquet", "read_parquet")])  # fmt: skip
def test_duckdb_reads_the_same_rows_from_the_source_and_the_dataset(tmp_path, kind, read):
    for rows in (FIRST, LATER, {7: (1, "x"), **FIRST}):
        ds = sync(tmp_path, kind, rows, tmp_path / "d.tl", delete=True)
        out = tmp_path / "out.parquet"
        ds.to_parquet(out, overwrite=True)

        query = "SELECT id, x, name FROM {} ORDER BY id"
        source = f"read_json('{tmp_path}/x.jsonl', format='newline_delimited')"
        source = source if kind == "jsonl" else f"{read}('{tmp_path}/x.{kind}')"
        assert (
            duckdb.sql(query.format(f"'{out}'")).fetchall()
            == duckdb.sql(query.format(source)).fetchall()
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("rows", "words"),
    [([1, 1], "has the 'id' of"), ([1, None], "has no 'id', None")],
)
def test_a_key_that_is_not_unique_or_missing_names_the_row(tmp_path, kind, rows, words):
    schema = {"id": tl.Scalar("int64", nullable=True)}
    table = pa.table({"id": pa.array(rows, pa.int64()), "x": [1, 2]})
    if kind == "arrow":
        source = table
    elif kind == "huggingface":
        source = pytest.importorskip("datasets").Dataset(table)
    else:
        source = tmp_path / f"x.{kind}"
        if kind == "csv":
            source.write_text("id,x\n" + "".join(f"{'' if k is None else k},1\n" for k in rows))
            schema["x"] = "int64"
        elif kind == "jsonl":
            source.write_text("\n".join(json.dumps({"id": k, "x": 1}) for k in rows))
            schema["x"] = "int64"
        else:
            pq.write_table(table, source)

    with pytest.raises(InvalidInputError, match=words):
        getattr(tl.ingest, kind)(source, tmp_path / "d.tl", key="id", schema=schema)
    assert not tl.exists(tmp_path / "d.tl")


def test_an_unknown_key_is_named(tmp_path):
    with pytest.raises(InvalidInputError, match=r"key='idx' is not a column.*'id'"):
        sync(tmp_path, "csv", FIRST, tmp_path / "d.tl", key="idx")


def test_rows_without_a_key_are_known_by_position_and_the_refusal_says_so(tmp_path):
    sync(tmp_path, "parquet", FIRST, tmp_path / "d.tl", key=None)

    with pytest.raises(InvalidInputError, match=r"known by position.*\n.*key='id'"):
        sync(tmp_path, "parquet", LATER, tmp_path / "d.tl", key=None)


def test_rows_that_cannot_be_read_are_never_taken_for_deleted(tmp_path):
    dst = tmp_path / "d.tl"
    path = write(tmp_path, "csv", FIRST)
    tl.ingest.csv(path, dst, key="id")
    path.write_text("id,x,name\n1,10,a\n2,20\n3,30,c\n4,40,d\n")

    with pytest.raises(InvalidInputError, match=r"line 3 of x\.csv cannot be read.*\n.*unknown"):
        tl.ingest.csv(path, dst, key="id", on_error="skip", delete=True)
    ds = tl.ingest.csv(path, dst, key="id", on_error="skip")

    assert rows_of(ds) == FIRST
    assert ds.ingest_report.rejected == 1


def test_a_conflict_is_named_by_its_key(tmp_path):
    with sync(tmp_path, "jsonl", FIRST, tmp_path / "d.tl") as ds:
        ds["x"][1] = 99
        ds.commit()

    changed = FIRST | {2: (21, "b")}
    with pytest.raises(ConflictError, match=r"'id=2' \(row 1\), tensor 'x'"):
        sync(tmp_path, "jsonl", changed, tmp_path / "d.tl", on_conflict="error")
    kept = sync(tmp_path, "jsonl", changed, tmp_path / "d.tl")
    assert rows_of(kept)[2] == (99, "b")
    assert [one.item for one in kept.ingest_report.conflicts] == ["id=2"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_call_may_say_that_the_source_wins(tmp_path, kind):
    with sync(tmp_path, kind, FIRST, tmp_path / "d.tl", on_conflict="source") as ds:
        assert rows_of(ds) == FIRST


class Followed(RuleBasedStateMachine):
    """A source, the rows that the dataset should have, and each as written (None: a conflict)."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="tensorlake-test-")
        self.dst = f"{self.folder}/d.tl"
        self.source, self.rows, self.then, self.gone = {}, {}, {}, set()

    @initialize(kind=st.sampled_from(KINDS), size=st.integers(1, 5))
    def begin(self, kind, size):
        self.kind = kind
        self.source = {key: (key, "a") for key in range(size)}
        self.sync(delete=False, on_conflict="keep")

    @rule(key=st.integers(0, 7), x=st.integers(0, 2), name=st.sampled_from("ab"))
    def change_the_source(self, key, x, name):
        self.source = {**self.source, key: (x, name)}

    @rule(data=st.data())
    def remove_from_the_source(self, data):
        if len(self.source) > 1:
            key = data.draw(st.sampled_from(sorted(self.source)))
            self.source = {one: row for one, row in self.source.items() if one != key}

    @rule(seed=st.randoms(use_true_random=False))
    def shuffle_the_source(self, seed):
        keys = [*self.source]
        seed.shuffle(keys)
        self.source = {key: self.source[key] for key in keys}

    @rule(data=st.data(), x=st.integers(0, 2))
    def correct_by_hand(self, data, x):
        if self.rows:
            key = data.draw(st.sampled_from(sorted(self.rows)))
            with tl.open(self.dst) as ds:
                ds["x"][ds["id"] == key] = x
                ds.commit()
            self.rows[key] = (x, self.rows[key][1])

    @rule(data=st.data())
    def delete_by_hand(self, data):
        if self.rows:
            key = data.draw(st.sampled_from(sorted(self.rows)))
            with tl.open(self.dst) as ds:
                ds.delete(ds["id"] == key)
                ds.commit()
            del self.rows[key]
            self.gone.add(key)

    @rule(delete=st.booleans(), on_conflict=st.sampled_from(["keep", "source"]))
    def sync(self, delete, on_conflict):
        sync(
            self.folder, self.kind, self.source, self.dst, delete=delete, on_conflict=on_conflict
        ).close()
        takes_source = on_conflict == "source"
        for key, now in self.source.items():
            if key in self.gone and not takes_source:
                continue
            if key not in self.rows:
                self.rows[key] = self.then[key] = now
                self.gone.discard(key)
            elif self.then[key] != now:
                then, here = self.then[key], self.rows[key]
                kept = [h not in (t, n) for t, h, n in zip(then, here, now, strict=True)]
                kept = [one and not takes_source for one in kept]
                cells = zip(kept, here, now, strict=True)
                self.rows[key] = tuple(h if one else n for one, h, n in cells)
                self.then[key] = tuple(None if one else n for one, n in zip(kept, now, strict=True))
        for key in [*self.then] if delete else []:
            if key not in self.source:
                by_hand = key in self.rows and self.rows[key] != self.then[key]
                if not by_hand or takes_source:
                    self.rows.pop(key, None)
                    self.gone.discard(key)
                    del self.then[key]

    @invariant()
    def the_dataset_has_the_rows_of_the_model(self):
        if hasattr(self, "kind"):
            with tl.open(self.dst, read_only=True) as ds:
                assert rows_of(ds) == self.rows

    def teardown(self):
        shutil.rmtree(self.folder)


Followed.TestCase.settings = settings(
    max_examples=10,
    stateful_step_count=8,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestFollowed = Followed.TestCase


def test_a_table_in_memory_of_other_keys_is_another_source(tmp_path):
    url = f"memory://{tmp_path.name}"
    tl.ingest.arrow(pa.table({"id": [1, 2], "v": [1, 2]}), url, key="id")
    other = pa.table({"id": [100], "v": [3]})

    with pytest.raises(InvalidInputError, match=r"another source than that of(.|\n)*'append'"):
        tl.ingest.arrow(other, url, key="id", delete=True)

    assert len(tl.ingest.arrow(other, url, key="id", mode="append")) == 3
    some = pa.table({"id": [2, 3], "v": [2, 3]})  # one of its rows is known: it is the same table
    assert tl.ingest.arrow(some, url, key="id").ingest_report.added == 1
