"""What queries cost: said before they run, counted when they do, spread over threads of a run."""

import pickle
import re

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.storage import counted
from tensorlake_query import executor, workers


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
    monkeypatch.setattr(executor, "MAX_BATCH_ROWS", 16)


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
