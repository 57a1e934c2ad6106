"""tl.graphs with several types of nodes and edges: a dataset for each type of nodes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import tensorlake as tl

COUNTS = {"author": 20, "paper": 30, "venue": 3}
WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")


class Store(dict):
    """A part of a HeteroData, as far as it is used."""

    @property
    def num_nodes(self):
        return self["num_nodes"]

    def is_node_attr(self, name):
        return name != "odd"


class Hetero(dict):
    """A torch_geometric.data.HeteroData, as far as it is used."""

    node_types = property(lambda self: [key for key in self if isinstance(key, str)])
    edge_types = property(lambda self: [key for key in self if isinstance(key, tuple)])


def random_ends(seed, count, source, target):
    random = np.random.default_rng(seed)
    return np.stack([random.integers(0, COUNTS[one] - 1, count) for one in (source, target)])


def hetero():
    data = Hetero({name: Store(num_nodes=count) for name, count in COUNTS.items()})
    data["author"]["x"] = np.arange(20 * 2, dtype="float32").reshape(20, 2)
    data["paper"]["x"] = 1000 + np.arange(30 * 3, dtype="float32").reshape(30, 3)
    data["paper"]["y"] = np.arange(30)
    data[WRITES] = Store(
        edge_index=random_ends(1, 60, "author", "paper"), edge_attr=np.arange(60, dtype="float32")
    )
    data[CITES] = Store(edge_index=random_ends(2, 90, "paper", "paper"))
    data["paper", "written_by", "author"] = Store(edge_index=data[WRITES]["edge_index"][::-1])
    return data


@pytest.fixture(scope="module")
def graph():
    made = tl.graphs.from_hetero(hetero(), "memory://hetero")
    yield made
    for ds in made.values():
        ds.close()


def test_each_type_is_a_dataset_with_the_edges_into_it(graph):
    ends = hetero()[WRITES]["edge_index"]

    assert {name: len(ds) for name, ds in graph.items()} == COUNTS
    assert list(graph["paper"].schema) == [
        "neighbors.author.writes",
        "neighbors.paper.cites",
        "x",
        "y",
        "edge_attr.author.writes",
    ]
    assert graph["author"].url == "memory://hetero/author"
    for paper in range(COUNTS["paper"]):
        is_own = ends[1] == paper
        assert graph["paper"]["neighbors.author.writes"][paper].tolist() == ends[0][is_own].tolist()
        features = graph["paper"]["edge_attr.author.writes"][paper]
        assert features.tolist() == np.flatnonzero(is_own).tolist()


@pytest.mark.parametrize("cache", ["256MiB", 0])
def test_batches_have_edges_of_the_graph_and_rows_of_their_nodes(graph, cache):
    data = hetero()
    there = {kind: Counter(map(tuple, data[kind]["edge_index"].T)) for kind in data.edge_types}
    loader = tl.graphs.NeighborLoader(
        graph, ("paper", np.arange(30)), [3, 2], batch_size=7, cache=cache, framework="numpy"
    )
    seeds = []
    for batch in loader:
        ids = batch.n_id_dict
        seeds += ids["paper"][: batch.batch_size].tolist()
        assert set(batch.edge_index_dict) == set(data.edge_types)
        assert "venue" not in batch.x_dict
        for name in ("author", "paper"):
            assert len(set(ids[name].tolist())) == len(ids[name])
            assert (batch.x_dict[name] == data[name]["x"][ids[name]]).all()
        assert (batch.y_dict["paper"] == ids["paper"]).all()
        for kind, edges in batch.edge_index_dict.items():
            pairs = zip(ids[kind[0]][edges[0]], ids[kind[2]][edges[1]], strict=True)
            assert all(there[kind][pair] for pair in pairs)
        written = batch.edge_index_dict[WRITES]
        named = data[WRITES]["edge_index"][:, batch.edge_attr_dict[WRITES].astype(int)]
        assert (named[0] == ids["author"][written[0]]).all()
        assert (named[1] == ids["paper"][written[1]]).all()
    assert sorted(seeds) == list(range(30))


def test_all_neighbors_of_a_hop_are_all_edges_into_the_seeds(graph):
    data = hetero()
    (batch,) = tl.graphs.NeighborLoader(
        graph, ("paper", [3, 4]), [-1], batch_size=2, framework="numpy"
    )

    for kind in (WRITES, CITES):
        ends = data[kind]["edge_index"]
        assert batch.edge_index_dict[kind].shape[1] == np.isin(ends[1], [3, 4]).sum()
    assert batch.edge_index_dict["paper", "written_by", "author"].shape == (2, 0)


def test_a_state_continues_and_ranks_share_the_seeds(graph):
    def loader(**options):
        given = {"batch_size": 4, "shuffle": True, "seed": 3, "framework": "numpy", **options}
        return tl.graphs.NeighborLoader(graph, ("author", np.arange(20)), [2], **given)

    whole, first = loader(), loader()
    expected = [batch.n_id_dict["paper"].tolist() for batch in whole]
    for _, _batch in zip(range(2), first, strict=False):
        state = first.state_dict()
    rest = loader()
    rest.load_state_dict(state)
    ranks = [
        batch.n_id_dict["author"][: batch.batch_size]
        for rank in range(2)
        for batch in loader(rank=rank, world_size=2)
    ]

    assert [batch.n_id_dict["paper"].tolist() for batch in rest] == expected[2:]
    assert sorted(np.concatenate(ranks).tolist()) == list(range(20))


def test_wrong_graphs_and_seeds_are_refused(graph):
    paper, loader = graph["paper"], tl.graphs.NeighborLoader
    with pytest.raises(tl.MissingTensorError, match="nodes of type 'author'"):
        loader({"paper": paper}, ("paper", [1]), [1], batch_size=1)
    with pytest.raises(tl.InvalidInputError, match="no edges"):
        loader({"venue": graph["venue"]}, ("venue", [1]), [1], batch_size=1)
    with pytest.raises(tl.InvalidInputError, match=r"seeds=\('author', ids\)"):
        loader(graph, [1, 2], [1], batch_size=1)
    with pytest.raises(tl.InvalidInputError, match="the node 30"):
        loader(graph, ("paper", [30]), [1], batch_size=1)
    with pytest.raises(tl.InvalidInputError, match="got list"):
        tl.graphs.from_hetero([], "memory://none")
    for change, error, words in (
        (lambda data: data["paper"].update(odd=1), tl.UnsupportedFeatureError, "'odd' of 'paper'"),
        (lambda data: data.update({"a.b": Store(num_nodes=1)}), tl.UnsupportedFeatureError, "dot"),
        (lambda data: data[CITES]["edge_index"].put(0, 99), tl.InvalidInputError, "the node 99"),
    ):
        data = hetero()
        change(data)
        with pytest.raises(error, match=words):
            tl.graphs.from_hetero(data, "memory://refused")
        assert not tl.exists("memory://refused/paper")
