"""tl.graphs: edges in, sampled neighborhoods out, against a sampler of twenty lines."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.workloads.graphs.sampling import choose, sample

NODES, EDGES = 60, 400


@pytest.fixture(scope="module")
def edges():
    random = np.random.default_rng(2)
    ends = random.integers(0, NODES - 5, (2, EDGES))  # the last five nodes are isolated
    ends[:, :5] = 7  # an edge to itself, five times
    return ends


@pytest.fixture(scope="module")
def graph(edges):
    x = np.arange(NODES * 3, dtype="float32").reshape(NODES, 3)
    attr = {"edge_attr": np.arange(EDGES * 2, dtype="float32").reshape(EDGES, 2)}
    with tl.graphs.from_edges(
        edges, "memory://graph", x=x, y=np.arange(NODES), edges=attr, extra=["a"] * NODES
    ) as ds:
        yield ds


def loader_of(graph, *, seeds=None, **options):
    given = {"fanouts": [3, 2], "batch_size": 7, "framework": "numpy", **options}
    seeds = np.arange(NODES) if seeds is None else np.asarray(seeds)
    return tl.graphs.NeighborLoader(graph, seeds, **given)


def same(one, other):
    names = ("n_id", "edge_index", "x", "y", "edge_attr")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def test_neighbors_are_the_sources_of_edges_in_their_order(graph, edges):
    lists = graph["neighbors"][:]

    for node in range(NODES):
        assert lists[node].tolist() == edges[0][edges[1] == node].tolist()
        assert (graph["edge_attr"][node][:, 0] / 2 == np.flatnonzero(edges[1] == node)).all()
    assert len(lists[NODES - 1]) == 0
    assert graph["extra"][0] == "a"


def test_batches_have_edges_of_the_graph_and_rows_of_their_nodes(graph, edges):
    there = Counter(map(tuple, edges.T.tolist()))
    seen = []
    for batch in loader_of(graph, cache=12 * 20):
        sources, targets = batch.n_id[batch.edge_index]
        drawn = Counter(zip(sources.tolist(), targets.tolist(), strict=True))
        assert all(count <= there[edge] for edge, count in drawn.items())
        assert len(np.unique(batch.n_id)) == len(batch.n_id)
        assert (batch.x == graph["x"][:][batch.n_id]).all()
        assert (batch.y == batch.n_id).all()
        places = (batch.edge_attr[:, 0] / 2).astype(int)
        assert (edges[:, places] == [sources, targets]).all()
        assert len(np.unique(places)) == len(places)
        seen += batch.n_id[: batch.batch_size].tolist()
    assert seen == list(range(NODES))


def reference(edges, seed, fanouts, random):
    """The documented algorithm, node by node: edges of one seed's neighborhood."""
    nodes, frontier, found = [seed], [seed], []
    for fanout in fanouts:
        new = []
        for node in frontier:
            sources = edges[0][edges[1] == node]
            taken = sources
            if 0 <= fanout < len(sources):
                taken = random.choice(sources, fanout, replace=False)
            for source in taken.tolist():
                found.append((source, node))
                if source not in nodes:
                    nodes.append(source)
                    new.append(source)
        frontier = new
    return found


def test_samples_have_the_distribution_of_the_reference(graph, edges):
    node = int(np.argmax(np.bincount(edges[1], minlength=NODES)))
    rounds, random = 1500, np.random.default_rng(4)
    lists = graph["neighbors"][:]

    def read(ids):
        arrays = [lists[int(one)] for one in ids]
        return np.concatenate(arrays), np.cumsum([0, *map(len, arrays)])

    generators = [np.random.default_rng(100 + one) for one in range(rounds)]
    ours, theirs = Counter(), Counter()
    for one in sample([np.array([node])] * rounds, [3, 2], generators, [read]):
        pairs = zip(one.nodes[one.sources].tolist(), one.nodes[one.targets].tolist(), strict=True)
        ours.update(pairs)
    for _ in range(rounds):
        theirs.update(reference(edges, node, [3, 2], random))

    keys = [key for key in ours.keys() | theirs.keys() if ours[key] + theirs[key] >= 20]
    a, b = (np.array([counted[key] for key in keys], float) for counted in (ours, theirs))
    chi_square = ((a - b) ** 2 / (a + b)).sum()
    assert set(ours) <= set(map(tuple, edges.T.tolist()))
    # mean n, variance 2 n: four deviations above
    assert chi_square < len(keys) + 4 * np.sqrt(2 * len(keys))


