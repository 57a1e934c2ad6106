"""What queries cost: said before they run, counted when they do, spread over threads of a run."""

import pickle
import re
import tracemalloc

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.dataset.query.tables import source_of
from tensorlake.reading import MATERIALISED_ROWS_MAX
from tensorlake.storage import counted
from tensorlake_query.execution import batches, workers


@pytest.fixture
def ds(request):
    """Three chunks of a hundred rows: cats, dogs, cats."""
    made = tl.create(
        f"memory://costs-{request.node.name}",
        {"label": tl.ClassLabel(["cat", "dog"]), "score": "float32"},
    )
    for number in range(3):
        made.extend({"label": [number % 2] * 100, "score": np.arange(100)})
        made.commit(f"hundred {number}")
    return tl.open(made.url)


@pytest.fixture
def in_threads(monkeypatch):
    """Batches of sixteen rows, of whatever condition, on four threads."""
    monkeypatch.setattr(workers, "thread_count", lambda: 4)
    monkeypatch.setattr(workers, "THREADED_COST", 0)
    monkeypatch.setattr(batches, "MAX_BATCH_ROWS", 16)


def plan_of(ds, query):
    return "\n".join(ds.query(query)["plan"][:])


def test_a_plan_says_what_it_reads_at_most_and_reads_no_chunk(ds):
    with counted() as tally:
        plan = plan_of(ds, "EXPLAIN WHERE label = 'dog' AND score > 20")

    assert "scans 100 of 300 rows" in plan
    assert re.search(r"reads of label at most: 1 chunk, \d+ bytes, 1 request$", plan, re.MULTILINE)
    assert re.search(r"reads of score at most: 1 chunk, \d+ bytes, 1 request$", plan, re.MULTILINE)
    assert tally.nbytes == 0


def test_a_view_says_it_too(ds):
    view = ds.query("WHERE label = 'cat'")
    elsewhere = pickle.loads(pickle.dumps(view))

    assert elsewhere.explain() == view.explain().partition("\nscans")[0]
    assert "scans 200 of 300 rows\nreads of label at most: 2 chunks" in view.explain()


def test_a_folder_needs_no_requests(tmp_path):
    ds = tl.create(str(tmp_path / "ds.tl"), {"x": "int64"})
    ds.extend({"x": np.arange(100)})
    ds.commit("numbers")

    plan = plan_of(ds, "EXPLAIN WHERE x > 3")

    assert re.search(r"reads of x at most: 1 chunk, [\d,]+ bytes, 0 requests", plan)


@pytest.fixture(scope="module")
def many():
    """More rows than are ever listed to say what reading them takes: 64 MiB of numbers."""
    made = tl.create("memory://costs-of-many", {"x": "uint8"})
    made.extend({"x": np.zeros(MATERIALISED_ROWS_MAX + 1000, np.uint8)})
    made.commit("many")
    return tl.open(made.url)


def test_a_plan_over_many_rows_lists_none_of_them(many):
    tracemalloc.start()

    plan = plan_of(many, "EXPLAIN WHERE x % 2 = 1")

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert re.search(r"reads of x at most: \d+ chunks?, [\d,]+ bytes, \d+ requests?$", plan)
    assert peak < MATERIALISED_ROWS_MAX * 8 // 2


def test_nothing_is_said_of_many_rows_that_do_not_follow_each_other(many):
    staged = tl.open(many.url)
    staged.delete(5)

    plan = plan_of(staged, "EXPLAIN WHERE x % 2 = 1")

    assert plan.endswith(f"scans {len(staged):,} of {len(staged):,} rows")


def test_ranges_of_rows_cost_the_chunks_that_they_touch(ds):
    ds["score"][150] = -1  # cuts a chunk in two
    ds.extend({"label": ["cat"] * 5, "score": np.ones(5)})
    view = rowset_of(ds)
    source = source_of(view)
    ranges = [(0, 1), (99, 100), (120, 130), (140, 150), (151, 160), (299, 305)]

    for chosen in range(1 << len(ranges)):
        some = [each for at, each in enumerate(ranges) if chosen >> at & 1]
        rows = np.concatenate([np.arange(0), *(np.arange(*each) for each in some)])
        chunks = (
            rowset_of(view).session.reader(rowset_of(view).selection.snapshot).chunks("score", rows)
        )
        cost = source.cost("score", np.array(some, np.int64).reshape(-1, 2))
        assert (cost.chunks, cost.nbytes) == (len(chunks), sum(key.nbytes for key in chunks))


def test_what_a_run_took_is_what_was_expected_of_its_chunks(ds):
    expected = plan_of(ds, "EXPLAIN WHERE label = 'dog'")

    plan = plan_of(ds, "EXPLAIN ANALYZE WHERE label = 'dog'")

    nbytes = re.search(r"1 chunk, (\d+) bytes", expected)[1]
    assert plan.endswith(f"read from the store: {nbytes} bytes in 1 request")


def test_reads_in_threads_are_counted_like_any_other(ds, in_threads):
    with counted() as tally:
        found = ds.query("WHERE score >= 98 ORDER BY score DESC").rows.tolist()

    assert found == [99, 199, 299, 98, 198, 298]
    assert tally.requests == 3


def test_a_change_that_holds_the_handle_reads_in_threads(ds, in_threads):
    writer = tl.open(ds.url)

    assert writer.execute("UPDATE this SET score = score * 2 WHERE score % 2 = 1") == 150
    gone = writer.execute("DELETE FROM this WHERE score < 10")
    assert gone == 3 * len([0, 2, 4, 6, 8, 1 * 2, 3 * 2])
    assert writer.execute("INSERT INTO this SELECT label, score WHERE score > 190") == 6

    assert len(writer) == 300 - gone + 6
    assert len(writer.query("WHERE score IN (SELECT score WHERE label = 'dog')")) == len(writer)


def test_a_timeout_covers_the_opening_of_a_source_of_from():
    ds = tl.create("memory://opening", {"x": "int64"})
    url = "http://127.0.0.1:1/x"  # refuses connections, which is tried again for ten seconds
    with pytest.raises(tl.QueryLimitError, match="source of FROM was opened"):
        ds.query(f'SELECT * FROM "{url}"', timeout=0.2)
