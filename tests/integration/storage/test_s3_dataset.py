"""The core scenario on S3: create, stage, commit, open, read, branch, tag, query, race."""

import datetime as dt
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import ConflictError
from tensorlake.storage import open_store, runtime
from tensorlake.testing import S3Server, s3_server
from tests.support.handles import rows_of
from tests.support.writers import append_rows, fork_server

SCHEMA = {
    "x": "int64",
    "text": "str",
    "label": tl.ClassLabel(["cat", "dog"]),
    "tokens": tl.Array("uint16", shape=(512,)),
    "boxes": tl.Array("float32", shape=(None, 4)),
}
WRITERS, COMMITS = 3, 5
YEAR_NS = 365 * 86_400 * 10**9


@pytest.fixture(scope="module")
def s3() -> Generator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(params=["", "fsspec+"], ids=["obstore", "s3fs"])
def url(request, s3) -> str:
    return request.param + s3.fresh_url()


@pytest.fixture
def options(s3) -> dict[str, str]:
    return s3.storage_options


@pytest.fixture
def dataset(url, options) -> Dataset:
    dataset = tl.create(url, SCHEMA, storage_options=options)
    dataset.extend(columns(0, 300))
    dataset.commit("first")
    return dataset


def columns(start: int, stop: int) -> dict[str, object]:
    n = np.arange(start, stop)
    return {
        "x": n,
        "text": [f"row {one}" for one in n],
        "label": n % 2,
        "tokens": np.repeat(n.astype(np.uint16)[:, None], 512, axis=1),
        "boxes": [np.full((one % 3, 4), one, np.float32) for one in n],
    }


def test_what_was_committed_is_read_by_another_handle(dataset, url, options):
    dataset.extend(columns(300, 310))
    dataset["x"][[0, 305]] = [-1, -2]
    dataset["text"][1] = "changed"
    dataset.delete([2, 309])
    commit = dataset.commit("second")

    opened = tl.open(url, storage_options=options)

    assert opened.version == commit.version == "main@2"
    assert len(opened) == 308
    assert opened["x"][[0, 1, 2, -1]].tolist() == [-1, 1, 3, 308]
    assert opened["text"][:3] == ["row 0", "changed", "row 3"]
    assert opened["tokens"][200][0] == 201
    assert opened["boxes"].shapes([0, 1, 2]).tolist() == [[0, 4], [1, 4], [0, 4]]
    assert rows_of(opened[[5, 299]]) == rows_of(dataset[[5, 299]])
    assert len(opened.query("WHERE label = 'dog' AND x BETWEEN 0 AND 9")) == 5


@pytest.mark.slow
def test_branches_tags_and_older_versions(dataset, url, options):
    dataset.tag("v1")
    fix = dataset.branch("fix", at="v1")
    fix["label"][:] = "dog"
    fix.commit("all dogs")
    dataset.append({name: values[0] for name, values in columns(300, 301).items()})
    dataset.commit("one more")

    opened = tl.open(url, storage_options=options)

    assert opened.branches == ["fix", "main"]
    assert opened.tags["v1"].version == "main@1"
    assert len(opened.at("v1")) == len(opened.at("main@1")) == 300
    assert (opened.at("fix")["label"][:] == "dog").all()
    assert len(opened.diff("main@1").added) == 1
    assert [commit.message for commit in opened.log()] == ["one more", "first", "create"]
    with pytest.raises(tl.InvalidInputError):
        opened.tag("v1")


@pytest.mark.slow
def test_of_two_updates_of_one_cell_exactly_one_conflicts(dataset, url, options):
    other = tl.open(url, storage_options=options)
    dataset["x"][3] = 30
    other["x"][3] = 31
    other.commit()

    with pytest.raises(ConflictError):
        dataset.commit()

    assert tl.open(url, storage_options=options)["x"][3] == 31
    dataset.discard()


@pytest.mark.slow
def test_appends_of_threads_and_processes_are_all_there(url, options):
    tl.create(url, {"writer": "int64", "n": "int64"}, storage_options=options).close()
    process = fork_server().Process(target=append_rows, args=(url, options, 0, COMMITS))

    process.start()
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(lambda writer: append_rows(url, options, writer, COMMITS), range(1, WRITERS)))
    process.join(120)

    assert process.exitcode == 0
    dataset = tl.open(url, storage_options=options)
    writer, n = dataset["writer"][:], dataset["n"][:]
    assert len(n) == WRITERS * COMMITS
    for one in range(WRITERS):
        assert n[writer == one].tolist() == list(range(COMMITS))


@pytest.mark.slow
def test_a_large_commit_is_sent_in_packs(url, options):
    dataset = tl.create(url, {"a": tl.Array("uint8", shape=(1 << 20,))}, storage_options=options)
    for start in range(0, 80, 8):
        dataset.extend(
            {"a": np.repeat(np.arange(start, start + 8, dtype=np.uint8)[:, None], 1 << 20, 1)}
        )
    dataset.commit()

    opened = tl.open(url, storage_options=options)

    assert [int(opened["a"][row, 7]) for row in (0, 40, 79)] == [0, 40, 79]


