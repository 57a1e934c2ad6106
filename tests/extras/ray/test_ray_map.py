"""map(engine="ray"): equal to threads, whatever ends under way."""

from __future__ import annotations

import os
import signal
import sys
import threading

import numpy as np
import pytest

import tensorlake as tl
from tests.extras.ray.killed_call import killed_and_made_again

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

ROWS = 500
SCHEMA = {"sum": "float32", "words": "str", "part": tl.Array("float32", (None,))}


@pytest.fixture
def rows(made):
    with tl.open(made) as ds:
        yield ds
        ds.discard()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Texts, some NULL, and ragged arrays, in two commits."""
    random = np.random.default_rng(7)
    schema = {"x": tl.Array("float32", (None,)), "text": tl.Text(nullable=True)}
    with tl.create(str(tmp_path_factory.mktemp("ray") / "rows.tl"), schema) as ds:
        for half in range(2):
            ds.extend(
                {
                    "x": [random.random(n % 9, np.float32) for n in range(ROWS // 2)],
                    "text": [None if n % 7 == 3 else f"row {half} {n}" for n in range(ROWS // 2)],
                }
            )
            ds.commit(f"half {half}")
        return ds.url


def of_row(row):
    return {"sum": row["x"].sum(), "words": (row["text"] or "none")[::-1], "part": row["x"][1:]}


def of_batch(batch):
    # Within the function: workers do not have this module
    texts = [(text or "none")[::-1] for text in batch["text"]]
    return {"sum": [x.sum() for x in batch["x"]], "words": texts, "part": [*batch["x"]]}


@pytest.fixture(autouse=True)
def _by_value():
    """Workers get this module's functions as they are: they cannot import it."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def values_of(ds, names=(*SCHEMA,)):
    return {name: [*map(str, ds[name].to_list())] for name in names}


@pytest.mark.parametrize("batch_size", [None, 33])
def test_outputs_are_those_of_threads(cluster, rows, tmp_path, batch_size):
    function = of_row if batch_size is None else of_batch
    made = [
        rows.map(
            function, schema=SCHEMA, to=str(tmp_path / engine), engine=engine, batch_size=batch_size
        )
        for engine in ("threads", "ray")
    ]

    assert values_of(made[0]) == values_of(made[1])
    assert len(made[1]) == ROWS


def test_outputs_in_place_are_those_of_threads_and_chosen_rows_alone(cluster, rows):
    staged, missing = [], rows["text"].to_list().count(None)
    for engine in ("threads", "ray"):
        rows.map(of_row, schema=SCHEMA, where="text IS NOT NULL", engine=engine, workers=1)
        staged.append(values_of(rows))
        rows.discard()

    assert staged[0] == staged[1]
    assert staged[1]["sum"].count("None") == missing


def test_no_rows_and_one_row_are_mapped(cluster, tmp_path):
    for count in (0, 1):
        with tl.create(str(tmp_path / f"{count}.tl"), {"x": "int64"}) as ds:
            ds.extend({"x": [*range(count)]})
            ds.commit("rows")
            ds.map(lambda row: {"y": row["x"] + 1}, schema={"y": "int64"}, engine="ray")
            assert ds["y"].read().tolist() == [1] * count
            ds.discard()


def test_a_worker_that_is_killed_has_its_rows_run_again(cluster, rows, tmp_path):
    mark = tmp_path / "killed"

    def once(row):
        if row["text"] == "row 1 100" and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"sum": row["x"].sum()}

    made = rows.map(once, schema={"sum": "float32"}, to=str(tmp_path / "made"), engine="ray")

    assert mark.exists()
    assert made["sum"][:].tolist() == [x.sum() for x in rows["x"][:]]


def test_a_function_that_always_ends_its_worker_is_an_error(cluster, rows):
    def end(row):
        os._exit(9)

    with pytest.raises(tl.errors.InvalidStateError, match=r"ended 4 times .*for rows 0 to 63"):
        rows.map(end, schema={"sum": "float32"}, engine="ray", workers=1)
    assert not rows.has_changes


def test_a_class_is_constructed_once_a_worker(cluster, rows):
    class Model:
        def __init__(self):
            self.rows = 0

        def __call__(self, row):
            self.rows += 1
            return {"worker": os.getpid(), "rows": self.rows}

    schema = {"worker": "int64", "rows": "int64"}
    rows.map(Model, columns=["text"], schema=schema, engine="ray", workers=2)

    counts = np.unique(rows["worker"][:], return_counts=True)[1]
    assert 1 <= len(counts) <= 2
    assert rows["rows"][:].max() == counts.max()
    rows.discard()


def test_what_a_function_or_its_constructor_raises_is_raised(cluster, rows):
    class Broken:
        def __init__(self):
            raise OSError("no weights")

        def __call__(self, row): ...

    def fail(row):
        raise KeyError(row["text"])

    with pytest.raises(OSError, match="no weights"):
        rows.map(Broken, schema={"y": "int64"}, engine="ray")
    with pytest.raises(KeyError, match="row 0 0") as raised:
        rows.map(fail, schema={"y": "int64"}, engine="ray")
    assert "for row 0 of" in raised.value.__notes__[0]
    with pytest.warns(tl.errors.SkippedRowsWarning):
        rows.map(fail, schema={"y": "int64"}, engine="ray", on_error="skip")
    assert len(rows.map_report.skipped_rows) == ROWS
    rows.discard()


def test_what_no_worker_could_do_is_refused_at_once(cluster, rows):
    lock = threading.Lock()
    with pytest.raises(tl.errors.InvalidInputError, match="no node of the Ray cluster has"):
        rows.map(of_row, schema=SCHEMA, engine="ray", resources={"tpu": 1})
    with pytest.raises(tl.errors.InvalidInputError, match="cannot be sent to workers"):
        rows.map(lambda row: lock, schema=SCHEMA, engine="ray")
    rows.append({"x": np.zeros(2, np.float32), "text": "staged"})
    with pytest.raises(tl.errors.InvalidStateError, match="commit or discard them first"):
        rows.map(of_row, schema=SCHEMA, engine="ray")
    rows.discard()


CALL = """
tl.open(source).map(
    lambda row: {"y": len(row["text"] or ""), "of": row["_row"]},
    columns=["text", "_row"],
    schema={"y": "int64", "of": "int64"},
    to=to,
    engine="ray",
    commit_every=100,
).map_report.already_there
"""


def test_a_call_that_is_killed_and_made_again_has_each_row_once(rows, tmp_path):
    to = str(tmp_path / "made.tl")

    there, printed = killed_and_made_again(rows.url, to, CALL.strip())

    assert there == 200
    assert printed.split() == ["200"]
    made = tl.open(to)
    assert made["of"][:].tolist() == [*range(ROWS)]
    assert made["y"][:].tolist() == [len(text or "") for text in rows["text"].to_list()]
