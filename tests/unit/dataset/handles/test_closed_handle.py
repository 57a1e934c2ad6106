"""A closed handle: no changes, and what was read of it stays readable."""

from collections.abc import Callable
from typing import Any

import pytest

import tensorlake as tl
from tensorlake.errors import InvalidStateError

CLOSED = r"is closed; open the dataset again with tl\.open"


def _transaction(ds: tl.Dataset) -> None:
    with ds.transaction("nothing"):
        pass


def _assign_item(ds: tl.Dataset) -> None:
    ds["x"][0] = 9


CHANGES: dict[str, Callable[[tl.Dataset], Any]] = {
    "absorb": lambda ds: ds.absorb("x"),
    "add_tensor": lambda ds: ds.add_tensor("y", "int64", fill=0),
    "alter_tensor": lambda ds: ds.alter_tensor("x", nullable=True),
    "refresh_columns": lambda ds: ds.refresh_columns(),
    "add_check": lambda ds: ds.add_check("positive", "x >= 0"),
    "drop_check": lambda ds: ds.drop_check("positive"),
    "append": lambda ds: ds.append({"x": 4, "label": "a"}),
    "branch": lambda ds: ds.branch("fix"),
    "check": lambda ds: ds.check(repair=True, progress=False),
    "commit": lambda ds: ds.commit("none"),
    "create_index": lambda ds: ds.create_index("x"),
    "delete": lambda ds: ds.delete([0]),
    "delete_branch": lambda ds: ds.delete_branch("side"),
    "delete_tag": lambda ds: ds.delete_tag("v1"),
    "drop_index": lambda ds: ds.drop_index("x"),
    "drop_tensor": lambda ds: ds.drop_tensor("x"),
    "execute": lambda ds: ds.execute("UPDATE this SET x = 9"),
    "expire": lambda ds: ds.expire(keep_last=1),
    "extend": lambda ds: ds.extend({"x": [4], "label": ["a"]}),
    "gc": lambda ds: ds.gc(),
    "map": lambda ds: ds.map(lambda row: {"x": row["x"]}, schema={"x": "int64"}),
    "merge": lambda ds: ds.merge("side"),
    "optimize": lambda ds: ds.optimize(progress=False),
    "pull": lambda ds: ds.pull(),
    "refresh": lambda ds: ds.refresh(),
    "refresh_copy": lambda ds: ds.refresh_copy(),
    "rename_tensor": lambda ds: ds.rename_tensor("x", "z"),
    "repair": lambda ds: ds.repair(progress=False),
    "restore": lambda ds: ds.restore("main@0"),
    "revert": lambda ds: ds.revert("main@1"),
    "forget": lambda ds: ds.forget("x = 1"),
    "run": lambda ds: ds.run("first"),
    "tag": lambda ds: ds.tag("v2"),
    "transaction": _transaction,
    "upsert": lambda ds: ds.upsert({"x": [1], "label": ["b"]}, on="x"),
    # Not of a dataset by name, and changes all the same.
    "ds[name][rows] =": _assign_item,
    "ds[name].add_names": lambda ds: ds["label"].add_names(["c"]),
    "expire(dry_run=True)": lambda ds: ds.expire(keep_last=1, dry_run=True),
    "gc(dry_run=True)": lambda ds: ds.gc(dry_run=True),
    "refresh(keep_staged=True)": lambda ds: ds.refresh(keep_staged=True),
    "view.save": lambda ds: ds.query("WHERE x > 1").save("large"),
}
READS = {
    *(
        "arrow_dataset",
        "at",
        "bases",
        "count",
        "diff",
        "export",
        "explain",
        "lint",
        "filter",
        "follow",
        "graph",
        "jax",
        "tensorflow",
    ),
    *("loader", "log", "order_by", "pack", "query"),
    *("sample", "select", "show", "split", "summary", "take", "unnest", "widget"),
    *("torch", "trace", "where", "branches", "has_changes", "ingest_report", "map_report"),
    *(
        "indexes",
        "nbytes",
        "row_ids",
        "rows",
        "runs",
        "schema",
        "stale",
        "checks",
        "validate",
        "search",
        "tags",
        "tensors",
        "url",
        "version",
        "views",
        "windows",
    ),
}
ENDS = {"close", "discard"}


@pytest.fixture
def closed(tmp_path: Any):
    """A closed handle of a dataset with a branch and a tag."""
    with tl.create(
        f"memory://closed-{tmp_path.name}", {"x": "int64", "label": tl.ClassLabel(["a", "b"])}
    ) as ds:
        ds.extend({"x": [1, 2, 3], "label": ["a", "b", "a"]})
        ds.commit("three")
        ds.tag("v1")
        with ds.branch("side"):
            pass
    return ds


@pytest.mark.parametrize("call", CHANGES)
def test_a_closed_handle_takes_no_change(closed: Any, call: Any):
    with pytest.raises(InvalidStateError, match=CLOSED):
        CHANGES[call](closed)
    with tl.open(closed.url) as now:
        assert (now.version, sorted(now.branches), sorted(now.tags), list(now.views)) == (
            "main@1",
            ["main", "side"],
            ["v1"],
            [],
        )


def test_every_public_name_of_a_dataset_was_thought_of():
    public = {name for name in dir(tl.Dataset) if not name.startswith("_")}
    exports = {name for name in public if name.startswith("to_")}
    assert public - exports - READS - ENDS == {name for name in CHANGES if name.isidentifier()}


def test_a_closed_handle_stays_readable(closed: Any):
    view = closed.query("WHERE x > 1")
    assert closed["x"][:].tolist() == [1, 2, 3]
    assert view["x"][:].tolist() == [2, 3]
    assert [row["x"] for row in closed] == [1, 2, 3]
    assert [one.message for one in closed.log()] == ["three", "create"]
    assert closed.at("v1").count() == 3
    assert not closed.check(progress=False).findings
    assert [batch["x"].tolist() for batch in closed.loader(batch_size=2)] == [[1, 2], [3]]
