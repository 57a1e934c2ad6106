"""tl.graphs.from_ogb: graphs from the files that the Open Graph Benchmark unpacks."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

import tensorlake as tl

NODES, EDGES = 9, 25


def rows(path, values, form="%g"):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        np.savetxt(file, values, fmt=form, delimiter=",")


@pytest.fixture
def arrays():
    random = np.random.default_rng(0)
    return {
        "edges": random.integers(0, NODES, (2, EDGES)),
        "x": random.random((NODES, 4)).round(4).astype("float32"),
        "y": random.integers(0, 5, NODES),
        "edge_attr": random.random((EDGES, 2)).round(4).astype("float32"),
        "node_year": random.integers(2000, 2020, (NODES, 1)),
    }


@pytest.fixture
def folder(tmp_path, arrays):
    raw = tmp_path / "ogbn" / "raw"
    rows(raw / "edge.csv.gz", arrays["edges"].T)
    rows(raw / "num-node-list.csv.gz", [NODES])
    rows(raw / "num-edge-list.csv.gz", [EDGES])
    rows(raw / "node-feat.csv.gz", arrays["x"], "%.4f")
    rows(raw / "node-label.csv.gz", arrays["y"])
    rows(raw / "edge-feat.csv.gz", arrays["edge_attr"], "%.4f")
    rows(raw / "node_year.csv.gz", arrays["node_year"])
    split = tmp_path / "ogbn" / "split" / "time"
    for part, nodes in (("train", [1, 3, 5]), ("valid", [2]), ("test", [])):
        rows(split / f"{part}.csv.gz", nodes)
    return tmp_path / "ogbn"


def test_a_graph_has_the_arrays_of_the_files(tmp_path, folder, arrays):
    ds = tl.graphs.from_ogb(folder, tmp_path / "g.tl")

    assert len(ds) == NODES
    for name in ("x", "y", "node_year"):
        assert np.array_equal(ds[name][:], arrays[name])
    for node in range(NODES):
        is_own = arrays["edges"][1] == node
        assert ds["neighbors"][node].tolist() == arrays["edges"][0][is_own].tolist()
        assert np.array_equal(ds["edge_attr"][node], arrays["edge_attr"][is_own])
    assert ds.where("split = 'train'").rows.tolist() == [1, 3, 5]
    assert ds.where("split IS NULL").count() == 5


def test_archives_are_the_same_graph_and_edges_get_their_inverse(tmp_path, folder, arrays):
    raw = folder / "raw"
    for path in raw.glob("*.csv.gz"):
        path.unlink()
    np.savez(
        raw / "data.npz",
        edge_index=arrays["edges"],
        node_feat=arrays["x"],
        node_year=arrays["node_year"],
        num_nodes_list=[NODES],
        num_edges_list=[EDGES],
    )
    np.savez(raw / "node-label.npz", node_label=arrays["y"][:, None].astype("float32"))

    ds = tl.graphs.from_ogb(folder, tmp_path / "g.tl", inverse=True)

    assert np.array_equal(ds["x"][:], arrays["x"])
    assert np.array_equal(ds["y"][:], arrays["y"])
    both = np.concatenate([arrays["edges"], arrays["edges"][::-1]], axis=1)
    for node in range(NODES):
        assert ds["neighbors"][node].tolist() == both[0][both[1] == node].tolist()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: (raw / "edge.csv.gz").unlink(), "there is no .*edge.csv.gz"),
        (lambda raw: rows(raw / "num-node-list.csv.gz", [3, 6]), "has 2 graphs"),
        (lambda raw: rows(raw / "num-node-list.csv.gz", [8]), "has 9 rows, and the graph 8"),
        (lambda raw: rows(raw / "node-feat.csv.gz", [["a"]], "%s"), "tables have numbers"),
        (lambda raw: (raw / "edge.csv.gz").write_bytes(b"not gzip"), "edge.csv.gz"),
        (lambda raw: rows(raw.parent / "split/time/test.csv.gz", [99]), "has the node 99"),
    ],
)
def test_other_files_are_refused_and_nothing_is_made(tmp_path, folder, change, words):
    change(folder / "raw")
    with pytest.raises(tl.InvalidInputError, match=words):
        tl.graphs.from_ogb(folder, tmp_path / "g.tl")
    assert not tl.exists(tmp_path / "g.tl")