def test_every_subset_of_a_list_is_equally_likely():
    rounds = 6000
    places, counts = choose(np.full(rounds, 5), 3, np.random.default_rng(1))

    drawn = Counter(map(tuple, np.sort(places.reshape(rounds, 3)).tolist()))
    expected = rounds / 10
    assert set(drawn) == set(combinations(range(5), 3))
    assert (counts == 3).all()
    chi_square = sum((count - expected) ** 2 / expected for count in drawn.values())
    assert chi_square < 9 + 4 * np.sqrt(18)


@given(st.lists(st.integers(0, 12), max_size=12), st.integers(-1, 14), st.integers(0, 99))
@settings(max_examples=60)
def test_places_are_distinct_and_within_their_lists(degrees, fanout, seed):
    degrees = np.array(degrees, np.int64)
    places, counts = choose(degrees, fanout, np.random.default_rng(seed))

    assert (counts == (degrees if fanout < 0 else np.minimum(degrees, fanout))).all()
    for degree, part in zip(
        degrees, np.split(places, np.cumsum(counts)[:-1]), strict=len(degrees) > 0
    ):
        assert len(set(part.tolist())) == len(part)
        assert ((part >= 0) & (part < degree)).all()


def test_batches_are_the_same_again_and_with_any_cache_or_superbatch(graph, monkeypatch):
    first = list(loader_of(graph, shuffle=True, seed=3))
    loader = loader_of(graph, shuffle=True, seed=3, cache=0)
    monkeypatch.setattr("tensorlake.workloads.graphs.neighbors.SUPERBATCH", 2)
    again, next_epoch = list(loader), list(loader)

    assert all(map(same, first, again))
    assert not any(map(same, again, next_epoch))
    assert sorted(n for batch in next_epoch for n in batch.n_id[: batch.batch_size]) == list(
        range(NODES)
    )


def test_a_state_continues_after_its_batch_in_any_epoch(graph):
    loader = loader_of(graph, shuffle=True, seed=5)
    list(loader)
    batches = iter(loader)
    before = [next(batches) for _ in range(3)]
    state = json.loads(json.dumps(loader.state_dict()))
    rest = list(batches)

    other = loader_of(graph, shuffle=True, seed=5)
    other.load_state_dict(state)
    assert len(before) + len(rest) == len(loader)
    continued = list(other)
    assert len(continued) == len(rest)
    assert all(map(same, continued, rest))
    assert other.epoch == 2


@pytest.mark.parametrize(
    "changed", [{"seed": 6}, {"batch_size": 8}, {"fanouts": [3]}, {"seeds": [1]}]
)
def test_a_state_of_another_loader_is_refused(graph, changed):
    state = loader_of(graph, seed=5).state_dict()

    with pytest.raises(tl.StateMismatchError, match=next(iter(changed))):
        loader_of(graph, **{"seed": 5, **changed}).load_state_dict(state)
    with pytest.raises(tl.StateMismatchError, match="has no"):
        loader_of(graph).load_state_dict({})
    with pytest.raises(tl.StateMismatchError, match="has no"):
        loader_of(graph).load_state_dict(None)  # pyright: ignore[reportArgumentType] - on purpose


@pytest.mark.parametrize("world", [1, 2, 7, 60, 64])
def test_ranks_have_as_many_batches_and_every_seed(graph, world):
    parts = [
        [batch.n_id[: batch.batch_size] for batch in loader_of(graph, rank=r, world_size=world)]
        for r in range(world)
    ]

    assert len({len(part) for part in parts}) == 1
    seeds = np.concatenate([seeds for part in parts for seeds in part])
    assert set(seeds.tolist()) == set(range(NODES))
    assert len(seeds) - NODES < world