@pytest.mark.slow
def test_datasets_are_found_listed_and_deleted(dataset, url, options):
    assert tl.exists(url, storage_options=options)
    bucket = url.rpartition("/")[0]
    assert tl.list(bucket, storage_options=options) == ["lake"]
    with pytest.raises(tl.DatasetNotFoundError, match="lake"):
        tl.open(f"{bucket}/lak", storage_options=options)
    with pytest.raises(tl.InvalidInputError):
        tl.delete(url, confirm="lake", storage_options=options)

    tl.delete(url, confirm=url, storage_options=options)

    assert not tl.exists(url, storage_options=options)
    assert tl.list(bucket, storage_options=options) == []


def test_a_bucket_that_is_not_there_is_reported(s3, options):
    with pytest.raises(tl.TensorlakeError, match="no-such-bucket"):
        tl.open("s3://no-such-bucket/lake", storage_options=options)


@pytest.mark.slow
def test_a_collection_takes_nothing_that_is_young_and_commits_go_on(dataset, url, options):
    """Dates of a listing and of a single object are of one clock, in whole seconds."""
    dataset.extend(columns(0, 10))
    dataset.commit("rows")
    dataset.expire(keep_last=1)

    report = dataset.gc()

    assert report.deleted_packs == 0
    assert (report.kept_packs, report.versions) == (2, 1)
    dataset.extend(columns(10, 20))
    dataset.commit("more rows")
    assert len(tl.open(url, storage_options=options)) == len(dataset)


@pytest.mark.slow
def test_lines_of_a_bucket_are_ingested(s3, options):
    folder = s3.fresh_url()
    lines = b"".join(b'{"n": %d}\n' % n for n in range(3))
    runtime.run(open_store(folder, storage_options=options).put_if_absent("web/a.jsonl", lines))

    for src in (f"{folder}/web", f"{folder}/web/*.jsonl", f"{folder}/web/a.jsonl"):
        ds = tl.ingest.jsonl(src, s3.fresh_url(), storage_options=options)

        assert ds["n"][:].tolist() == [0, 1, 2]


def test_a_clock_that_is_a_year_ahead_hides_no_commit(s3, options, monkeypatch):
    """D1: a PUT is answered without a time; whoever reads has the store's, of every object."""
    url = s3.fresh_url()
    dataset = tl.create(url, {"x": "int64"}, storage_options=options)
    right = time.time_ns
    with monkeypatch.context() as wrong:
        wrong.setattr(time, "time_ns", lambda: right() + YEAR_NS)
        dataset.append({"x": 1})
        dataset.commit("ahead")
    dataset.append({"x": 2})
    dataset.commit("right")

    now = dt.datetime.now(dt.UTC)
    there = tl.open(url, storage_options=options)
    assert there.at(now + dt.timedelta(seconds=2)).version == "main@2"
    assert all(abs(one.time - now) < dt.timedelta(minutes=1) for one in there.log())
    assert [one.object for one in there.check().findings] == ["branches/main/0000000001.json"]


@pytest.mark.slow
def test_a_clock_that_is_behind_is_found_out_and_the_store_asked(s3, options, monkeypatch):
    url = s3.fresh_url()
    tl.create(url, {"x": "int64"}, storage_options=options).close()
    right = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: right() - YEAR_NS)

    with tl.open(url, storage_options=options) as dataset:
        dataset.append({"x": 1})
        with pytest.warns(tl.WrongClockWarning, match="365 days.* behind that of 's3:"):
            dataset.commit("behind")

    last = tl.open(url, storage_options=options).log()[0].time
    assert abs(last - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=1)
    assert tl.open(url, storage_options=options).expire(older_than="1h").given_up == ()


@pytest.mark.slow
def test_a_source_on_s3_is_told_by_its_etag(url, options):
    """Its times are of whole seconds: what is corrected at once has the time of what it was."""
    store, src = open_store(f"{url}/raw", storage_options=options), f"{url}/raw"
    runtime.run(store.put_if_absent("0.csv", b"x\n1\n"))
    runtime.run(store.put_if_absent("1.csv", b"x\n1\n"))
    ds = tl.ingest.csv(src, f"{url}/t", storage_options=options)

    assert tl.ingest.csv(src, ds.url, storage_options=options).ingest_report.rows == 0
    runtime.run(store.delete("1.csv"))
    runtime.run(store.put_if_absent("1.csv", b"x\n2\n"))
    with pytest.raises(tl.InvalidInputError, match=r"'raw' changed in '[01]\.csv'"):
        tl.ingest.csv(src, ds.url, storage_options=options)