def test_seeds_are_ids_a_mask_or_a_view(graph):
    ids = [7, 3, 59]
    mask = np.isin(np.arange(NODES), ids)

    def seeds(given):
        loader = tl.graphs.NeighborLoader(graph, given, batch_size=9, framework="numpy")
        return [batch.n_id[: batch.batch_size].tolist() for batch in loader]

    assert seeds(ids) == [ids]
    assert seeds(mask) == [[3, 7, 59]]
    assert seeds(graph.where("y >= 58")) == [[58, 59]]
    assert seeds([]) == []
    (batch,) = tl.graphs.NeighborLoader(graph, [59], batch_size=1, framework="numpy")
    assert batch.edge_index.shape == (2, 0)
    assert batch.n_id.tolist() == [59]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"seeds": [NODES]}, "node 60"),
        ({"seeds": [-1]}, "node -1"),
        ({"seeds": [1, 1]}, "twice"),
        ({"seeds": [0.5]}, "ids of nodes"),
        ({"seeds": [True]}, "ids of nodes|a mask"),
        ({"fanouts": 3}, r"\[15, 10\]"),
        ({"fanouts": [-2]}, "fanouts"),
        ({"batch_size": 0}, "batch_size"),
        ({"rank": 1}, "together"),
        ({"rank": 2, "world_size": 2}, "rank"),
        ({"framework": "jax"}, "'torch' or 'numpy'"),
        ({"cache": "many"}, "cache"),
    ],
)
def test_wrong_arguments_are_refused_in_words(graph, arguments, words):
    with pytest.raises(tl.InvalidInputError, match=words):
        loader_of(graph, **arguments)


def test_a_part_of_a_graph_is_not_a_graph(graph):
    with pytest.raises(tl.InvalidInputError, match="seeds="):
        loader_of(graph.where("y > 3"), seeds=[1])
    with pytest.raises(tl.MissingTensorError, match="from_edges"):
        loader_of(graph[["x"]])
    with pytest.raises(tl.InvalidInputError, match="got list"):
        loader_of([])


def test_ids_that_deleted_rows_had_are_found(edges):
    with tl.graphs.from_edges(edges, "memory://graph-deleted", num_nodes=NODES) as ds:
        ds.delete(slice(20, 60))
        ds.commit("fewer")
        with pytest.raises(tl.InvalidInputError, match="ids are row numbers"):
            list(loader_of(ds, seeds=range(20)))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"edge_index": [[0, 1]]}, tl.ShapeMismatchError, "transpose"),
        ({"edge_index": [[0.5], [1]]}, tl.DTypeMismatchError, "integers"),
        ({"edge_index": [[0], [-1]]}, tl.InvalidInputError, "edge 0 leads to the node -1"),
        ({"edge_index": [[9], [1]], "num_nodes": 9}, tl.InvalidInputError, "from the node 9"),
        ({"edge_index": [[2], [0]], "x": [[1], [2]]}, tl.InvalidInputError, "2 nodes"),
        ({"edge_index": [[0], [0]], "x": [[1]], "y": [1, 2]}, tl.ShapeMismatchError, "'y'"),
        ({"edge_index": [[0], [0]], "edges": {"w": [1, 2]}}, tl.ShapeMismatchError, "'w'"),
        ({"edge_index": [[0], [0]], "neighbors": [1]}, tl.SchemaError, "two tensors"),
        ({"edge_index": [[0], [0]], "schema": {"z": "int8"}}, tl.SchemaError, "'z'"),
        (
            {"edge_index": np.array([[2**64 - 1], [0]], "uint64")},
            tl.InvalidInputError,
            "18446744073709551615",
        ),
        ({"edge_index": [[0], [10**12]]}, tl.InvalidInputError, "np.unique"),
        ({"edge_index": [[0], [1]], "num_nodes": 2**62}, tl.InvalidInputError, "num_nodes"),
    ],
)
def test_edges_that_make_no_graph_are_refused_and_nothing_is_made(arguments, error, words):
    with pytest.raises(error, match=words):
        tl.graphs.from_edges(url="memory://no-graph", **arguments)
    assert not tl.exists("memory://no-graph")


def test_graphs_without_edges_or_nodes(tmp_path):
    lonely = tl.graphs.from_edges([[], []], str(tmp_path / "l.tl"), x=np.ones((3, 2), "float32"))
    none = tl.graphs.from_edges([[], []], str(tmp_path / "n.tl"))

    assert [len(batch.n_id) for batch in loader_of(lonely, seeds=range(3), batch_size=2)] == [2, 1]
    assert len(none) == 0
    assert list(loader_of(none, seeds=[])) == []
